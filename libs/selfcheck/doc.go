// Package selfcheck lets a deployment watch itself: by a canary, and by the oldest open fire.
//
// The canary is a timer of the reserved app that goes the whole way of any other: its row is
// expanded, its fires are marked, handed out with their slice, published, claimed, held, called and
// recorded. Only the call ends in the executor itself, so that no endpoint has to be there for it.
// How late it starts is how late the system is; that it stops coming tells that something on the
// way stands still, whatever that is.
//
// Every process watches: it reads the outcome of the latest canary and the oldest open fire from
// the store, so that all of them say the same of the deployment, and what one says does not depend
// on others being there.
//
//	canary.go  the timer: made once, replaced where its interval changes, switched off
//	caller.go  its call, in executors
//	watch.go   what is read every few seconds
//	report.go  what is said of it: metrics and readiness
package selfcheck
