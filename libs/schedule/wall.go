package schedule

import (
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// wall is due when the wall clock of a zone matches a cron, subject to the gap and overlap
// policies.
type wall struct {
	*cron

	zone   *zone.Table
	shift  bool // a gap that contains matches is due once, at its end
	first  bool // repeated matches are due in the first pass
	second bool // or in the second; in both if neither is set
}

func newWall(c *cron, z *zone.Table, s *timer.Schedule) *wall {
	w := &wall{cron: c, zone: z}
	if c.everyHour {
		return w // every instant with a matching local time is due, in any pass
	}
	w.shift = s.Gap != timer.GapSkip
	w.first = s.Overlap == "" || s.Overlap == timer.OverlapFirst
	w.second = s.Overlap == timer.OverlapSecond
	return w
}

// next first searches the wall clock as if the zone never changed. Then it goes to the stretch of
// the zone that shows the match. So its cost does not depend on the distance.
func (w *wall) next(afterMS, _ int64) int64 {
	if afterMS >= maxMS {
		return timer.NeverMS
	}
	at := floorDiv(max(afterMS, -1), 1000) + 1 // unix seconds
	z := w.zone
	for i := z.At(at); ; {
		begin, end, offset := z.Start(i), z.End(i), z.Offset(i)
		from, to := at+offset, end+offset
		behind := to // local times from here on belong to later stretches
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
		case from > behind: // the next stretch begins with local times not searched yet
		case match == none:
			return timer.NeverMS
		default:
			i = z.After(i, match)
		}
		at = z.Start(i)
	}
}

// anyBetween reports whether a local time in [from, to) matches.
func (w *wall) anyBetween(from, to int64) bool {
	if from >= to {
		return false
	}
	match := w.cron.next(from)
	return match != none && match < to
}

// inTime converts seconds to milliseconds, or returns timer.NeverMS after the end of maxYear.
func inTime(unix int64) int64 {
	if unix*1000 >= maxMS {
		return timer.NeverMS
	}
	return unix * 1000
}
