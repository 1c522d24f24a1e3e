package pulsarbus

import (
	"net/http"

	"github.com/apache/pulsar-client-go/pulsar"
)

// login sets how a client of the deployment's own Pulsar connects.
//
// The library reads the authorities again for each connection. It checks the name of the broker
// that it dials. TLSValidateHostname would check the name in the service URL instead, which the
// certificates of single brokers need not have.
func (c *Config) login(o *pulsar.ClientOptions) {
	o.URL = c.URL
	if c.Token != "" {
		o.Authentication = pulsar.NewAuthenticationToken(c.Token)
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

// transport returns a transport of requests to the admin API.
func (c *Config) transport() *http.Transport {
	//nolint:forcetypeassert // it is documented to be one
	t := http.DefaultTransport.(*http.Transport).Clone()
	if c.TLS != nil {
		t.DialTLSContext = c.TLS.DialContext
	}
	return t
}
