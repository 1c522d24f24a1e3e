package callback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/payload"
	"github.com/carillon-timer/carillon/libs/timer"
)

// expander expands the variables of one request in its texts.
type expander struct {
	enabled     bool
	values      payload.Values
	headerBytes int // bytes of headers so far
}

func newExpander(r *Request) expander {
	if !r.Target.Templates {
		return expander{}
	}
	return expander{enabled: true, values: payload.Values{
		Fire:    r.Fire,
		Attempt: r.Attempt,
		App:     r.App,
		Name:    r.Name,
		Cause:   r.Cause,
		Labels:  r.Labels,
		Zone:    r.Zone,
	}}
}

// text expands one text. field names it in the error.
func (e *expander) text(field, s string, p payload.Place) (string, error) {
	if !e.enabled {
		return s, nil
	}
	out, err := payload.Expand(s, p, &e.values)
	if err != nil {
		return "", fmt.Errorf("%s %w", field, err)
	}
	return out, nil
}

func (e *expander) header(name string, values []string) ([]string, error) {
	if !e.enabled {
		return values, nil // the values are only read
	}
	out := values
	if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, "{{") }) {
		out = make([]string, len(values))
		for i, v := range values {
			var err error
			if out[i], err = e.text("header "+name, v, payload.Header); err != nil {
				return nil, err
			}
		}
	}
	e.headerBytes += len(name)
	for _, v := range out {
		e.headerBytes += len(v)
	}
	return out, e.checkSize("headers", e.headerBytes, timer.MaxHeaderLen)
}

// checkSize checks a size again after expansion, because the definition may be older than the
// check.
func (e *expander) checkSize(field string, size, most int) error {
	if !e.enabled || size <= most {
		return nil
	}
	return fmt.Errorf(
		"%s: %d bytes long once variables are put in, at most %d are allowed",
		field,
		size,
		most,
	)
}

func (e *expander) body(t *timer.Target) (string, error) {
	if len(t.Bytes) > 0 {
		return string(t.Bytes), nil
	}
	if !e.enabled {
		return t.Body, nil
	}
	return e.text("body", t.Body, payload.PlaceOf(contentType(t.Headers), t.Body))
}

// contentType returns the content type, whatever the letter case of its header.
func contentType(headers map[string][]string) string {
	for name, values := range headers {
		if len(values) > 0 && strings.EqualFold(name, "Content-Type") {
			return values[0]
		}
	}
	return ""
}

// newRequest builds the request of one attempt. Its error means that the target cannot be called as
// defined. No part of it is reused for another call, because the transport may still read a request
// after its answer. secrets are decrypted.
func (h *HTTP) newRequest(
	ctx context.Context,
	r *Request,
	secrets []secretHeader,
) (*http.Request, error) {
	e := newExpander(r)
	u, err := targetURL(&r.Target, &e)
	if err != nil {
		return nil, err
	}
	body, err := e.body(&r.Target)
	if err != nil {
		return nil, err
	}
	req := (&http.Request{
		Method: r.Target.Method, URL: u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(r.Target.Headers)+len(secrets)+maxOwnHeaders),
	}).WithContext(ctx)
	if req.Method == "" {
		req.Method = http.MethodPost
	}
	if err := h.setHeaders(req, r, &e, secrets); err != nil {
		return nil, err
	}
	var o headerList
	ownHeaders(&o, r, body)
	lists := make([]string, o.n)
	copy(lists, o.values[:o.n])
	for i := range o.n {
		req.Header[o.names[i]] = lists[i : i+1 : i+1]
	}
	setBody(req, body)
	return req, nil
}

// targetURL expands and parses the URL, and adds the query.
func targetURL(t *timer.Target, e *expander) (*url.URL, error) {
	s, err := e.text("url", t.URL, payload.URL)
	if err != nil {
		return nil, err
	}
	if err := e.checkSize("url", len(s), timer.MaxURLLen); err != nil {
		return nil, err
	}
	u, err := parseURL(s)
	if err != nil {
		return nil, err
	}
	if len(t.Query) == 0 {
		return u, nil
	}
	size := 0
	q := make(url.Values, len(t.Query))
	for name, values := range t.Query {
		for _, v := range values {
			if v, err = e.text("query "+name, v, payload.Text); err != nil { // Encode escapes it
				return nil, err
			}
			q[name] = append(q[name], v)
			size += len(name) + len(v)
		}
	}
	if err := e.checkSize("query", size, timer.MaxURLLen); err != nil {
		return nil, err
	}
	more := q.Encode()
	if u.RawQuery != "" && more != "" {
		more = "&" + more
	}
	u.RawQuery += more
	return u, nil
}

