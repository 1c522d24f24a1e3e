// Package trigger turns slices into tasks. A slice message assigns one minute and bucket to one
// trigger, which renews the slice's lease. The trigger loads the slice's open fires from the store,
// polls the window for later additions, and publishes a task for each, a dispatch lead before its
// run time.
//
// A file per step:
//
//	trigger.go  starts and stops all of it
//	options.go  what it needs and its settings
//	receive.go  keeps a slice message until its slice is done; drops one with an old token
//	lease.go    renews the leases of all slices held, in one statement per second
//	slice.go    runs one slice from its load to the end of its minute
//	source.go   reads the next fires: from the load, the window, or the store without a window
//	queue.go    publishes the fires of one slice on their topics; none waits for another
//	gather.go   publishes the small batches of several slices as one
//	order.go    interleaves apps within one run time, and sends bursts to the low-priority topic
package trigger
