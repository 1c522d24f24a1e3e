// Package load measures a deployment under load: fires at a steady rate, crons that are due each
// second, and a burst of fires at one instant. It creates timers through the HTTP API and receives
// their calls on the same machine. It measures lateness, and whether outcomes keep up with
// callbacks. It can store timers that are due much later, and kill all processes. It reports early,
// repeated and missing fires.
//
// Files:
//
//	phase.go     measures a deployment, phase by phase
//	parse.go     reads phases
//	register.go  creates the timers
//	stored.go    copies timers, so that there are millions
//	watch.go     counts callbacks and records each second
//	cpu.go       CPU time and memory
//	restart.go   kills all processes and starts them again
//	perfire.go   what each fire cost the servers
//	result.go    results, and their tables
package load
