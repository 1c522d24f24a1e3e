// Package client is a typed client of both API versions for tests and benchmarks. It is not an SDK:
// it retries nothing, so that a test sees each answer.
//
// Files:
//
//	client.go     a client of one deployment
//	key.go        its API key
//	v1.go         API v1
//	v2.go         timers of v2
//	controls.go   edits, and timers by name
//	calendars.go  calendars
//	history.go    fires and attempts
//	delivery.go   completions and redrives
package client
