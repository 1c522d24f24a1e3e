// Package peers measures other systems that call something back at a time as e2e/load measures
// Carillon: one-shots due at a steady rate, the same receiver on the same machine, and the same
// figures.
//
//	system.go   what a system must do: take jobs, and run a worker that calls the receiver
//	asynq.go    asynq, on Redis
//	river.go    River, on PostgreSQL
//	bench.go    a measurement of one system at one rate
//	table.go    the results as a Markdown table
//
// It is a module of its own, so that neither the programs nor the tests depend on the peers'
// libraries.
package peers
