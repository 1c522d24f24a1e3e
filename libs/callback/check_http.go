package callback

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/payload"
	"github.com/carillon-timer/carillon/libs/timer"
)

func (httpKind) check(c *Checks, e *faults, field string, t *timer.Target) {
	c.url(e, field+".url", t)
	if !methods[t.Method] {
		e.invalid(
			field+".method",
			fmt.Sprintf(
				"expected GET, POST, PUT, PATCH or DELETE, or another registered method but CONNECT and TRACE, found %q",
				clip(t.Method),
			),
		)
	}
	c.query(e, field, t)
	if t.Redirects < 0 || t.Redirects > timer.MaxRedirects {
		e.invalid(
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
		e.invalid(
			field+".http2",
			fmt.Sprintf(
				"expected \"never\" or \"always\", found %q: leave it out for HTTP/2 where it is offered",
				t.HTTP2,
			),
		)
	}
	checkSuccess(e, field+".success", t.Success)
	// An invalid URL says nothing about TLS.
	secure := strings.HasPrefix(t.URL, "https://") || e.has(field+".url")
	c.tls(e, field+".tls", t.TLS, secure)
	c.oauth2(e, field, t, true)
}

func (c *Checks) url(e *faults, field string, t *timer.Target) {
	s := t.URL
	switch {
	case s == "":
		e.invalid(
			field,
			`expected a URL such as "https://example.com/hook", found nothing`,
		)
	case len(s) > timer.MaxURLLen:
		e.invalid(
			field,
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxURLLen, len(s)),
		)
	case !utf8.ValidString(s):
		e.invalid(field, "expected UTF-8 text, found other bytes")
	}
	if e.has(field) {
		return
	}
	if t.Templates {
		e.add(payload.Check(field, s, payload.URL, c.Labels))
		c.checkSize(e, field, c.maxLen(t, s, payload.URL), timer.MaxURLLen)
		var err error
		if s, err = payload.Expand(s, payload.URL, c.sampleFire()); err != nil {
			e.invalid(
				field,
				"expected a text whose variables can be put in, found one that cannot be: "+err.Error(),
			)
		}
	}
	u, err := parseURL(s)
	if err != nil {
		e.add(urlError(field, err))
		return
	}
	c.reachable(e, field, u.Hostname(), port(u), u.Path)
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
// they are called. The exception is localhost, by which people write Carillon's own address: it is
// no listener of this process, except an echo endpoint by its path.
func (c *Checks) reachable(e *faults, field, host, port, path string) {
	if c.Egress == nil {
		return
	}
	check := c.Egress.CheckDialed
	a, notAddress := netip.ParseAddr(host)
	switch {
	case strings.EqualFold(host, "localhost"):
		a, check = netip.AddrFrom4([4]byte{127, 0, 0, 1}), c.Egress.CheckOwn
	case notAddress != nil:
		return
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		e.invalid(
			field,
			fmt.Sprintf("expected a port from 1 to 65535, found %q", clip(port)),
		)
		return
	}
	if err := check(host, netip.AddrPortFrom(a, uint16(n)), path); err != nil {
		why := err.Error()
		if r, ok := errors.AsType[*egress.RefusedError](err); ok {
			why = r.Reason
			if r.Addr.Addr().String() != host {
				why = r.Addr.String() + ": " + why
			}
		}
		e.invalid(
			field,
			fmt.Sprintf("expected an address that may be called, found %s: %s",
				net.JoinHostPort(host, port), why),
		)
	}
}

func (c *Checks) query(e *faults, field string, t *timer.Target) {
	size, longest := 0, 0
	for name, values := range t.Query {
		size += len(name)
		longest += len(name)
		if name == "" || !utf8.ValidString(name) {
			e.invalid(
				field+".query",
				"expected names of UTF-8 text, found an empty one or one of other bytes",
			)
		}
		for _, v := range values {
			at := field + ".query." + name
			size += len(name) + len(v)
			longest += len(name) + c.maxLen(t, v, payload.Text)
			if !utf8.ValidString(v) {
				e.invalid(at, "expected UTF-8 text, found other bytes")
			}
			if t.Templates {
				e.add(payload.Check(at, v, payload.Form, c.Labels))
			}
		}
	}
	if size > timer.MaxURLLen {
		e.invalid(
			field+".query",
			fmt.Sprintf(
				"expected at most %d bytes of names and values, found %d",
				timer.MaxURLLen,
				size,
			),
		)
	}
	c.checkSize(e, field+".query", longest, timer.MaxURLLen)
}

func checkSuccess(e *faults, field string, s *timer.Success) {
	if s == nil || s.Body == "" {
		return
	}
	if len(s.Body) > timer.MaxRegexpLen {
		e.invalid(
			field+".body",
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxRegexpLen, len(s.Body)),
		)
	}
	if _, err := compileRule(s.Body); err != nil {
		e.invalid(
			field+".body",
			fmt.Sprintf(
				"expected a regular expression (RE2), found %q, which %s",
				clip(s.Body),
				oneLine(err.Error()),
			),
		)
	}
}

