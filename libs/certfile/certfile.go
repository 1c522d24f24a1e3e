// Package certfile reads the certificates of TLS servers and clients from files, and follows their
// changes.
package certfile

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"

	"github.com/rs/zerolog"
)

// Pair is a certificate and its key in two PEM files. It is safe for concurrent use.
//
// Files are replaced one after the other, so a handshake may find the new certificate with the old
// key. Then the pair that was loaded before stays in use, and the next handshake looks again.
type Pair struct {
	cert, key string
	log       zerolog.Logger // rate-limited

	mu     sync.Mutex
	loaded [2]version // of the files of pair
	pair   *tls.Certificate
}

// version tells contents of a file apart: by its inode, too, because files that are built
// reproducibly all have one time.
type version struct{ info os.FileInfo }

// versionOf returns the version of a file. A Secret of Kubernetes replaces a link, which counts as
// a change.
func versionOf(path string) (version, error) {
	info, err := os.Stat(path)
	if err != nil {
		return version{}, fmt.Errorf("reading a certificate: %w", err)
	}
	return version{info}, nil
}

// is reports whether two versions are the same. Both must have been found.
func (v version) is(o version) bool {
	return os.SameFile(v.info, o.info) && v.info.Size() == o.info.Size() &&
		v.info.ModTime().Equal(o.info.ModTime())
}

// Load reads both files. They must be a pair.
func Load(cert, key string, log zerolog.Logger) (*Pair, error) {
	p := &Pair{cert: cert, key: key, log: rateLimited(log)}
	return p, p.reload()
}

// Config returns the configuration of a server.
func (p *Pair) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.get(), nil },
	}
}

// get returns the pair in the files, or the last valid one.
func (p *Pair) get() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.reload(); err != nil {
		p.log.Error().Err(err).Msg("certificate not reloaded; the one before stays in use")
	}
	return p.pair
}

// reload reads the files if they changed.
func (p *Pair) reload() error {
	var found [2]version
	for i, path := range []string{p.cert, p.key} {
		var err error
		if found[i], err = versionOf(path); err != nil {
			return err
		}
	}
	if p.pair != nil && found[0].is(p.loaded[0]) && found[1].is(p.loaded[1]) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		return fmt.Errorf("reading a certificate from %s and %s: %w", p.cert, p.key, err)
	}
	p.pair, p.loaded = &pair, found
	return nil
}
