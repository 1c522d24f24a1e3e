// Package expansion plans the fires of schedules for a range of time. The api expands a timer at
// its activation, the migrators from then on.
//
// Files:
//
//	planner.go    plans the fires of a timer that is due for expansion
//	misfire.go    decides about due instants that were not expanded in time
//	before.go     due instants of a schedule before another, for the order of late fires
//	latest.go     whether a late fire is among the latest that misfire policy fire_all runs
//	successor.go  the next fire of a fixed delay, and the fires of a backfill
//	flush.go      writes the bucket counts of this process to the store
package expansion
