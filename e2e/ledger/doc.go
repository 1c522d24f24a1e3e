// Package ledger checks fires. A Ledger lists every fire that must happen, and Check compares it
// with the calls at the receiver and the recorded outcomes. The verdict names fires that are
// missing, early, repeated without excuse, or not expected.
//
// It computes due instants itself, from plain time steps, and shares no code with the schedules
// that it checks.
package ledger
