package pulsaradmin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/carillon-timer/carillon/libs/certfile"
)

// Options locate the API.
type Options struct {
	URL    string             // http(s)://host:port, more hosts after commas
	Tokens oauth2.TokenSource // nil means none
	// TLS has the authorities and the certificate; nil means the system's and none.
	TLS *certfile.Client
	// AnswerTimeout limits the wait for the header of an answer; 0 means no limit.
	AnswerTimeout time.Duration
}

// Transport sends requests for Base to one of the addresses. It is safe for concurrent use.
//
// It stays with an address until a request fails there. It sends a request to the next address only
// if it could not connect, so no request arrives twice. A request that fails otherwise may have
// arrived: it fails, and the next one goes to the next address.
type Transport struct {
	base    string
	hosts   []string
	current atomic.Uint32 // index of the address in use, before the remainder
	tokens  oauth2.TokenSource
	http    *http.Transport
}

// NewTransport returns a transport. It does not connect.
func NewTransport(o Options) (*Transport, error) {
	first, hosts, err := SplitURL(o.URL)
	if err != nil {
		return nil, err
	}
	if first.Scheme != "http" && first.Scheme != "https" {
		return nil, fmt.Errorf("the admin URL %q is not http(s)://host:port", o.URL)
	}
	//nolint:forcetypeassert // it is documented to be one
	h := http.DefaultTransport.(*http.Transport).Clone()
	h.ResponseHeaderTimeout = o.AnswerTimeout
	if o.TLS != nil {
		h.DialTLSContext = o.TLS.DialContext
	}
	return &Transport{
		base:   strings.TrimSuffix(first.String(), "/"),
		hosts:  hosts,
		tokens: o.Tokens,
		http:   h,
	}, nil
}

// SplitURL splits a service URL, whose hosts are separated by commas, into the URL of its first
// host and all hosts. Since Go 1.26 the standard library refuses a list with ports.
func SplitURL(service string) (first *url.URL, hosts []string, err error) {
	scheme, rest, ok := strings.Cut(service, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	hosts = strings.Split(rest[:end], ",")
	for i, h := range hosts {
		u, err := url.Parse(scheme + "://" + h + rest[end:])
		if err != nil || !ok || u.Host == "" || len(hosts) > 1 && u.User != nil {
			return nil, nil, fmt.Errorf("%q is not a URL of hosts separated by commas", service)
		}
		if i == 0 {
			first = u
		}
		hosts[i] = u.Host
	}
	return first, hosts, nil
}

// Base returns the URL to build requests with. Its host is the first of the addresses.
func (t *Transport) Base() string { return t.base }

// CloseIdleConnections closes idle connections.
func (t *Transport) CloseIdleConnections() { t.http.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper. A redirected request goes where the redirect says.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if err := t.authorize(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	if r.Response != nil || len(t.hosts) == 1 {
		return t.http.RoundTrip(r) //nolint:wrapcheck // it names the address
	}
	for try := 1; ; try++ {
		at := t.current.Load()
		r.URL.Host = t.hosts[int(at)%len(t.hosts)]
		r.Host = ""
		resp, err := t.http.RoundTrip(r)
		if err == nil {
			return resp, nil
		}
		// If several requests fail here at once, the address changes once.
		t.current.CompareAndSwap(at, at+1)
		if try == len(t.hosts) || !isDial(err) || r.Body != nil && r.GetBody == nil {
			return nil, err //nolint:wrapcheck // it names the address
		}
		if r.Body != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, fmt.Errorf("repeating the request: %w", err)
			}
		}
	}
}

// authorize adds a token. The library leaves it out when a broker redirects to another host. Over
// TLS it follows no redirect to a host without TLS.
func (t *Transport) authorize(r *http.Request) error {
	if t.tokens == nil || strings.HasPrefix(t.base, "https:") && r.URL.Scheme != "https" {
		return nil
	}
	token, err := t.tokens.Token()
	if err != nil {
		return fmt.Errorf("getting a token for Pulsar: %w", err)
	}
	token.SetAuthHeader(r)
	return nil
}

// isDial reports that no connection was made, so that the request did not arrive.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
