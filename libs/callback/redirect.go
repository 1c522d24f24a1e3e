package callback

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// followRedirects follows at most as many redirects as the target allows. Each is dialled under the
// same policy. Method and body stay the same. A redirect that asks for a GET instead (301, 302,
// 303) would deliver nothing, so it is not followed. Nor is one from https to http. A redirect that
// is not followed is the answer. To another origin it sends neither secrets, Authorization, Cookie
// and the token of a completion, nor the client certificate. The rest of the headers goes along, with
// the signature. It verifies that server by the system's roots and the server's own name.
func (h *HTTP) followRedirects(
	r *Request,
	req *http.Request,
	resp *http.Response,
	secrets []secretHeader,
) (answer, error) {
	first := req.URL
	for n := 1; isRedirect(resp.StatusCode); n++ {
		next, why := redirectRequest(req, resp, secrets)
		if n > r.Target.Redirects && resp.Header.Get("Location") != "" {
			why = fmt.Sprintf("there were more than %d redirects", r.Target.Redirects)
		}
		if why != "" {
			return answer{Response: resp, notFollowed: why}, nil
		}
		// Reading a short rest lets the connection be reused.
		_, _ = io.CopyN(io.Discard, resp.Body, 2<<10)
		_ = resp.Body.Close()
		policy := h.o.policy(r)
		w := transportKeyOf(policy.Key(), r.App, &r.Target)
		if !sameOrigin(next.URL, first) {
			w = transportKey{policy: w.policy, http2: w.http2}
		}
		transport, err := h.transports.get(policy, w)
		if err != nil {
			return answer{}, err
		}
		req = next
		if resp, err = transport.RoundTrip(req); err != nil {
			return answer{}, err
		}
	}
	return answer{Response: resp}, nil
}

// redirectText describes a redirect that was not followed.
func (a answer) redirectText() string {
	text := "answered with a redirect, and those are not followed: " + statusLine(a.Response)
	if a.notFollowed != "" {
		text = "answered with a redirect that is not followed, because " + a.notFollowed + ": " +
			statusLine(a.Response)
	}
	if to := a.Header.Get("Location"); to != "" {
		text += " to " + to
	}
	return text
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

// redirectRequest builds the request for a redirect, or says why it is not followed.
func redirectRequest(
	req *http.Request,
	resp *http.Response,
	secrets []secretHeader,
) (next *http.Request, why string) {
	location := resp.Header.Get("Location")
	if location == "" {
		return nil, "it has no Location"
	}
	to, err := req.URL.Parse(location)
	if err == nil {
		to, err = parseURL(to.String())
	}
	if err != nil {
		return nil, "its Location is no URL"
	}
	keeps := resp.StatusCode == http.StatusTemporaryRedirect ||
		resp.StatusCode == http.StatusPermanentRedirect
	switch {
	case !keeps && req.Method != http.MethodGet:
		return nil, "it asks for a GET, and only 307 and 308 are followed with " + req.Method
	case req.URL.Scheme == "https" && to.Scheme != "https":
		return nil, "it leads from https to http"
	}
	next = req.Clone(req.Context())
	next.URL, next.Host, next.Response = to, to.Host, resp
	if req.GetBody != nil {
		next.Body, _ = req.GetBody() // it reads memory and cannot fail
	}
	if sameOrigin(to, req.URL) {
		next.Host = req.Host
		return next, ""
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
	return next, ""
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
