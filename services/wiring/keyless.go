package wiring

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// protectKeyless protects an API without keys from web pages that its user visits, because the
// browser sends their requests from this machine. It refuses requests from other origins that
// change something. Where only this machine reaches the listener, it also refuses other Host names.
// A page could otherwise point its own name at this machine (DNS rebinding) and read answers as the
// same origin.
func protectKeyless(h http.Handler, addr string) http.Handler {
	const remedy = "; callers need no keys here (auth), so requests from web pages are refused: call from a program, or set auth=on and use keys\n"
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(
			w,
			"pages of another origin may not change anything"+remedy,
			http.StatusForbidden,
		)
	}))
	h = guard.Handler(h)
	if !loopback(addr) {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) {
			http.Error(
				w,
				"wrong host: call it as localhost or 127.0.0.1"+remedy,
				http.StatusMisdirectedRequest,
			)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// loopback returns whether an address, with or without a port, can be reached only from this
// machine.
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
