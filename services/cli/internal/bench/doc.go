// Package bench measures a deployment from outside: it creates timers by the HTTP API, receives
// their calls, and compares what came with what was due. It needs no access to the database.
//
//	phase.go     what is measured: which timers, due when
//	register.go  creates and deletes the timers
//	receiver.go  the endpoint that the timers call
//	remote.go    a receiver on another machine
//	run.go       runs a phase
//	judge.go     finds early, missing and repeated fires
//	lateness.go  quantiles; counts and draws the histogram
//	usage.go     CPU and memory of the processes on this machine
//	ceiling.go   how many bare calls per second this machine makes
//	text.go      puts the results together as a text
package bench
