// Package clock provides the time by which fires are called. It is the host's clock, corrected by
// the measured offset to the store's clock if that is 100 ms or more. After a jump of the host's
// clock nothing is called until the offset is measured again.
//
// Files:
//
//	clock.go    the corrected clock
//	reading.go  its state, for operators, and its metrics
//	host.go     a host's clock that tests can shift
//	stamp.go    when an event last happened
//	pause.go    waits, until a context ends
//	tick.go     when polls are due
package clock
