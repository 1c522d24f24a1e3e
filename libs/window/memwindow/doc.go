// Package memwindow is the window of one process: maps under a lock. It starts no goroutine; Put
// and Open remove expired slices.
//
// Its size is bounded. When it is full it drops whole slices, first those that were never opened,
// and of these the farthest minutes first. Readers miss nothing: they read the store after Open,
// and when a generation vanished they read it again.
//
//	memwindow.go  the window; drops slices that are expired, or for which there is no room
//	entries.go    the entries of one slice, in order of run time
//	faults.go     injected errors, for tests
package memwindow
