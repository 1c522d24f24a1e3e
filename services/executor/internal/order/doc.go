// Package order starts the late fires of a timer in order of due time.
//
//	sequencer.go  the sequences of all timers, which late fires join
//	sequence.go   the late fires of one timer, and the earlier ones that they wait for
//	poll.go       reads from the store which earlier fires are open, for all sequences together
package order
