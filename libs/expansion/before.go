package expansion

import (
	"slices"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Before returns the due times of a cron or an interval in [fromMS, dueMS), in order. It returns
// only those planned to run in [sinceMS, untilMS), and of them the latest n. It uses only the timer's
// given version; earlier versions may have had other due times.
func (p *Planner) Before(
	t *timer.Timer, dueMS, fromMS, sinceMS, untilMS int64, n int,
) ([]int64, error) {
	kind, jitter := t.Definition.Schedule.Kind, t.Definition.Schedule.Jitter
	if !kind.Repeats() || fromMS >= dueMS {
		return nil, nil
	}
	s, err := p.schedule(t)
	if err != nil {
		return nil, err
	}
	anchor := Anchor(t)
	var spans [][]int64
	count, to := 0, dueMS
	for span := latestSpan.Milliseconds(); count < n && to > fromMS; span *= latestWiden {
		start := max(fromMS, to-span)
		var dues []int64
		for due := s.Next(start-1, anchor); due < to; due = s.Next(due, anchor) {
			planned := due + schedule.Jitter(t.ID, due, jitter)
			if sinceMS <= planned && planned < untilMS {
				dues = append(dues, due)
			}
		}
		spans, count, to = append(spans, dues), count+len(dues), start
	}
	slices.Reverse(spans)
	all := slices.Concat(spans...)
	return all[max(0, len(all)-n):], nil
}
