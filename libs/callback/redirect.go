package callback

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// redirectError is about a redirect that is not followed.
type redirectError struct{ why string }

func (e *redirectError) Error() string { return e.why }

// followRedirects follows at most as many redirects as the target allows. Each is dialled under the
// same policy. Method and body stay the same. A redirect that asks for a GET instead (301, 302,
// 303) would deliver nothing, so it is not followed. Nor is one from https to http. To another
// origin it sends neither secrets nor the client certificate. It verifies that server by the
// system's roots and the server's own name.
func (h *HTTP) followRedirects(
	r *Request,
	req *http.Request,
	resp *http.Response,
	secrets []secretHeader,
) (*http.Response, error) {
	first := req.URL
	for n := 1; isRedirect(resp.StatusCode) && resp.Header.Get("Location") != ""; n++ {
		if n > r.Target.Redirects {
			_ = resp.Body.Close()
			return nil, &redirectError{
				fmt.Sprintf(
					"more than %d redirects, the last to %s",
					r.Target.Redirects,
					resp.Header.Get("Location"),
				),
			}
		}
		next, err := redirectRequest(req, resp, secrets)
		// Reading a short rest lets the connection be reused.
		_, _ = io.CopyN(io.Discard, resp.Body, 2<<10)
		_ = resp.Body.Close()
		if err != nil {
			return nil, err
		}
		policy := h.o.policy(r)
		w := transportKeyOf(policy.Key(), r.App, &r.Target)
		if !sameOrigin(next.URL, first) {
			w = transportKey{policy: w.policy, http2: w.http2}
		}
		transport, err := h.transports.get(policy, w)
		if err != nil {
			return nil, err
		}
		req = next
		if resp, err = transport.RoundTrip(req); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// isRedirect returns whether a status asks the client to call another URL. 300 leaves the choice to
// people, 304 is about a cache, and 305 and 306 are not in use.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently,
		http.StatusFound,
		http.StatusSeeOther,
		http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirectRequest builds the request for a redirect.
func redirectRequest(
	req *http.Request,
	resp *http.Response,
	secrets []secretHeader,
) (*http.Request, error) {
	location := resp.Header.Get("Location")
	to, err := req.URL.Parse(location)
	if err == nil {
		to, err = parseURL(to.String())
	}
	if err != nil {
		return nil, &redirectError{"answered with a redirect to what is no URL: " + location}
	}
	keeps := resp.StatusCode == http.StatusTemporaryRedirect ||
		resp.StatusCode == http.StatusPermanentRedirect
	switch {
	case !keeps && req.Method != http.MethodGet:
		return nil, &redirectError{
			fmt.Sprintf(
				"answered %s to %s, which asks for a GET: only 307 and 308 are followed with %s",
				statusLine(resp),
				location,
				req.Method,
			),
		}
	case req.URL.Scheme == "https" && to.Scheme != "https":
		return nil, &redirectError{"answered with a redirect from https to http: " + location}
	}
	next := req.Clone(req.Context())
	next.URL, next.Host, next.Response = to, to.Host, resp
	if req.GetBody != nil {
		next.Body, _ = req.GetBody() // it reads memory and cannot fail
	}
	if sameOrigin(to, req.URL) {
		next.Host = req.Host
		return next, nil
	}
	for _, name := range []string{"Authorization", "Cookie", HeaderToken} {
		next.Header.Del(name)
	}
	for _, s := range secrets {
		next.Header.Del(s.name)
	}
	if u := to.User; u != nil {
		password, _ := u.Password()
		next.SetBasicAuth(u.Username(), password)
	}
	return next, nil
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) &&
		port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
