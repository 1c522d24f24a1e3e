package certfile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Files are the PEM files of a TLS client. Each may be empty.
type Files struct {
	CA        string // authorities of the server; empty means the system's
	Cert, Key string // certificate of the client and its key; empty means none
}

// Client is the TLS of connections to one kind of server. It is safe for concurrent use.
//
// Each new connection uses what the files have then. While they are not valid, it uses what was
// loaded before. Established connections live on.
type Client struct {
	files Files
	ca    *authorities // nil means the system's
	pair  *Pair        // nil means no certificate
}

// dialTimeout bounds the connection and its handshake.
const dialTimeout = 10 * time.Second

// LoadClient reads the files, which must be valid. Errors name a file's setting, which is the given
// name followed by -ca, -cert or -key.
func LoadClient(setting string, f Files, log zerolog.Logger) (*Client, error) {
	c := &Client{files: f}
	if f.CA != "" {
		c.ca = &authorities{path: f.CA, log: rateLimited(log)}
		if err := c.ca.reload(); err != nil {
			return nil, fmt.Errorf("%s-ca: %w", setting, err)
		}
	}
	if f.Cert != "" || f.Key != "" {
		var err error
		if c.pair, err = Load(f.Cert, f.Key, log); err != nil {
			return nil, fmt.Errorf("%s-cert, %s-key: %w", setting, setting, err)
		}
	}
	return c, nil
}

// Files returns the files, for libraries that read them themselves.
func (c *Client) Files() Files { return c.files }

// Certificate returns the certificate in the files, or the last valid one. The client must have
// one.
func (c *Client) Certificate() (*tls.Certificate, error) { return c.pair.get(), nil }

// Config returns the configuration of the next connection. The caller sets the server's name.
func (c *Client) Config() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.ca != nil {
		config.RootCAs = c.ca.get()
	}
	if c.pair != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return c.Certificate()
		}
	}
	return config
}

// DialContext connects to host:port over TLS. The server's certificate must be valid for the host.
func (c *Client) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return (&tls.Dialer{Config: c.Config()}).DialContext(ctx, network, addr)
}

// authorities are the certificates in a file that a client trusts.
type authorities struct {
	path string
	log  zerolog.Logger // rate-limited

	mu     sync.Mutex
	loaded version // of the file of pool
	pool   *x509.CertPool
}

// get returns the authorities in the file, or the last valid ones.
func (a *authorities) get() *x509.CertPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.reload(); err != nil {
		a.log.Error().Err(err).Msg("certificate authorities not reloaded; those before stay in use")
	}
	return a.pool
}

var errNoCertificate = errors.New("it has no certificate in PEM (-----BEGIN CERTIFICATE-----)")

// reload reads the file if it changed.
func (a *authorities) reload() error {
	found, err := versionOf(a.path)
	if err != nil || a.pool != nil && found.is(a.loaded) {
		return err
	}
	text, err := os.ReadFile(a.path)
	if err != nil {
		return fmt.Errorf("reading certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("reading certificate authorities from %s: %w", a.path, errNoCertificate)
	}
	a.pool, a.loaded = pool, found
	return nil
}

func rateLimited(log zerolog.Logger) zerolog.Logger {
	return log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute})
}
