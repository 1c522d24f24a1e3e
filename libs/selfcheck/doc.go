// Package selfcheck lets a deployment monitor itself by a canary and by the oldest open fire.
//
// The canary is a timer of the reserved app that passes every stage of an ordinary timer. It is
// expanded, and its fires are put into the window, dispatched with their slice, published, claimed,
// called and recorded. Only the call ends in the executor itself, so it needs no endpoint. The
// lateness of the canary is the lateness of the system. If its calls stop, some stage is blocked.
//
// Every process watches: it reads the latest outcome of the canary and the oldest open fire from
// the store. So all processes report the same, and none depends on another.
//
//	canary.go  the timer: created once, replaced if its interval changes, disabled
//	caller.go  its call, in executors
//	watch.go   what is polled every few seconds
//	report.go  metrics and readiness
package selfcheck
