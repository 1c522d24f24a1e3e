// Package requests has the ids and addresses of requests, and limits what callers may use of the
// server before they are known.
//
// Files:
//
//	requests.go     the address and connection of a request
//	slots.go        limits concurrent requests at one place
//	appslots.go     the same, with a share for each app
//	bodylimiter.go  limits concurrent reads of bodies without a key
//	stall.go        refuses writes after the process was stalled
//	requestid.go    ids of requests
package requests
