package wiring

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// protectKeyless guards what asks for no keys from the web pages that its user looks at: a browser
// sends their requests from this machine, and they would be let in as he is. What changes something
// is refused where it comes from another origin. Where only this machine reaches the listener, so
// is a Host that does not say so: a page whose name was pointed at this machine after it was loaded
// (DNS rebinding) is of the same origin, and could read the answers, too.
func protectKeyless(h http.Handler, addr string) http.Handler {
	const remedy = "; callers need no keys here (auth), so web pages are kept out: call from a program, or set auth=on and use keys\n"
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "a page of another origin may change nothing"+remedy, http.StatusForbidden)
	}))
	h = guard.Handler(h)
	if !loopback(addr) {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) {
			http.Error(
				w,
				"this is not the host that was asked for: call it as localhost or 127.0.0.1"+remedy,
				http.StatusMisdirectedRequest,
			)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// loopback tells whether an address, with a port or without, is one that only this machine reaches.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
		if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
			host = host[1 : n-1]
		}
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
