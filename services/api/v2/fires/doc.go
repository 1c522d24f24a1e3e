// Package fires shows, creates, completes and redrives fires.
//
// Files:
//
//	resource.go           the operations, with their paths
//	fires.go              read one fire
//	list.go               list the fires of a timer
//	run.go                run a timer now
//	complete.go           complete a fire that its receiver accepted
//	completionlimiter.go  how many completions run at once
//	deadletters.go        list failed fires
//	redrive.go            create failed fires again
//
// What they share:
//
//	types.go    bodies of answers
//	hops.go     the way of a fire, in answers
//	cursor.go   where a page of fires begins
//	trace.go    the span of a completed fire
//	metrics.go  metrics
package fires
