// Package schedule validates schedules, computes their instants, and previews them. It is pure: it
// reads no clock and calls no server, so the same schedule yields the same instants in every
// process. For that reason the zone database is compiled in.
//
// Instants lie in the years 1970 to 2199 and are whole milliseconds. There is no horizon: an
// instant in 150 years is found as fast as one in the next minute.
//
// # Kinds
//
//   - cron: when the wall clock of the zone matches one of the specs. Instants that several specs
//     share are one.
//   - interval: anchor + phase + k × every, k from 0, in elapsed time. Without its own anchor it
//     counts from the timer's first activation. That activation is not due itself, so without a
//     phase k starts at 1.
//   - fixed_delay: every after the end of the last fire, once. The caller passes that end as the
//     anchor.
//   - at: an instant. If it is past at the first activation, it is due at that moment.
//   - delay: a duration after the first activation.
//
// # Specs
//
// A spec has 5 fields: minute, hour, day of the month, the month, and weekday. It may have 6
// (second first) or 7 (year last, 1970 to 2199). It may also be one of @yearly, @annually,
// @monthly, @weekly, @daily, @midnight, @hourly and "@every <duration>", an interval in whole
// seconds. A field is a comma-separated list of items:
//
//	item         values
//	*  ?         every value; in a day field: not restricted
//	5  1-5  8/3  a value, a range, every third value from 8; also mon-fri, jan-mar;
//	             */15 and 1-30/7 are steps in a range
//	22-2         a range that wraps: 22, 23, 0, 1 and 2; also fri-mon, nov-feb, 28-3 and
//	             21-4/2; not for years
//	L  L-3  LW   day of month: the last, three days before the last, the last workday
//	             (Monday to Friday)
//	15W          day of month: the workday nearest to the 15th, within the month; 31W
//	             matches only in months of 31 days
//	L-1W         the workday nearest to the day before the last
//	5L  5#3      weekday: the last Friday of the month, the third; also friL and fri#3
//	H  H/15      a value, or every fifteenth from a value, chosen by the timer's id: stable,
//	             and spread over all timers
//	H(8-17)      a value within a range; for days of month H is 1 to 28; not for years
//
// A step must be smaller than the number of values of its field. So */60 and 5/75 are rejected for
// minutes, because they never reach a second value. The duration of an @every may have days, as in
// "1d12h". A day always has 24 hours.
//
// Package github.com/robfig/cron/v3 parses the names with an @, and all items but L, W, #, H, 7,
// wrapping ranges and years, which this package adds to its result. This package has its own search
// for the next instant: that of robfig/cron gives up after five years, and has a single rule for
// gaps and overlaps.
//
// Sunday is 0 and 7 in every form: 5-7, 5-0 and fri-sun are Friday to Sunday; 7-2 and 0-2 are
// Sunday to Tuesday. If one of the two day fields is unrestricted (* or ?, also with the step 1 or
// in a list), a day must match both fields. If both are restricted, it must match either. */2 is a
// restriction.
//
// Check rejects specs that never match, such as "0 0 30 2 *". Parse accepts them, with no instants.
// Specs that match only in the past are valid. Warnings reports these, and schedules that are never
// due for other reasons. Errors of specs have the form "at <byte>: expected <what>, found <what>".
//
// # Zones
//
// Local times can be missing on a day (a gap: the clock goes forward) or occur twice (an overlap:
// it goes back). The effect on a cron depends on its hour field:
//
//   - With * or */n (or ? or ?/n) the spec means a rhythm. It is due at every instant whose local
//     time matches: in both passes of an overlap, and never in a gap.
//   - Every other hour field, even a list or range of all hours, means times of day, and the
//     policies of the timer apply. With gap "shift", missing local times are due at the first
//     instant after the gap. They form one fire, also with an instant that is due then anyway.
//     With "skip" they are left out. The policies overlap "first", "second" and "both"
//     select the passes of an overlap. The defaults are shift and first.
//
// The length and the reason of a gap do not matter: a day lost at the date line is an ordinary gap.
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
// Due instants lie in [start_at, end_at): an instant at start_at is due, one at end_at is not. If a
// calendar moves an instant, both the original and the moved instant must lie in the window. A
// fixed delay that would end before start_at is due at start_at. The caller enforces max_fires.
// Jitter returns how long after its due instant a fire runs. Due instants, and so the identity of
// fires, do not move.
//
// # Calendars
//
// An instant is allowed if all calendars of the schedule allow it; package calendar has their
// rules. The policy decides what happens to an excluded instant:
//
//   - "skip", the default: it is not due. A fixed delay continues as if the fire had taken no time:
//     its instant is the first allowed one of anchor + k × every.
//   - "next_allowed": it moves to the day on which the next allowed stretch begins. It keeps its
//     local time of day if that is a different day and allows it. Otherwise it moves to the start
//     of that stretch.
//   - "previous_allowed": it moves back in the same way, to the day on which the previous allowed
//     stretch ends, or to the last second of that stretch. A one-shot never moves before its
//     activation. Fixed delays do not have this policy.
//
// If the kept time of day is missing on the other day, the end of the gap counts; if it occurs
// twice, the first pass. An instant that moves onto another due instant merges with it. Only the
// first 500 instants of an excluded stretch move (MaxMoved); the rest are skipped.
//
// # Guarantees
//
//   - D1: the due instants are a set that depends only on the schedule, its inputs and the anchor.
//     So for a ≤ b ≤ c, the instants in (a, c] are those in (a, b] plus those in (b, c]. This
//     includes instants that move back: Next looks ahead for them, through the excluded stretches
//     that begin on the day of the first allowed instant.
//   - D2: Next returns them in ascending order, each once.
//   - D3: Preview is computed by Next.
//
// # Files
//
// The definition:
//
//	schedule.go      a parsed schedule, and its next instant
//	check.go         what is refused: kinds, fields, durations
//	check_window.go  what is refused: instants, calendars, values of enumerations
//	policies.go      what is refused: misfire and concurrency policies
//	warnings.go      what is allowed but never due
//
// The text of a spec:
//
//	spec.go     a spec and its fields
//	scanner.go  its words
//	field.go    the fields and their values
//	item.go     parses an item of a field: L, W, #, H, ranges and steps
//
// The instants:
//
//	cron.go          searches the next local time that a spec matches
//	dates.go         which days of one month a spec selects, with L, W and #
//	civildate.go     days since 1970 as dates
//	wall.go          local times to instants: gaps and overlaps
//	relative.go      interval, delay and at
//	jitter.go        the jitter of a fire
//	excluded.go      instants that calendars exclude
//	weekly.go        skips weeks in which calendars exclude all of them
//	moved.go         instants that calendars move
//	verdict.go       why an instant is due or not
//	preview.go       the next instants, and what is left out
//	preview_zone.go  what gaps and overlaps leave out
package schedule
