package callback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Headers that every callback carries, in their canonical form.
const (
	HeaderTimerID        = "Carillon-Timer-Id"
	HeaderFireID         = "Carillon-Fire-Id"
	HeaderDue            = "Carillon-Due"     // RFC 3339, milliseconds, UTC: the nominal instant
	HeaderAttempt        = "Carillon-Attempt" // from 1
	HeaderStart          = "Carillon-Start"   // RFC 3339, milliseconds, UTC: the executor's clock just before the call
	HeaderIdempotencyKey = "Idempotency-Key"  // the fire id
	ownHeaderPrefix      = "Carillon-"
	ownHeaders           = 6
)

const timeLayout = "2006-01-02T15:04:05.000Z"

// newRequest builds the request of one attempt. Its error means that the target can never be called. Nothing of it is
// used again for another call: the transport may still read a request when its answer is already here.
func (h *HTTP) newRequest(ctx context.Context, r *Request) (*http.Request, error) {
	u, err := parseURL(r.Target.URL)
	if err != nil {
		return nil, err
	}
	req := (&http.Request{
		Method: r.Target.Method, URL: u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(r.Target.Headers)+ownHeaders+2),
	}).WithContext(ctx)
	if req.Method == "" {
		req.Method = http.MethodPost
	}
	h.setHeaders(req, r)
	setBody(req, r.Target.Body)
	return req, nil
}

func (h *HTTP) setHeaders(req *http.Request, r *Request) {
	for name, values := range r.Target.Headers {
		name = http.CanonicalHeaderKey(name)
		if name == "Host" {
			if len(values) > 0 {
				req.Host = values[0]
			}
			continue
		}
		req.Header[name] = values // only read from here on
	}
	if _, set := req.Header["User-Agent"]; !set {
		req.Header["User-Agent"] = []string{h.o.UserAgent}
	}
	if u := req.URL.User; u != nil && req.Header["Authorization"] == nil {
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}
	setOwnHeaders(req.Header, r)
}

// setOwnHeaders writes all values into one string and all lists into one array: two allocations, and not twelve. They come last, so
// that nothing that a user set can pass for them.
func setOwnHeaders(h http.Header, r *Request) {
	var buf [192]byte
	b := buf[:0]
	var ends [ownHeaders - 1]int
	b = strconv.AppendInt(b, int64(r.Fire.Timer), 10)
	ends[0] = len(b)
	b = append(b, r.Fire.String()...)
	ends[1] = len(b)
	b = time.UnixMilli(r.Fire.DueMS).UTC().AppendFormat(b, timeLayout)
	ends[2] = len(b)
	b = strconv.AppendInt(b, int64(r.Attempt), 10)
	ends[3] = len(b)
	b = r.Start.UTC().AppendFormat(b, timeLayout)
	ends[4] = len(b)

	all, values, from := string(b), make([]string, ownHeaders), 0
	for i, end := range ends {
		values[i], from = all[from:end], end
	}
	values[5] = values[1]
	for i, name := range [ownHeaders]string{HeaderTimerID, HeaderFireID, HeaderDue, HeaderAttempt, HeaderStart, HeaderIdempotencyKey} {
		h[name] = values[i : i+1 : i+1]
	}
}

// newBody returns a reader that net/http recognises as memory: it then sends head and body in one packet, and sees that nothing
// was sent when a kept connection turns out to be closed.
func newBody(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

func setBody(req *http.Request, s string) {
	if s == "" {
		req.Body = http.NoBody
		return
	}
	req.Body, req.ContentLength = newBody(s), int64(len(s))
	req.GetBody = func() (io.ReadCloser, error) { return newBody(s), nil }
}

// parseURL reads a URL that can be called.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		// A url.Error says the URL once more, and with it a password that may stand in it.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("is not a URL: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New(`is not a URL that begins with "http://" or "https://"`)
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
	return u, nil
}
