package callback

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/payload"
	"github.com/carillon-timer/carillon/libs/timer"
)

// http checks the fields of an http target.
func (c *Checks) http(field string, t *timer.Target) error {
	if t.Pulsar != nil {
		return timer.Invalid(
			field+".pulsar",
			"expected no pulsar for a target of kind http, found one: leave it out, or choose kind pulsar",
		)
	}
	if err := c.url(field+".url", t); err != nil {
		return err
	}
	if !methods[t.Method] {
		return timer.Invalid(
			field+".method",
			fmt.Sprintf(
				"expected GET, POST, PUT, PATCH or DELETE, or another registered method but CONNECT and TRACE, found %q",
				clip(t.Method),
			),
		)
	}
	if err := c.query(field, t); err != nil {
		return err
	}
	if t.Redirects < 0 || t.Redirects > timer.MaxRedirects {
		return timer.Invalid(
			field+".redirects",
			fmt.Sprintf(
				"expected a number from 0 to %d, found %d",
				timer.MaxRedirects,
				t.Redirects,
			),
		)
	}
	switch t.HTTP2 {
	case timer.HTTP2Offered, timer.HTTP2Never, timer.HTTP2Always:
	default:
		return timer.Invalid(
			field+".http2",
			fmt.Sprintf(
				"expected \"never\" or \"always\", found %q: leave it out for HTTP/2 where it is offered",
				t.HTTP2,
			),
		)
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
		return timer.Invalid(
			field,
			`expected a URL such as "https://example.com/hook", found nothing`,
		)
	case len(s) > timer.MaxURLLen:
		return timer.Invalid(
			field,
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxURLLen, len(s)),
		)
	case !utf8.ValidString(s):
		return timer.Invalid(field, "expected UTF-8 text, found other bytes")
	}
	if t.Templates {
		if err := payload.Check(field, s, payload.URL, c.Labels); err != nil {
			return err
		}
		if err := c.checkSize(field, c.maxLen(t, s, payload.URL), timer.MaxURLLen); err != nil {
			return err
		}
		var err error
		if s, err = payload.Expand(s, payload.URL, c.sampleFire()); err != nil {
			return timer.Invalid(
				field,
				"expected a text whose variables can be put in, found one that cannot be: "+err.Error(),
			)
		}
	}
	u, err := parseURL(s)
	if err != nil {
		return urlError(field, err)
	}
	return c.reachable(field, u.Hostname(), port(u))
}

// urlError describes an invalid URL without the URL, which may contain a password.
func urlError(field string, err error) error {
	return timer.Invalid(
		field,
		`expected an absolute http or https URL such as "https://example.com/hook", found one that `+err.Error(),
	)
}

// clip shortens a value for an error message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// reachable refuses addresses that the policy forbids. Names are resolved and checked only when
// they are called.
func (c *Checks) reachable(field, host, port string) error {
	a, notAddress := netip.ParseAddr(host)
	if notAddress != nil || c.Egress == nil {
		return nil //nolint:nilerr // a name is no error
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return timer.Invalid(
			field,
			fmt.Sprintf("expected a port from 1 to 65535, found %q", clip(port)),
		)
	}
	if err := c.Egress.CheckDialed(host, netip.AddrPortFrom(a, uint16(n))); err != nil {
		return timer.Invalid(
			field,
			fmt.Sprintf("expected an address that may be called, found %s: %s", host, err),
		)
	}
	return nil
}

func (c *Checks) query(field string, t *timer.Target) error {
	size, longest := 0, 0
	for name, values := range t.Query {
		size += len(name)
		longest += len(name)
		if name == "" || !utf8.ValidString(name) {
			return timer.Invalid(
				field+".query",
				"expected names of UTF-8 text, found an empty one or one of other bytes",
			)
		}
		for _, v := range values {
			at := field + ".query." + name
			size += len(name) + len(v)
			longest += len(name) + c.maxLen(t, v, payload.Text)
			if !utf8.ValidString(v) {
				return timer.Invalid(at, "expected UTF-8 text, found other bytes")
			}
			if t.Templates {
				if err := payload.Check(at, v, payload.Form, c.Labels); err != nil {
					return err
				}
			}
		}
	}
	if size > timer.MaxURLLen {
		return timer.Invalid(
			field+".query",
			fmt.Sprintf(
				"expected at most %d bytes of names and values, found %d",
				timer.MaxURLLen,
				size,
			),
		)
	}
	return c.checkSize(field+".query", longest, timer.MaxURLLen)
}

func checkSuccess(field string, s *timer.Success) error {
	if s == nil || s.Body == "" {
		return nil
	}
	if len(s.Body) > timer.MaxRegexpLen {
		return timer.Invalid(
			field+".body",
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxRegexpLen, len(s.Body)),
		)
	}
	if _, err := compileRule(s.Body); err != nil {
		return timer.Invalid(
			field+".body",
			fmt.Sprintf(
				"expected a regular expression (RE2), found %q, which %s",
				clip(s.Body),
				oneLine(err.Error()),
			),
		)
	}
	return nil
}

