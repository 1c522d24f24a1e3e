package allinone_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/allinone"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestAPIOverTLS checks that the API speaks TLS alone where it has a certificate.
func TestAPIOverTLS(t *testing.T) {
	t.Parallel()
	// The test server's certificate is valid for 127.0.0.1.
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	pair := other.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	d := devtest.Start(t, t.TempDir(),
		"CARILLON_HTTP_TLS_CERT", write("tls.crt", "CERTIFICATE", pair.Certificate[0]),
		"CARILLON_HTTP_TLS_KEY", write("tls.key", "PRIVATE KEY", key))
	defer d.Stop(t)
	require.Contains(t, d.Out.String(), "Carillon is at https://")

	roots := x509.NewCertPool()
	roots.AddCert(other.Certificate())
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots},
	}}
	status := func(url string) int {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		resp, err := client.Do(q)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	plain := d.Api + "/api/v2/timers?app=shop"
	require.Equal(t, http.StatusBadRequest, status(plain), "plain HTTP to a port of TLS")
	require.Equal(t, http.StatusOK, status(strings.Replace(plain, "http://", "https://", 1)))
}

// TestFilesOfSettingsMustBeValid checks that a wrong file is told as a wrong setting.
func TestFilesOfSettingsMustBeValid(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	for want, args := range map[string][]string{
		"http-tls-cert, http-tls-key: ": {"-http-tls-cert", file, "-http-tls-key", file},
		"api-keys-file: ":               {"-auth", "on", "-api-keys-file", file},
	} {
		err := allinone.Dev(
			t.Context(),
			append(
				args,
				"-data-dir",
				t.TempDir(),
				"-admin-addr",
				"127.0.0.1:0",
				"-http-addr",
				"127.0.0.1:0",
			),
			devtest.NoEnv,
			io.Discard,
			io.Discard,
		)
		var p *config.Problems
		require.ErrorAs(t, err, &p)
		require.ErrorContains(t, err, want)
	}
}
