// Package receiver is the endpoint that timers of tests and benchmarks call. It records every
// arrival in 72 bytes, answers as it was told per path, and lets a test ask what came, how late,
// and what came twice.
//
// It is built on fasthttp because it shares the machine with what it measures: an ordinary net/http
// handler costs more CPU per callback than all five services together.
package receiver
