package cli_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

func try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := cli.Try(t.Context(), args, devtest.NoEnv, &out, &out)
	return out.String(), err
}

func TestTryReceivesACallback(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir(), "CARILLON_CANARY", "1s")
	defer d.Stop(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	require.NoError(t, ln.Close())
	out, err := try(
		t,
		"-api",
		d.Api,
		"-ready",
		d.Admin+"/readyz",
		"-canary",
		"-listen",
		addr,
		"-url",
		"http://"+addr+"/ring",
		"-patience",
		"30s",
	)
	require.NoError(t, err, out)
	require.Contains(t, out, "the canary was delivered")
	require.Contains(t, out, "called: fire")
	require.Contains(t, out, "recorded: delivered")
	require.NotContains(t, out, "was not deleted")
	_, list := devtest.Get(t, d.Api+"/api/v2/timers?app=carillon-try")
	require.NotContains(t, list, `"try-`, "the timer is deleted")

	_, err = try(
		t,
		"-api",
		d.Api,
		"-listen",
		addr,
		"-url",
		"http://127.0.0.1:1/",
		"-patience",
		"4s",
	)
	require.ErrorContains(t, err, "did not call")
	_, err = try(t, "-ready", "http://127.0.0.1:1/readyz", "-patience", "1s")
	require.ErrorContains(t, err, "waiting for http://127.0.0.1:1/readyz")
	var p *config.Problems
	_, err = try(t, "-canary", "-url", "nowhere")
	require.ErrorAs(t, err, &p)
	_, err = try(t, "-ready", "http://127.0.0.1:1/", "-tls-ca", "/nowhere")
	require.ErrorAs(t, err, &p)
	require.ErrorContains(t, err, "tls-ca: ")
}

// TestTryWithoutACanary checks that nothing waits for a canary that is switched off.
func TestTryChecksSomething(t *testing.T) {
	t.Parallel()
	_, err := try(t, "-api", "http://127.0.0.1:1")
	require.ErrorContains(t, err, "url: missing")
}

func TestTryWithoutACanary(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir(), "CARILLON_CANARY", "0s")
	defer d.Stop(t)
	_, err := try(t, "-ready", d.Admin+"/readyz", "-canary")
	require.ErrorContains(t, err, "has no canary")
}

// TestTryOverTLS checks a deployment behind TLS whose authority the system does not know, and which
// demands a certificate of its callers.
func TestTryOverTLS(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	api, err := url.Parse(d.Api)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(api)
	proxy.Transport = devtest.Client.Transport
	gateway := httptest.NewUnstartedServer(proxy)
	gateway.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	//nolint:forbidigo // net/http wants one of these
	gateway.Config.ErrorLog = log.New(io.Discard, "", 0)
	gateway.StartTLS()
	defer gateway.Close()
	pair := gateway.TLS.Certificates[0] // it is valid for 127.0.0.1, and serves as the client's too
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	cert, private := write(
		"tls.crt",
		"CERTIFICATE",
		pair.Certificate[0],
	), write(
		"tls.key",
		"PRIVATE KEY",
		key,
	)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	require.NoError(t, ln.Close())
	args := []string{
		"-api",
		gateway.URL,
		"-listen",
		addr,
		"-url",
		"http://" + addr + "/",
		"-patience",
		"30s",
	}
	_, err = try(t, args...)
	require.ErrorContains(t, err, "certificate signed by unknown authority")
	_, err = try(t, append(args, "-tls-ca", cert)...)
	require.ErrorContains(t, err, "certificate required")
	out, err := try(t, append(args, "-tls-ca", cert, "-tls-cert", cert, "-tls-key", private)...)
	require.NoError(t, err, out)
	require.Contains(t, out, "recorded: delivered")
	_, err = try(t, append(args, "-tls-ca", private)...)
	require.ErrorContains(t, err, "tls-ca: ")
}

// TestTryShowsAKey checks the hints for a missing or wrong key, and that only the API gets the key.
func TestTryShowsAKey(t *testing.T) {
	t.Parallel()
	admin := apikey.New().Reveal()
	d := devtest.Start(
		t,
		t.TempDir(),
		"CARILLON_AUTH",
		"on",
		"CARILLON_ADMIN_KEY",
		admin,
		"CARILLON_CALLBACK_ALLOW",
		"127.0.0.1:*",
	)
	defer d.Stop(t)
	keyOf := func(app, scope string) string {
		code, body := d.Do(
			t,
			http.MethodPost,
			"/api/v2/apps/"+app+"/keys",
			admin,
			`{"name":"x","scope":"`+scope+`"}`,
		)
		require.Equal(t, http.StatusCreated, code, body)
		var made struct{ Key string }
		require.NoError(t, json.Unmarshal([]byte(body), &made))
		return made.Key
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	require.NoError(t, ln.Close())
	with := func(key string) (string, error) {
		var out bytes.Buffer
		env := func(k string) (string, bool) { return key, k == "CARILLON_API_KEY" && key != "" }
		args := []string{
			"-api",
			d.Api + "/",
			"-app",
			"shop",
			"-ready",
			d.Admin + "/readyz",
			"-listen",
			addr,
			"-url",
			"http://" + addr + "/",
			"-patience",
			"30s",
		}
		err := cli.Try(t.Context(), args, env, &out, &out)
		return out.String(), err
	}
	for key, want := range map[string]string{
		"": `a key of app "shop", or the admin key; or set CARILLON_API_KEY`, apikey.New().Reveal(): "does not know this key",
		keyOf("shop", "read"): "needs a key of scope write", keyOf("till", "write"): `the key belongs to another app than "shop"`,
	} {
		said, err := with(key)
		require.ErrorContains(t, err, want)
		if key != "" {
			require.NotContains(t, said+err.Error(), key)
		}
	}
	for _, key := range []string{keyOf("shop", "write"), admin} {
		said, err := with(key)
		require.NoError(t, err, said)
		require.Contains(t, said, "recorded: delivered")
	}
	empty := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	_, err = try(t, "-ready", "http://127.0.0.1:1/", "-key-file", empty)
	require.ErrorContains(t, err, "is empty")
}

// TestTryWaitsForAReplicaThatDoesNotKnowTheKeyYet checks that it waits as long as it was told to.
func TestTryWaitsForAReplicaThatDoesNotKnowTheKeyYet(t *testing.T) {
	t.Parallel()
	admin := apikey.New().Reveal()
	d := devtest.Start(
		t,
		t.TempDir(),
		"CARILLON_AUTH",
		"on",
		"CARILLON_ADMIN_KEY",
		admin,
		"CARILLON_CALLBACK_ALLOW",
		"127.0.0.1:*",
	)
	defer d.Stop(t)
	to, err := url.Parse(d.Api)
	require.NoError(t, err)
	var old atomic.Int64 // answers of replicas with the old keys
	through := httputil.NewSingleHostReverseProxy(to)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if old.Add(-1) >= 0 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		through.ServeHTTP(w, r)
	}))
	defer front.Close()
	env := func(k string) (string, bool) { return admin, k == "CARILLON_API_KEY" }
	with := func(patience string) error {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := ln.Addr().String()
		require.NoError(t, ln.Close())
		var out bytes.Buffer
		return cli.Try(t.Context(), []string{
			"-api",
			front.URL,
			"-listen",
			addr,
			"-url",
			"http://" + addr + "/",
			"-patience",
			"30s",
			"-key-patience",
			patience,
		}, env, &out, &out)
	}
	old.Store(3)
	require.NoError(t, with("20s"))
	old.Store(3)
	require.ErrorContains(t, with("0s"), "does not know this key")
}