// tls checks TLS options as far as possible without the key.
func (c *Checks) tls(field string, t *timer.TLS, secure bool) error {
	switch {
	case t == nil:
		return nil
	case !secure:
		return timer.Invalid(
			field,
			"expected no tls without TLS, found one: leave it out, or give a URL of https or grpcs",
		)
	case t.Insecure && !c.AllowInsecure:
		return timer.Invalid(
			field+".insecure",
			"expected false, found true, which "+errInsecure.Error(),
		)
	case t.ServerName != "" && (len(t.ServerName) > 253 || !validHost(t.ServerName)):
		return timer.Invalid(
			field+".server_name",
			fmt.Sprintf("expected a host name, found %q", clip(t.ServerName)),
		)
	case len(t.CA) > timer.MaxPEMLen:
		return timer.Invalid(
			field+".ca",
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxPEMLen, len(t.CA)),
		)
	case len(t.Cert) > timer.MaxPEMLen:
		return timer.Invalid(
			field+".cert",
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxPEMLen, len(t.Cert)),
		)
	case t.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(t.CA)):
		return timer.Invalid(field+".ca", "expected certificates in PEM, found none")
	case t.Cert == "" && t.Key != "":
		return timer.Invalid(
			field+".cert",
			"expected the certificate of key, in PEM, found nothing: give both or none",
		)
	case t.Cert != "" && t.Key == "":
		return timer.Invalid(
			field+".key",
			"expected the key of cert, in PEM, found nothing: give both or none",
		)
	}
	return nil
}

// CheckKeyPair checks a client certificate and its key before the key is encrypted. Its error
// reveals nothing of the key.
func CheckKeyPair(field, cert string, key encryption.Secret) error {
	if len(key.Reveal()) > timer.MaxPEMLen {
		return timer.Invalid(
			field+".key",
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxPEMLen, len(key.Reveal())),
		)
	}
	if _, err := tls.X509KeyPair([]byte(cert), []byte(key.Reveal())); err != nil {
		return timer.Invalid(
			field+".cert",
			"expected a certificate and its key as a pair in PEM, found others: "+oneLine(
				err.Error(),
			),
		)
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
		return timer.Invalid(
			at,
			"expected a URL of grpcs, as a token is no secret without TLS, found grpc",
		)
	}
	for name := range t.Headers {
		if strings.EqualFold(name, "Authorization") {
			return timer.Invalid(
				field+".headers."+name,
				"expected oauth2 or this header, found both: leave one of the two out",
			)
		}
	}
	for name := range t.SecretHeaders {
		if strings.EqualFold(name, "Authorization") {
			return timer.Invalid(
				field+".secret_headers."+name,
				"expected oauth2 or this header, found both: leave one of the two out",
			)
		}
	}
	if len(o.TokenURL) > timer.MaxURLLen {
		return timer.Invalid(
			at+".token_url",
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxURLLen, len(o.TokenURL)),
		)
	}
	u, err := parseURL(o.TokenURL)
	if err != nil {
		return urlError(at+".token_url", err)
	}
	if err := c.reachable(at+".token_url", u.Hostname(), port(u)); err != nil {
		return err
	}
	size := len(o.ClientID) + len(strings.Join(o.Scopes, " "))
	for _, scope := range o.Scopes {
		if scope == "" || !printable(scope) {
			return timer.Invalid(
				at+".scopes",
				fmt.Sprintf("expected scopes of printable ASCII, found %q", clip(scope)),
			)
		}
	}
	for k, v := range o.Params {
		size += len(k) + len(v)
		if own := grantFields[k]; own != "" {
			return timer.Invalid(
				at+".params."+k,
				"expected another field, as this one is "+own+", found a value: leave it out",
			)
		}
	}
	switch {
	case o.ClientID == "":
		return timer.Invalid(at+".client_id", "expected the client's id, found nothing")
	case o.Secret == "":
		return timer.Invalid(at+".secret", "expected the client's secret, found nothing")
	case size > timer.MaxHeaderLen:
		return timer.Invalid(
			at,
			fmt.Sprintf(
				"expected at most %d bytes of client_id, scopes and params, found %d",
				timer.MaxHeaderLen,
				size,
			),
		)
	}
	return nil
}

// grantFields are fields of a token request that a target's own fields, or the grant, determine.
var grantFields = map[string]string{
	"":              "no name",
	"grant_type":    "always client_credentials",
	"client_id":     "given by client_id",
	"client_secret": "given by secret",
	"scope":         "given by scopes",
}

// methods are the allowed methods: those of the IANA registry that webhooks use. CONNECT makes no
// request, and TRACE returns secrets, so both are excluded. The empty method is POST.
var methods = map[string]bool{
	"":            true,
	"GET":         true,
	"POST":        true,
	"PUT":         true,
	"PATCH":       true,
	"DELETE":      true,
	"HEAD":        true,
	"OPTIONS":     true,
	"QUERY":       true,
	"PURGE":       true,
	"PROPFIND":    true,
	"PROPPATCH":   true,
	"MKCOL":       true,
	"COPY":        true,
	"MOVE":        true,
	"LOCK":        true,
	"UNLOCK":      true,
	"REPORT":      true,
	"SEARCH":      true,
	"LINK":        true,
	"UNLINK":      true,
	"NOTIFY":      true,
	"SUBSCRIBE":   true,
	"UNSUBSCRIBE": true,
}
