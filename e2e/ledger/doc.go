// Package ledger knows every fire that must happen and compares it with what the receiver saw and
// with what the service recorded. Its verdict names what is missing, early, repeated without
// excuse, or never ordered at all.
//
// It computes instants by itself, from plain steps of time, and shares no code with the schedules
// that it checks.
package ledger
