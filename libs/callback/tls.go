package callback

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/carillon-timer/carillon/libs/timer"
)

// transportKey determines which calls may share a connection.
type transportKey struct {
	policy string // egress.Policy.Key
	http2  timer.HTTP2
	app    string // only with a client certificate, which no other app's calls may use
	tls    timer.TLS
}

func transportKeyOf(policy string, app string, t *timer.Target) transportKey {
	w := transportKey{policy: policy, http2: t.HTTP2}
	if t.TLS != nil {
		w.tls = *t.TLS
		if w.tls.Cert != "" {
			w.app = app
		}
	}
	return w
}

var errInsecure = errors.New(
	"asks for a server that is not authenticated, which this deployment does not allow",
)

// tlsConfig builds the TLS configuration of a target. Its error means that the target is invalid,
// or an encryption key is missing.
func tlsConfig(o *NetOptions, w *transportKey, base *tls.Config) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if base != nil {
		c = base.Clone()
	}
	t := &w.tls
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	if t.Insecure {
		if !o.AllowInsecure {
			return nil, errInsecure
		}
		c.InsecureSkipVerify = true
	}
	if t.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, errors.New("tls.ca holds no certificate")
		}
	}
	if t.Cert != "" {
		key, err := openSecret(o.Secrets, w.app, t.Key)
		if err != nil {
			return nil, fmt.Errorf("tls.key: %w", err)
		}
		pair, err := tls.X509KeyPair([]byte(t.Cert), []byte(key.Reveal()))
		if err != nil {
			return nil, fmt.Errorf("tls.cert and tls.key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
