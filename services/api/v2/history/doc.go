// Package history shows what became of an app's fires, and what is to come: lists, statistics, a
// live stream, and the expected load.
//
// Files:
//
//	resource.go  the operations, with their paths
//	filter.go    which finished fires a request selects
//	labels.go    those whose timers have certain labels
//	names.go     names of their timers
//	list.go      pages of finished fires
//	stats.go     counts and lateness by step
//	counter.go   counts the fires of one request, in the store or row by row
//	upcoming.go  the expected load per minute
//	events.go    the stream of one client
//	feed.go      the recent outcomes of one app, shared by its streams
package history
