// Package sim simulates the whole system in one process under testing/synctest. Two replicas of
// each service run over embedded parts with faults, for hours of simulated time in seconds of real
// time. Then every fire is checked.
//
// A seed decides the load, the faults and their times. It does not decide the order in which
// goroutines run that are ready at one instant. So a failed seed usually fails again within a few
// runs.
//
// A process (process.go) reaches shared parts only through gates before and after each call. It can
// be killed and frozen between any two of its effects. After its death its calls have no effect: no
// acknowledgement, release, commit or callback. Another process then takes its place.
//
// The checks use what took effect in the store, at that instant (observer.go). They do not use what
// clients were told, because answers get lost.
package sim
