// Package ledger checks fires. A Ledger lists every fire that must happen, and Check compares it
// with the calls at the receiver and the recorded outcomes. The verdict names fires that are
// missing, early, repeated without excuse, or not expected.
//
// It computes due instants itself, from plain time steps, and shares no code with the schedules
// that it checks.
//
//	ledger.go    the fires that must happen
//	verdict.go   compares them with calls and outcomes
//	timeline.go  what happened to the fires for which a promise was broken
package ledger
