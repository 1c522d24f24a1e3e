// Package schedule checks schedules, turns them into instants, and tells in advance what they will
// give. It is pure: it asks no clock and no server, and the same schedule gives the same instants
// in every process, for ever. The zone database is compiled in for that reason.
//
// Instants lie in the years 1970 to 2199 and are whole milliseconds. There is no horizon: what is
// due next in 150 years is found as fast as what is due in the next minute.
//
// # Kinds
//
//   - cron: when the wall clock of the zone matches one of the specs. Instants that several specs
//     have in common are one.
//   - interval: anchor + phase + k × every, k from 0, in elapsed time. Without an anchor of its own
//     it counts from the timer's first activation, which itself is not due (so k is from 1 where
//     there is no phase).
//   - fixed_delay: every after the end of the last fire, once: the caller hands in that end as the
//     anchor.
//   - at: an instant. One that is past at the first activation is due at that moment.
//   - delay: so long after the first activation.
//
// # Specs
//
// A spec has 5 fields (minute, hour, day of the month, the month, weekday), 6 (second first) or 7
// (year last, 1970 to 2199), or is one of @yearly, @annually, @monthly, @weekly, @daily, @midnight,
// @hourly and "@every <duration>", an interval in whole seconds. A field is a list of items,
// separated by commas:
//
//   - ? every value; in a day field: not restricted 5 1-5 8/3 a value, a range, every third from 8
//     on; also mon-fri, jan-mar; */15 and 1-30/7 are every so many of a range 22-2 a range that
//     wraps: 22, 23, 0, 1 and 2; also fri-mon, nov-feb, 28-3, 21-4/2; not of years L L-3 LW of the
//     day of the month: the last, three days before the last, the last from Monday to Friday 15W of
//     the day of the month: the day from Monday to Friday nearest to the 15th, within the month;
//     31W is of long months only L-1W the same for the day before the last 5L 5#3 of the weekday:
//     the last Friday of the month, the third; also friL and fri#3 H H/15 one value, and every
//     fifteenth from one on, that the timer's id chooses: the same always, spread over all timers;
//     H(8-17) within a range. Of days of the month H is one of 1 to 28; years have none
//
// A step is smaller than the number of values of its field. So */60 and 5/75 are refused for
// minutes: they never get to a second one. The duration of an @every may have days, "1d12h", which
// are always 24 hours.
//
// Package github.com/robfig/cron/v3 reads the names with an @, and all fields without L, W, #, H,
// 7, ranges that wrap and years. The search for the next instant is this package's own: that one's
// ends after five years, and has one rule for gaps and overlaps.
//
// Sunday is 0 and 7 in every form: 5-7, 5-0 and fri-sun are Friday to Sunday, 7-2 and 0-2 Sunday to
// Tuesday. Where one of the day fields is
//   - or ? (also by ones, */1, or within a list), a day must match both; where neither is, either.
//     */2 restricts.
//
// A spec that can be read and never matches, such as "0 0 30 2 *", is refused by Check. Parse
// accepts it, and it has no instants. One that matched in the past only is accepted: it is over.
// Warnings tells of such specs, and of schedules that are never due for other reasons. Errors of
// specs read "at <byte>: expected <what>, found <what>".
//
// # Zones
//
// Local times of a day can be missing (a gap: the clock goes forward) and there twice (an overlap:
// it goes back). What a cron makes of that depends on its hour field:
//
//   - If it is * or */n (or ? or ?/n), the spec asks for a rhythm. It is due at every instant whose
//     local time matches: in both passes of an overlap, and not in a gap.
//   - Every other spec, a list or range of all hours too, asks for times of day, and the timer's
//     policies hold. gap "shift": local times that do not exist are due at the first instant after
//     the gap, however many it swallowed, and together with what is due then anyway it is one fire;
//     "skip": they are not due that day. overlap "first", "second", "both": in which pass they are
//     due. Where nothing is said: shift and first.
//
// Nothing of this looks at how long a gap is or what it is for: a lost day across the date line is
// a gap like any other.
//
//	spec            zone                 day          policies   due (local)
//	30 2 * * *      Europe/Berlin        2026-03-29   shift      03:00, as 02:00 to 03:00 is missing
//	30 2 * * *      Europe/Berlin        2026-03-29   skip       not that day
//	*/20 2 * * *    Europe/Berlin        2026-03-29   shift      03:00, once for 02:00, 02:20 and 02:40
//	0 2,3 * * *     Europe/Berlin        2026-03-29   shift      03:00, once for both
//	0 * * * *       Europe/Berlin        2026-03-29   any        00:00, 01:00, 03:00, 04:00 …
//	30 2 * * *      Europe/Berlin        2026-10-25   first      02:30+02:00
//	30 2 * * *      Europe/Berlin        2026-10-25   second     02:30+01:00
//	30 2 * * *      Europe/Berlin        2026-10-25   both       02:30+02:00 and 02:30+01:00
//	0 */2 * * *     Europe/Berlin        2026-10-25   any        00:00, 02:00+02:00, 02:00+01:00, 04:00 …
//	0 0-23 * * *    Europe/Berlin        2026-10-25   first      24 times: 02:00+01:00 is not
//	15 2 * * *      Australia/Lord_Howe  2026-10-04   shift      02:30, as the gap is half an hour
//	0 0 * * *       America/Santiago     2026-09-06   shift      01:00, as the day has no midnight
//	@daily          America/Santiago     2026-09-06   skip       not that day
//	0 9 * * 5       Pacific/Apia         2011-12-30   shift      00:00 on the 31st, as that Friday is missing
//
// # Windows, limits and jitter
//
// What is due lies in [start_at, end_at): an instant at start_at is due, one at end_at is not. For
// what calendars move, that holds of where it was and of where it goes. A fixed delay that ends
// before start_at is due then. max_fires is for whoever counts fires. Jitter tells how long after
// its due instant a fire runs; due instants, and with them the identity of fires, do not move.
//
// # Calendars
//
// An instant is allowed if all the calendars of the schedule allow it; their rules are in package
// calendar. Of one that is excluded becomes:
//
//   - "skip", the default: nothing. A fixed delay goes on as if it had run in no time: the first
//     instant of anchor + k × every that is allowed.
//   - "next_allowed": it moves to the day on which the next allowed stretch begins, and keeps its
//     local time of day if that is another day and allows it; else it moves to the beginning of
//     that stretch.
//   - "previous_allowed": the same backwards, to the day on which the allowed stretch before ends;
//     else to its last second. A one-shot moves back to its activation at most, and a fixed delay
//     knows no such policy.
//
// A kept time of day that the other day misses is the end of the gap, and of one that it has twice
// the first pass. What moves onto another due instant is one with it. Of one excluded stretch the
// first 500 instants move (MaxMoved), and the rest are skipped.
//
// # What callers may rely on
//
//   - S1: due instants are a set that depends on the schedule, its inputs and the anchor only. So
//     for a ≤ b ≤ c, what is due in (a, c] is what is due in (a, b] and what is due in (b, c], also
//     where instants move back: Next looks ahead for those, through the excluded stretches that
//     begin on the day of the first allowed instant that it finds.
//   - S2: Next gives them in ascending order, each once.
//   - S3: Preview is made of Next.
package schedule
