// Package trigger turns slices into tasks. A slice message gives one minute × bucket to one trigger
// for as long as it renews the slice's lease; the trigger loads the slice's open fires from the
// store, polls the window for those that come later, and publishes a task for each, a lead ahead of
// its run.
//
// A file per step:
//
//	receive.go   slice messages; a token that is not the latest is dropped
//	lease.go     renews the leases of all slices in hand, in one statement a second
//	slice.go     one slice from its load to its end
//	source.go    what is to be published next: the load, the window's additions, the store where the window is away
//	order.go     apps in turn within an instant, and what of an app goes by the low-priority topic
package trigger
