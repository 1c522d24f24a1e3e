// Package executor calls timers back. It claims the fires that tasks tell of, holds them until
// their run, checks that the timer still wants them, calls, and records what came of it.
//
// The life of a fire in here, a file per step:
//
//	receive.go   tasks come from the bus, are claimed in the store, and only then acknowledged
//	hands.go     what this process holds, bounded
//	wheel.go     waits for the run of each
//	queue.go     due fires wait for a worker, apps in turn
//	order.go     late fires wait for earlier ones of their timer
//	call.go      checks (book.go, changes.go), calls, and decides what the result means
//	record.go    outcomes, retries and releases, in batches
//	bypass.go    fires taken from the store that no task brings
//	recover.go   claims of dead sessions, and claims of its own that it does not know of
package executor
