package schedule

import (
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// wall is due when the wall clock of a zone shows what a cron asks for, under the policies for what
// it skips and repeats.
type wall struct {
	*cron

	zone   *zone.Table
	shift  bool // a gap that swallows matches is due once, when it ends
	first  bool // repeated matches are due in the first pass,
	second bool // in the second; in both where neither is set
}

func newWall(c *cron, z *zone.Table, s *timer.Schedule) *wall {
	w := &wall{cron: c, zone: z}
	if c.everyHour {
		return w // it asks for every instant whose local time matches, in a pass of its own or not
	}
	w.shift = s.Gap != timer.GapSkip
	w.first = s.Overlap == "" || s.Overlap == timer.OverlapFirst
	w.second = s.Overlap == timer.OverlapSecond
	return w
}

// next looks for the match on the wall clock first, as if it had no changes, and then goes to the
// stretch between two changes of the zone that shows it. So it costs the same in the next hour and
// in a hundred years.
func (w *wall) next(afterMS, _ int64) int64 {
	if afterMS >= maxMS {
		return timer.NeverMS
	}
	at := floorDiv(max(afterMS, -1), 1000) + 1 // unix seconds
	z := w.zone
	for i := z.At(at); ; {
		begin, end, offset := z.Start(i), z.End(i), z.Offset(i)
		from, to := at+offset, end+offset
		behind := to // local times from here on come in later stretches
		if i > 0 {
			was := z.Offset(i - 1)
			if at == begin && w.shift && w.anyBetween(begin+was, begin+offset) {
				return inTime(begin)
			}
			if w.first && was > offset {
				from = max(from, begin+was)
			}
		}
		last := i+1 == z.Len()
		if !last {
			then := z.Offset(i + 1)
			behind = min(to, end+then)
			if w.second && then < offset {
				to = end + then
			}
		}
		match := w.cron.next(from)
		if match != none && match < to {
			return inTime(match - offset)
		}
		if last {
			return timer.NeverMS
		}
		switch i++; {
		case from > behind: // the next stretch begins with local times that were not searched
		case match == none:
			return timer.NeverMS
		default:
			i = z.After(i, match)
		}
		at = z.Start(i)
	}
}

// anyBetween tells whether there is a match among the local times [from, to).
func (w *wall) anyBetween(from, to int64) bool {
	if from >= to {
		return false
	}
	match := w.cron.next(from)
	return match != none && match < to
}

// inTime returns an instant in milliseconds if it lies before the end of the years that schedules
// know.
func inTime(unix int64) int64 {
	if unix*1000 >= maxMS {
		return timer.NeverMS
	}
	return unix * 1000
}
