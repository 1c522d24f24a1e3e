// Package sim runs the whole system in one process under testing/synctest: two of each service over
// embedded parts that misbehave, for hours of simulated time in seconds, and compares every fire
// with what had to happen.
//
// A seed decides the load, the faults and their times. What it does not decide is the order in
// which goroutines that are ready at one instant run; a seed that failed once fails again most
// often within a few runs.
//
// A process (process.go) reaches the outside only through gates before and after each call: it can
// be killed and frozen between any two of its effects. After its death nothing that it does has an
// effect, no acknowledgement, release, commit or callback, and another process takes its place.
// What happens is judged by what took effect in the store, at the instant it did (seen.go), not by
// what anyone was told: answers get lost.
package sim
