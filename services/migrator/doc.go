// Package migrator expands timers into fires. It plans the timers whose expansion is due, inserts
// their fires into the store, puts committed fires into the window, and purges expired rows. It also
// carries out jobs, page by page. Any number of migrators run side by side, because each skips the
// rows that another has locked or leased.
//
// Files:
//
//	migrator.go    starts and stops all of it; expands timers and purges
//	poll.go        asks the store what is due, and wakes those who do it
//	jobs.go        leases a job and does its next page
//	jobrequest.go  reads what a job asks for, and leaves a newer release's to it
//	jobactions.go  what a job does to a timer
//	joblabels.go   checks labels that a job sets
//	options.go     what it needs and its settings
package migrator
