package certfile_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/certfile"
)

// makePair returns a certificate of a name, and its key.
func makePair(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	require.NoError(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// writer returns a function that replaces a file.
func writer(t *testing.T) func(path string, text []byte) {
	t.Helper()
	changes := 0
	return func(path string, text []byte) {
		require.NoError(t, os.WriteFile(path, text, 0o600))
		changes++ // the clock of the file system may be coarse
		at := time.Now().Add(time.Duration(changes) * time.Second)
		require.NoError(t, os.Chtimes(path, at, at))
	}
}

// TestFollowsItsFiles replaces one file after the other, as a rotation does.
func TestFollowsItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := writer(t)
	cert, key := makePair(t, "first")
	write(certFile, cert)
	_, err := certfile.Load(certFile, keyFile, zerolog.Nop())
	require.Error(t, err, "there is no key")
	write(keyFile, key)
	var log bytes.Buffer
	p, err := certfile.Load(certFile, keyFile, zerolog.New(&log))
	require.NoError(t, err)
	served := func() string {
		pair, err := p.Config().GetCertificate(nil)
		require.NoError(t, err)
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		require.NoError(t, err)
		return leaf.Subject.CommonName
	}
	require.Equal(t, "first", served())

	cert, key = makePair(t, "second")
	write(certFile, cert)
	require.Equal(t, "first", served(), "halfway through a rotation")
	require.Contains(t, log.String(), "not reloaded")
	write(keyFile, key)
	require.Equal(t, "second", served())
	require.NoError(t, os.Remove(keyFile))
	require.Equal(t, "second", served(), "a file that is missing for a moment")
	require.NotContains(t, log.String(), "PRIVATE KEY")
}

// TestFollowsLinks replaces the directory that the files are linked to, by one whose files have the
// same size and time: where files are built reproducibly, they all have one time.
func TestFollowsLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "..data")
	at := time.Unix(1, 0)
	use := func(name string) {
		to := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(to, 0o700))
		cert, key := makePair(t, name)
		const size = 2000
		for file, text := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
			text = append(text, bytes.Repeat([]byte("\n"), size-len(text))...)
			path := filepath.Join(to, file)
			require.NoError(t, os.WriteFile(path, text, 0o600))
			require.NoError(t, os.Chtimes(path, at, at))
		}
		require.NoError(t, os.Symlink(name, data+".new"))
		require.NoError(t, os.Rename(data+".new", data))
	}
	use("first")
	cert, key := filepath.Join(data, "tls.crt"), filepath.Join(data, "tls.key")
	p, err := certfile.Load(cert, key, zerolog.Nop())
	require.NoError(t, err)
	ca, err := certfile.LoadClient("x-tls", certfile.Files{CA: cert}, zerolog.Nop())
	require.NoError(t, err)
	before := ca.Config().RootCAs

	use("second")
	pair, err := p.Config().GetCertificate(nil)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	require.Equal(t, "second", leaf.Subject.CommonName)
	require.False(t, before.Equal(ca.Config().RootCAs))
}
