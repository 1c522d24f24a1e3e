// Package jobs changes many timers of an app in the background, and deletes apps.
//
//	resource.go   its operations, and what it needs
//	jobs.go       starts, shows, lists and cancels jobs
//	deleteapp.go  starts the job that deletes an app
//	types.go      bodies of requests and answers
package jobs
