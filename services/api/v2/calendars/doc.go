// Package calendars manages calendars, and imports iCalendar files into them.
//
//	resource.go   its operations, and what it needs
//	calendars.go  writes, shows, lists and deletes calendars
//	import.go     takes the dates of an iCalendar file into a calendar
//	timers.go     lists the timers that name a calendar
package calendars
