// Package dispatch dispatches committed fires: it puts them into the window and publishes tasks. It
// is called only after the commit, and nothing depends on its success. The slice's load, or
// executors (package pickup), find the fires it loses.
//
//	dispatch.go  what follows a commit, and the tasks of slices
//	topics.go    the topic of each fire; no topic waits for another
//	unsent.go    what a topic or the window did not take, until it does
package dispatch
