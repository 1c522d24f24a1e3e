package callback

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/payload"
	"github.com/carillon-timer/carillon/libs/sealing"
	"github.com/carillon-timer/carillon/libs/timer"
)

// http checks what is an http target's own.
func (c *Checks) http(field string, t *timer.Target) error {
	if t.Pulsar != nil {
		return timer.Invalid(field+".pulsar", "is for targets of kind pulsar")
	}
	if err := c.url(field+".url", t); err != nil {
		return err
	}
	if !methods[t.Method] {
		return timer.Invalid(field+".method", fmt.Sprintf("%q is not a method: it is GET, POST, PUT, PATCH or DELETE, or another registered one but CONNECT and TRACE", t.Method))
	}
	if err := c.query(field, t); err != nil {
		return err
	}
	if t.Redirects < 0 || t.Redirects > timer.MaxRedirects {
		return timer.Invalid(field+".redirects", fmt.Sprintf("must lie between 0 and %d", timer.MaxRedirects))
	}
	switch t.HTTP2 {
	case timer.HTTP2Offered, timer.HTTP2Never, timer.HTTP2Always:
	default:
		return timer.Invalid(field+".http2", fmt.Sprintf("%q is neither never nor always", t.HTTP2))
	}
	if err := checkSuccess(field+".success", t.Success); err != nil {
		return err
	}
	secure := strings.HasPrefix(t.URL, "https://")
	if err := c.tls(field+".tls", t.TLS, secure); err != nil {
		return err
	}
	return c.oauth2(field, t, true)
}

func (c *Checks) url(field string, t *timer.Target) error {
	s := t.URL
	switch {
	case s == "":
		return timer.Invalid(field, `is required, such as "https://example.com/hook"`)
	case len(s) > timer.MaxURLLen:
		return timer.Invalid(field, fmt.Sprintf("is %d bytes long: at most %d are allowed", len(s), timer.MaxURLLen))
	case !utf8.ValidString(s):
		return timer.Invalid(field, "is not valid UTF-8")
	}
	if t.Templates {
		if err := payload.Check(field, s, payload.URL, c.Labels); err != nil {
			return err
		}
		if err := c.fits(field, c.longest(t, s, payload.URL), timer.MaxURLLen); err != nil {
			return err
		}
		var err error
		if s, err = payload.Expand(s, payload.URL, c.someFire()); err != nil {
			return timer.Invalid(field, err.Error())
		}
	}
	u, err := parseURL(s)
	if err != nil {
		return timer.Invalid(field, err.Error())
	}
	return c.reachable(field, u.Hostname(), port(u))
}

// reachable refuses addresses that the policy forbids, where they are told already. What names resolve to is looked at when they are called.
func (c *Checks) reachable(field, host, port string) error {
	a, notAddress := netip.ParseAddr(host)
	if notAddress != nil || c.Egress == nil {
		return nil //nolint:nilerr // a name is no error
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return timer.Invalid(field, "has a port that is none")
	}
	if err := c.Egress.Check(host, netip.AddrPortFrom(a, uint16(n))); err != nil {
		return timer.Invalid(field, err.Error())
	}
	return nil
}

func (c *Checks) query(field string, t *timer.Target) error {
	size, longest := 0, 0
	for name, values := range t.Query {
		size += len(name)
		longest += len(name)
		if name == "" || !utf8.ValidString(name) {
			return timer.Invalid(field+".query", "has a name that is empty or not valid UTF-8")
		}
		for _, v := range values {
			at := field + ".query." + name
			size += len(name) + len(v)
			longest += len(name) + c.longest(t, v, payload.Text)
			if !utf8.ValidString(v) {
				return timer.Invalid(at, "is not valid UTF-8")
			}
			if t.Templates {
				if err := payload.Check(at, v, payload.Form, c.Labels); err != nil {
					return err
				}
			}
		}
	}
	if size > timer.MaxURLLen {
		return timer.Invalid(field+".query", fmt.Sprintf("is %d bytes long: at most %d are allowed", size, timer.MaxURLLen))
	}
	return c.fits(field+".query", longest, timer.MaxURLLen)
}

func checkSuccess(field string, s *timer.Success) error {
	if s == nil || s.Body == "" {
		return nil
	}
	if len(s.Body) > timer.MaxRegexpLen {
		return timer.Invalid(field+".body", fmt.Sprintf("is longer than %d bytes", timer.MaxRegexpLen))
	}
	if _, err := compileRule(s.Body); err != nil {
		return timer.Invalid(field+".body", oneLine(err.Error()))
	}
	return nil
}