// tls checks TLS options as far as possible without the key.
func (c *Checks) tls(e *faults, field string, t *timer.TLS, secure bool) {
	switch {
	case t == nil:
	case !secure:
		e.invalid(
			field,
			"expected no tls without TLS, found one: leave it out, or give a URL of https or grpcs",
		)
	case t.Insecure && !c.AllowInsecure:
		e.invalid(
			field+".insecure",
			"expected false, found true, which "+errInsecure.Error(),
		)
	case t.ServerName != "" && (len(t.ServerName) > 253 || !validHost(t.ServerName)):
		e.invalid(
			field+".server_name",
			fmt.Sprintf("expected a host name, found %q", clip(t.ServerName)),
		)
	case len(t.CA) > timer.MaxPEMLen:
		e.invalid(
			field+".ca",
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxPEMLen, len(t.CA)),
		)
	case len(t.Cert) > timer.MaxPEMLen:
		e.invalid(
			field+".cert",
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxPEMLen, len(t.Cert)),
		)
	case t.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(t.CA)):
		e.invalid(field+".ca", "expected certificates in PEM, found none")
	case t.Cert == "" && t.Key != "":
		e.invalid(
			field+".cert",
			"expected the certificate of key, in PEM, found nothing: give both or none",
		)
	case t.Cert != "" && t.Key == "":
		e.invalid(
			field+".key",
			"expected the key of cert, in PEM, found nothing: give both or none",
		)
	}
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

func (c *Checks) oauth2(e *faults, field string, t *timer.Target, secure bool) {
	o := t.OAuth2
	if o == nil {
		return
	}
	at := field + ".oauth2"
	if !secure {
		e.invalid(
			at,
			"expected a URL of grpcs, as a token is no secret without TLS, found grpc",
		)
		return
	}
	for name := range t.Headers {
		if strings.EqualFold(name, "Authorization") {
			e.invalid(
				field+".headers."+name,
				"expected oauth2 or this header, found both: leave one of the two out",
			)
		}
	}
	for name := range t.SecretHeaders {
		if strings.EqualFold(name, "Authorization") {
			e.invalid(
				field+".secret_headers."+name,
				"expected oauth2 or this header, found both: leave one of the two out",
			)
		}
	}
	if len(o.TokenURL) > timer.MaxURLLen {
		e.invalid(
			at+".token_url",
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxURLLen, len(o.TokenURL)),
		)
	}
	if u, err := parseURL(o.TokenURL); err != nil {
		e.add(urlError(at+".token_url", err))
	} else {
		c.reachable(e, at+".token_url", u.Hostname(), port(u), u.Path)
	}
	size := len(o.ClientID) + len(strings.Join(o.Scopes, " "))
	for _, scope := range o.Scopes {
		if scope == "" || !printable(scope) {
			e.invalid(
				at+".scopes",
				fmt.Sprintf("expected scopes of printable ASCII, found %q", clip(scope)),
			)
		}
	}
	for k, v := range o.Params {
		size += len(k) + len(v)
		checkParam(e, at, k)
	}
	for k := range o.SecretParams {
		size += len(k)
		checkParam(e, at, k)
	}
	n := len(o.Params) + len(o.SecretParams)
	switch {
	case n > timer.MaxHeaders:
		e.invalid(
			at+".params",
			fmt.Sprintf("expected at most %d parameters, found %d", timer.MaxHeaders, n),
		)
	case o.ClientID == "":
		e.invalid(at+".client_id", "expected the client's id, found nothing")
	case o.Secret == "":
		e.invalid(at+".secret", "expected the client's secret, found nothing")
	case size > timer.MaxHeaderLen:
		e.invalid(
			at,
			fmt.Sprintf(
				"expected at most %d bytes of client_id, scopes and params without secrets, found %d",
				timer.MaxHeaderLen,
				size,
			),
		)
	}
}

func checkParam(e *faults, at, name string) {
	if own := grantFields[name]; own != "" {
		e.invalid(
			at+".params."+name,
			"expected another field, as this one is "+own+", found a value: leave it out",
		)
	}
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
