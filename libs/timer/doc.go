// Package timer is the domain of Carillon: timers, their schedules and targets, fires, attempts and
// outcomes. It imports only the standard library, and every other package may import it.
//
// The words that its names use, in Go as in SQL, messages, topics, metrics and documents, are
// defined once, at the beginning of docs/architecture.md.
package timer