// tls checks what can be checked without the key.
func (c *Checks) tls(field string, t *timer.TLS, secure bool) error {
	switch {
	case t == nil:
		return nil
	case !secure:
		return timer.Invalid(field, "is for https and grpcs")
	case t.Insecure && !c.AllowInsecure:
		return timer.Invalid(field+".insecure", errInsecure.Error())
	case t.ServerName != "" && (len(t.ServerName) > 253 || !validHost(t.ServerName)):
		return timer.Invalid(field+".server_name", "is not a host name")
	case len(t.CA) > timer.MaxPEMLen:
		return timer.Invalid(field+".ca", fmt.Sprintf("is longer than %d bytes", timer.MaxPEMLen))
	case len(t.Cert) > timer.MaxPEMLen:
		return timer.Invalid(field+".cert", fmt.Sprintf("is longer than %d bytes", timer.MaxPEMLen))
	case t.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(t.CA)):
		return timer.Invalid(field+".ca", "holds no certificate in PEM")
	case t.Cert == "" && t.Key != "":
		return timer.Invalid(field+".cert", "is required with a key")
	case t.Cert != "" && t.Key == "":
		return timer.Invalid(field+".key", "is required with a certificate")
	}
	return nil
}

// CheckKeyPair checks a client certificate and its key before the key is sealed. Its error shows nothing of the key.
func CheckKeyPair(field, cert string, key sealing.Secret) error {
	if len(key.Reveal()) > timer.MaxPEMLen {
		return timer.Invalid(field+".key", fmt.Sprintf("is longer than %d bytes", timer.MaxPEMLen))
	}
	if _, err := tls.X509KeyPair([]byte(cert), []byte(key.Reveal())); err != nil {
		return timer.Invalid(field+".cert", "and the key are not a pair in PEM: "+oneLine(err.Error()))
	}
	return nil
}

func (c *Checks) oauth2(field string, t *timer.Target, secure bool) error {
	o := t.OAuth2
	if o == nil {
		return nil
	}
	at := field + ".oauth2"
	if !secure {
		return timer.Invalid(at, "needs grpcs: a token is no secret without TLS")
	}
	for name := range t.Headers {
		if strings.EqualFold(name, "Authorization") {
			return timer.Invalid(field+".headers."+name, "is set by oauth2: leave one of the two out")
		}
	}
	for name := range t.SecretHeaders {
		if strings.EqualFold(name, "Authorization") {
			return timer.Invalid(field+".secret_headers."+name, "is set by oauth2: leave one of the two out")
		}
	}
	if len(o.TokenURL) > timer.MaxURLLen {
		return timer.Invalid(at+".token_url", fmt.Sprintf("is longer than %d bytes", timer.MaxURLLen))
	}
	u, err := parseURL(o.TokenURL)
	if err != nil {
		return timer.Invalid(at+".token_url", err.Error())
	}
	if err := c.reachable(at+".token_url", u.Hostname(), port(u)); err != nil {
		return err
	}
	size := len(o.ClientID) + len(strings.Join(o.Scopes, " "))
	for _, scope := range o.Scopes {
		if scope == "" || !printable(scope) {
			return timer.Invalid(at+".scopes", "has one that is empty, or not printable ASCII")
		}
	}
	for k, v := range o.Params {
		size += len(k) + len(v)
		if own := grantFields[k]; own != "" {
			return timer.Invalid(at+".params."+k, "is "+own+": leave it out")
		}
	}
	switch {
	case o.ClientID == "":
		return timer.Invalid(at+".client_id", "is required")
	case o.Secret == "":
		return timer.Invalid(at+".secret", "is required")
	case size > timer.MaxHeaderLen:
		return timer.Invalid(at, fmt.Sprintf("is longer than %d bytes", timer.MaxHeaderLen))
	}
	return nil
}

// grantFields are those of a token request that a target's own fields, or the grant, decide.
var grantFields = map[string]string{
	"": "no name", "grant_type": "always client_credentials", "client_id": "given by client_id", "client_secret": "given by secret", "scope": "given by scopes",
}

// methods are those that can be called: of the IANA registry what people use for hooks, without CONNECT, which makes no request, and TRACE, which
// sends secrets back. The empty method is POST.
var methods = map[string]bool{
	"": true, "GET": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "HEAD": true, "OPTIONS": true, "QUERY": true,
	"PURGE": true, "PROPFIND": true, "PROPPATCH": true, "MKCOL": true, "COPY": true, "MOVE": true, "LOCK": true, "UNLOCK": true,
	"REPORT": true, "SEARCH": true, "LINK": true, "UNLINK": true, "NOTIFY": true, "SUBSCRIBE": true, "UNSUBSCRIBE": true,
}
