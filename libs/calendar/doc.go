// Package calendar checks calendars, reads dates from iCalendar files, and tells in nanoseconds
// whether calendars allow an instant and where the next stretch begins that they allow. It is pure.
//
// A calendar rules by the wall clock of its zone; one that names none rules by that of the schedule
// that uses it. A day is allowed unless its weekday or its date is excluded; an included date is
// allowed in any case. On an allowed day the ranges of allowed times hold, if there are any: those
// without weekdays, and those of that weekday. On an included date all of them hold: the Saturday
// on which people make up for a bridge day has the hours of the week, though the ranges may name
// Monday to Friday only.
//
// So a day whose weekday no range names is not allowed, unless it is an included date. Ranges that
// overlap are one. Times that the wall clock shows twice are allowed twice.
//
// Several calendars rule together as a Set. That they have no time in common, in one zone or in
// several, is found out exactly and in less than a millisecond, though it is a statement about
// every day up to 2199.
package calendar
