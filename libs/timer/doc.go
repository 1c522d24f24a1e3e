// Package timer is the domain of Carillon: timers, their schedules and targets, fires, attempts and
// outcomes. It imports only the standard library, and every other package may import it.
//
// The words that its names use, in Go as in SQL, messages, topics, metrics and documents, are
// defined once, at the beginning of docs/architecture.md.
//
// A timer:
//
//	timer.go       a timer and its definition
//	schedule.go    schedules
//	calendar.go    calendars
//	target.go      targets
//	sealed.go      encrypted values within a definition
//	statuses.go    ranges of answers that count as delivered
//	policy.go      misfire and concurrency policies
//	retry.go       retries, and the wait before the next attempt
//	inactivity.go  when a timer was inactive, and what that means for a fire
//
// A fire:
//
//	fire.go           a fire, its cause, state and priority
//	outcome.go        outcomes, attempts and reasons
//	targetoutcome.go  outcomes of the targets of a fan-out
//	failure.go        kinds of failed attempts
//	hops.go           the stages that a fire passed, with their times
//
// For both:
//
//	id.go        ids
//	duration.go  durations as users write them
//	errors.go    errors with a code and a field
package timer
