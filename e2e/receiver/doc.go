// Package receiver is the HTTP endpoint that timers of tests and benchmarks call. It records every
// arrival in 72 bytes and answers by a script per path. It returns the arrivals, their lateness,
// and the duplicates.
//
// It uses fasthttp because it shares the machine with the measured system: a net/http handler costs
// more CPU per callback than all five services together.
//
// Files:
//
//	receiver.go  the endpoint
//	script.go    how a path answers
//	header.go    reads what identifies a fire
//	record.go    stores arrivals
//	arrival.go   an arrival, and its lateness
package receiver
