package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon-timer/carillon/libs/certfile"
)

// Certificates are the files of a TLS client. A test may replace them, as a rotation does.
type Certificates struct {
	certfile.Files

	right   certfile.Files
	changes int
}

// certificates returns a copy of the client's files that the servers accept.
func certificates(t testing.TB, server string) *Certificates {
	t.Helper()
	from := require(t, server, "CARILLON_TEST_TLS_DIR")
	c := &Certificates{
		Files: filesIn(t.TempDir()),
		right: filesIn(from),
	}
	c.InstallRight(t)
	return c
}

func filesIn(dir string) certfile.Files {
	return certfile.Files{
		CA:   filepath.Join(dir, "ca.pem"),
		Cert: filepath.Join(dir, "client.pem"),
		Key:  filepath.Join(dir, "client.key"),
	}
}

// InstallRight installs the authority of the servers and a certificate that they accept.
func (c *Certificates) InstallRight(t testing.TB) {
	t.Helper()
	c.copy(t, c.right.CA, c.CA)
	c.copy(t, c.right.Cert, c.Cert)
	c.copy(t, c.right.Key, c.Key)
}

// InstallWrongAuthority installs an authority that did not issue the servers' certificates.
func (c *Certificates) InstallWrongAuthority(t testing.TB) {
	t.Helper()
	cert, _ := makePair(t)
	c.write(t, c.CA, cert)
}

// InstallWrongPair installs a certificate that the servers refuse.
func (c *Certificates) InstallWrongPair(t testing.TB) {
	t.Helper()
	cert, key := makePair(t)
	c.write(t, c.Cert, cert)
	c.write(t, c.Key, key)
}

func (c *Certificates) copy(t testing.TB, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatalf("reading a certificate: %v", err)
	}
	c.write(t, to, text)
}

func (c *Certificates) write(t testing.TB, path string, text []byte) {
	t.Helper()
	//nolint:gosec // a temporary directory
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatalf("installing a certificate: %v", err)
	}
	c.changes++ // the clock of the file system may be coarse
	at := time.Now().Add(time.Duration(c.changes) * time.Second)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatalf("installing a certificate: %v", err)
	}
}

// makePair returns a self-signed certificate and its key, in PEM.
func makePair(t testing.TB) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("making a key: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "stranger"},
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatalf("making a certificate: %v", err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatalf("making a key: %v", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}