func (h *HTTP) setHeaders(
	req *http.Request,
	r *Request,
	e *expander,
	secrets []secretHeader,
) error {
	for name, values := range r.Target.Headers {
		name = http.CanonicalHeaderKey(name)
		values, err := e.header(name, values)
		if err != nil {
			return err
		}
		if name == "Host" {
			if len(values) == 0 {
				continue
			}
			if !validHost(values[0]) {
				return errors.New("header Host is no host name once variables are put in")
			}
			req.Host = values[0]
			continue
		}
		req.Header[name] = trimAll(values)
	}
	for _, s := range secrets {
		req.Header[s.name] = []string{trimBlanks(s.value)}
	}
	if _, set := req.Header["User-Agent"]; !set {
		req.Header["User-Agent"] = h.userAgent
	}
	if u := req.URL.User; u != nil && req.Header["Authorization"] == nil {
		req.Header["Authorization"] = []string{basic(u)}
	}
	return nil
}

// trimBlanks removes blanks around the value of a header. They are no part of a value: HTTP/1.1
// ignores them, and servers of HTTP/2, so of gRPC, may refuse the request.
func trimBlanks(value string) string { return strings.Trim(value, " \t") }

// trimAll removes blanks around each value. It leaves values as they are, because they belong to the
// definition.
func trimAll(values []string) []string {
	if !slices.ContainsFunc(values, func(v string) bool { return trimBlanks(v) != v }) {
		return values
	}
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = trimBlanks(v)
	}
	return out
}

// secretHeader is a decrypted secret header.
type secretHeader struct{ name, value string }

// openHeaders decrypts the secret headers of a target. It refuses a target with the reserved
// header, because the definition may be older than the check.
func openHeaders(o Opener, reserved string, r *Request) ([]secretHeader, error) {
	for name := range r.Target.Headers {
		if isReserved(name, reserved) {
			return nil, fmt.Errorf("header %s: %w", name, errReserved)
		}
	}
	for name := range r.Target.SecretHeaders {
		if isReserved(name, reserved) {
			return nil, fmt.Errorf("secret header %s: %w", name, errReserved)
		}
	}
	if len(r.Target.SecretHeaders) == 0 {
		return nil, nil
	}
	out := make([]secretHeader, 0, len(r.Target.SecretHeaders))
	for name, sealed := range r.Target.SecretHeaders {
		s, err := openSecret(o, r.App, sealed)
		if err != nil {
			return nil, fmt.Errorf("secret header %s: %w", name, err)
		}
		out = append(out, secretHeader{http.CanonicalHeaderKey(name), s.Reveal()})
	}
	return out, nil
}

var errReserved = errors.New(
	"it is the trusted header of the gateway (trust-header), which no timer may send",
)

var errNoOpener = errors.New("this executor has no keys to decrypt secrets")

func openSecret(o Opener, app string, sealed timer.Sealed) (encryption.Secret, error) {
	if o == nil {
		return encryption.Secret{}, errNoOpener
	}
	return o.Open(sealed, SecretBinding(app))
}

// invalidResult returns the result of a request that cannot be built. Only missing keys may appear
// later, so only that is retried.
func invalidResult(err error) Result {
	r := Result{Class: Reject, Failure: timer.FailureInvalid, Error: oneLine(err.Error())}
	if errors.Is(err, errNoOpener) || errors.Is(err, encryption.ErrUnknownKey) {
		r.Class = Retry
	}
	return r
}

// newBody returns a reader that net/http recognizes as memory. It then sends header and body in one
// packet, and can tell that nothing was sent on a closed connection.
func newBody(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

func setBody(req *http.Request, s string) {
	if s == "" {
		req.Body = http.NoBody
		return
	}
	req.Body, req.ContentLength = newBody(s), int64(len(s))
	req.GetBody = func() (io.ReadCloser, error) { return newBody(s), nil }
}

// parseURL parses an http or https URL with a host.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		// The text of a url.Error repeats the URL, which may contain a password.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("is not a URL: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New(`does not begin with "http://" or "https://"`)
	case u.Hostname() == "":
		return nil, errors.New("is a URL without host")
	case strings.ContainsAny(u.Host, " \t\r\n"):
		return nil, errors.New("is a URL with a blank in its host")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, errors.New("is a URL with a port that is not from 1 to 65535")
		}
	}
	u.RawQuery = encodeQuery(u.RawQuery)
	return u, nil
}

// encodeQuery encodes what RFC 3986 allows in no query, such as blanks, quotes and letters beyond
// ASCII, except brackets, which servers read as they are. The library encodes the path alike, but sends a query as it is: a blank would end the
// request line's target. What is encoded stays.
func encodeQuery(q string) string {
	if !strings.ContainsFunc(q, notInQuery) {
		return q
	}
	b := make([]byte, 0, len(q)+16)
	for i := range len(q) {
		if c := q[i]; notInQuery(rune(c)) {
			b = fmt.Appendf(b, "%%%02X", c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

func notInQuery(c rune) bool {
	return c <= ' ' || c > '~' || strings.ContainsRune("\"<>\\^`{|}", c)
}
