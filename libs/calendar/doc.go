// Package calendar validates calendars and reads dates from iCalendar files. It decides in
// nanoseconds whether calendars allow an instant, and where the next allowed stretch begins. It is
// pure.
//
// A calendar applies to the wall clock of its zone, or of the schedule's zone if it has none. A day
// is allowed unless its weekday or its date is excluded. An included date is always allowed. On an
// allowed day the ranges of allowed times apply, if there are any: those without weekdays, and
// those of that weekday. On an included date all ranges apply. So a make-up Saturday has the usual
// hours, even if the ranges name only Monday to Friday.
//
// So a day that no range covers is not allowed, unless it is an included date. Overlapping ranges
// are merged. Times that occur twice on the wall clock are allowed twice.
//
// A Set combines several calendars, in one zone or in several. It decides exactly whether they have
// any time in common up to 2199, also with the times of a schedule. That takes some milliseconds, and
// some tenths of a second with tens of thousands of named dates.
//
// Calendars:
//
//	calendar.go       checks and prepares a calendar
//	rules.go          whether one calendar allows an instant
//	set.go            several calendars together
//	zonecalendars.go  those of one zone
//	zones.go          searches across zones for allowed instants
//	search.go         searches by weeks, for times that a schedule has too
//
// iCalendar files:
//
//	ics.go             reads the dates of a file
//	ics_line.go        lines and properties
//	ics_value.go       dates and times
//	ics_clock.go       time zones of a file
//	ics_event.go       events
//	ics_changes.go     exceptions and changed occurrences
//	ics_rule.go        occurrences of a rule
//	ics_rule_parts.go  reads a rule
//	ics_days.go        sets of days
package calendar
