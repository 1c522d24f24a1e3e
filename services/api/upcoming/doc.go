// Package upcoming computes when timers are due next.
//
//	next.go  the next due instant of a timer
//	list.go  its next due instants
//	load.go  how many calls the schedules of many timers plan by minute
package upcoming
