package certfile_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/certfile"
)

// TestClientFollowsItsFiles connects to a server that demands a certificate, while the files of the
// client change.
func TestClientFollowsItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := certfile.Files{
		CA:   filepath.Join(dir, "ca.crt"),
		Cert: filepath.Join(dir, "tls.crt"),
		Key:  filepath.Join(dir, "tls.key"),
	}
	write := writer(t)
	write(f.CA, []byte("no certificate"))
	_, err := certfile.LoadClient("x-tls", f, zerolog.Nop())
	require.ErrorContains(t, err, "x-tls-ca: ")
	require.ErrorContains(t, err, "no certificate in PEM")

	serverCert, serverKey := makePair(t, "server")
	write(f.CA, serverCert)
	_, err = certfile.LoadClient("x-tls", f, zerolog.Nop())
	require.ErrorContains(t, err, "x-tls-cert, x-tls-key: ")

	firstCert, firstKey := makePair(t, "first")
	write(f.Cert, firstCert)
	write(f.Key, firstKey)
	var log bytes.Buffer
	c, err := certfile.LoadClient("x-tls", f, zerolog.New(&log))
	require.NoError(t, err)

	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
		}),
	)
	pair, err := tls.X509KeyPair(serverCert, serverKey)
	require.NoError(t, err)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequireAnyClientCert,
	}
	server.StartTLS()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialTLSContext:    c.DialContext,
	}}
	shown := func() (string, error) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		require.NoError(t, err)
		resp, err := client.Do(q)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	requireShown := func(want string) {
		got, err := shown()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	requireShown("first")

	cert, key := makePair(t, "second")
	write(f.Cert, cert)
	requireShown("first")
	write(f.Key, key)
	requireShown("second")

	write(f.CA, nil)
	requireShown("second")
	require.Contains(t, log.String(), "authorities not reloaded")
	write(f.CA, cert)
	_, err = shown()
	var untrusted x509.UnknownAuthorityError
	require.ErrorAs(t, err, &untrusted)
	write(f.CA, serverCert)
	requireShown("second")
}
