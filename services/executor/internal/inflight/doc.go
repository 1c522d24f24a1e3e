// Package inflight is the bounded set of fires that an executor owns.
//
//	entry.go  a fire with what its executor knows of it
//	hops.go   the way of a fire to its outcome
//	trace.go  what is noted of a fire for its trace
//	set.go    the set, which a fire enters before its claim and leaves when it is recorded
package inflight
