package devtest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TLSPair writes a certificate for 127.0.0.1 and its key to files. It returns their paths, and a client
// that trusts the certificate.
func TLSPair(t *testing.T) (cert, key string, client *http.Client) {
	t.Helper()
	// The test server's certificate is valid for 127.0.0.1.
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	pair := other.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	roots := x509.NewCertPool()
	roots.AddCert(other.Certificate())
	client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots},
	}}
	return write(
			"tls.crt",
			"CERTIFICATE",
			pair.Certificate[0],
		), write(
			"tls.key",
			"PRIVATE KEY",
			der,
		), client
}
