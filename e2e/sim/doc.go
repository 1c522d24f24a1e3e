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
//
// The plan of a seed:
//
//	plan.go        load, faults and their times
//	load.go        the timers
//	conditions.go  faults of the shared parts
//	mutants.go     deliberate bugs, which the checks must find
//
// The deployment:
//
//	environment.go  runs a plan
//	services.go     starts the five services
//	process.go      a process that can be killed and frozen between two effects
//	bus.go          its access to the bus
//	store.go        its access to the store
//	storegates.go   that, for each call (generated)
//	window.go       its access to the window
//	endpoint.go     the receiver
//	drive.go        calls the API
//	inject.go       injects faults
//
// The checks:
//
//	observer.go       records what takes effect in the store
//	observedstore.go  tells it the effects of calls
//	check.go          compares results
//	finalchecks.go    what is left, attempts and dead letters
//	policy.go         what the policies of a timer require
//	explanations.go   compares explanations with what happened
//	lives.go          compares the lives of fires with their outcomes
//	journal.go        the log of a run
package sim
