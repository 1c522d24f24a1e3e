// Package hold holds an executor's in-flight fires until a worker calls them.
//
//	wheel.go      the timing wheel holds each fire until its run time
//	ready.go      due fires wait here for a worker; apps take turns
//	fairqueue.go  the queue over many apps behind it
package hold
