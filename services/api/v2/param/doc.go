// Package param has the parameters that operations of v2 share.
//
//	param.go   the app, the timer and the page of a request
//	key.go     idempotency keys
//	timer.go   a timer by its id or name
//	dryrun.go  dry runs
package param
