// Package schedule checks schedules and turns them into instants. It is pure: it asks no clock and no server, and the same
// schedule gives the same instants in every process, for ever. The zone database is compiled in for that reason.
//
// # Cron
//
// A spec has 5 fields (minute, hour, day of the month, the month, day of the week), 6 (second first) or 7 (year last, 1970 to 2199), or is one
// of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly and "@every <duration>". Fields take *, ?, lists, ranges,
// steps, and English names of months and weekdays; Sunday is 0 and 7. As in every cron, a day must match both day fields where
// one of them is *, and either of them where none is.
//
// "@every 90s" is due at anchor + k × 90 s, k from 1; the caller says what the anchor is. Its duration is whole seconds.
//
// # Zones and summer time
//
// An instant is due when the wall clock of the schedule's zone shows, at that instant, what the spec asks for. So what falls
// into the gap of a spring night is not due that day, and what falls into the repeated hour of an autumn night is due twice, an
// hour apart. That is what robfig/cron means to do, too. Its parser reads the specs, but the search is our own: robfig's gives up after
// five years, and loses days whose midnight does not exist and hours of zones that shift by half an hour.
package schedule
