// Package http1 sends requests over plain HTTP/1.1. Its Transport does what that of net/http does
// for the requests that it serves, with the request and answer code of net/http, at about half the
// cost: the goroutine of the call writes the request and reads the answer. The transport of net/http
// has two more goroutines for each connection. It needs them for HTTP/2, upgrades, large bodies and
// answers that begin before the end of a request, so such requests are left to it.
// Decision 45 has what was measured.
//
//	http1.go        the transport: which requests it serves, and when it repeats one
//	exchange.go     a request and its answer on one connection, which is then kept or closed
//	pool.go         keeps idle connections, and closes those that time out
//	alive_unix.go   whether an idle connection may serve another request
//	alive_other.go  the same for systems that cannot tell
package http1
