package pulsarbus

import (
	"fmt"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/auth"
)

// login sets how a client of the deployment's own Pulsar connects.
//
// The library reads the authorities again for each connection. It checks the name of the broker
// that it dials. TLSValidateHostname would check the name in the service URL instead, which the
// certificates of single brokers need not have.
func (c *Config) login(o *pulsar.ClientOptions) {
	o.URL = c.URL
	if c.Tokens != nil {
		o.Authentication = lazyLogin{auth.NewAuthenticationTokenFromSupplier(c.token)}
	}
	if c.TLS == nil {
		return
	}
	files := c.TLS.Files()
	o.TLSTrustCertsFilePath = files.CA
	switch {
	case files.Cert == "":
	case o.Authentication != nil:
		o.TLSCertificateFile, o.TLSKeyFilePath = files.Cert, files.Key
	default: // the certificate is also the login
		o.Authentication = pulsar.NewAuthenticationFromTLSCertSupplier(c.TLS.Certificate)
	}
}

// token returns a token for a new connection, or for one whose token has expired.
func (c *Config) token() (string, error) {
	t, err := c.Tokens.Token()
	if err != nil {
		return "", fmt.Errorf("getting a token for Pulsar: %w", err)
	}
	return t.AccessToken, nil
}

// lazyLogin gets no token before there is a connection. The issuer may be unavailable at the start.
type lazyLogin struct{ auth.Provider }

func (lazyLogin) Init() error { return nil }
