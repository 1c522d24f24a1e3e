package expansion

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// The search for the latest fires goes back latestSpan, then each time latestWiden times as far,
// until it has found enough.
const (
	latestSpan  = time.Minute
	latestWiden = 4
)

// latest is the result of a search over the late fires of a version. Of those planned before
// untilMS, the ones from first on run. While count is below the number that may run, earlier ones
// are still to be counted.
type latest struct {
	first   instant
	untilMS int64
	count   int
}

// instant is an instant of a schedule, in the order in which they were to be called.
type instant struct{ plannedMS, dueMS int64 } // plannedMS has the jitter

func (i instant) compare(j instant) int {
	return cmp.Or(cmp.Compare(i.plannedMS, j.plannedMS), cmp.Compare(i.dueMS, j.dueMS))
}

// AmongLatest reports whether a late fire is among the latest count fires of its timer that were
// planned before untilMS, which misfire policy fire_all runs. The first answer covers the whole
// backlog, so that working through it leaves out no more of it. Those due within a period of inactive
// are not late, but skipped.
//
// The latest are those planned last. What was planned before an outage or a pause began was called
// then, however late it was due, and must not count.
//
// Two cases are not exact. If the timer has max_fires, all of them run. If a calendar moved the due
// times of an interval, only their distances count.
func (p *Planner) AmongLatest(
	f *timer.Fire,
	d *timer.Definition,
	calendars []timer.Calendar,
	inactive []timer.Inactivity,
	untilMS int64,
	count int,
) (bool, error) {
	if !d.Schedule.Kind.Repeats() ||
		f.Series != 0 ||
		d.Schedule.MaxFires > 0 {
		return true, nil
	}
	jitter := d.Schedule.Jitter
	asked := instant{f.DueMS + schedule.Jitter(f.Timer, f.DueMS, jitter), f.DueMS}
	key := store.VersionKey{Timer: f.Timer, Version: f.Version}
	found, ok := p.latest.Get(key)
	switch {
	case !ok || asked.plannedMS > found.untilMS:
		found = latest{first: instant{plannedMS: untilMS}, untilMS: untilMS}
	case asked.compare(found.first) >= 0 || found.count >= count:
		return asked.compare(found.first) >= 0, nil
	}
	s, err := p.schedule(
		&timer.Timer{
			ID:         f.Timer,
			AppID:      f.AppID,
			Version:    f.Version,
			Definition: *d,
			Calendars:  calendars,
		},
	)
	if err != nil {
		return false, err
	}
	// An interval has this due time, whatever its anchor.
	anchor := f.DueMS - time.Duration(d.Schedule.Phase+d.Schedule.Every).Milliseconds()
	for span := latestSpan.Milliseconds(); found.count < count && asked.compare(found.first) < 0; span *= latestWiden {
		start := max(asked.plannedMS, found.first.plannedMS-span)
		var late []instant
		due := s.Next(start-time.Duration(jitter).Milliseconds()-1, anchor)
		for due <= found.first.plannedMS {
			if end := inactiveUntil(inactive, due); end > found.first.plannedMS {
				break
			} else if end > due {
				due = s.Next(end-1, anchor)
				continue
			}
			i := instant{due + schedule.Jitter(f.Timer, due, jitter), due}
			if i.plannedMS >= start && i.compare(found.first) < 0 {
				late = append(late, i)
			}
			due = s.Next(due, anchor)
		}
		slices.SortFunc(late, instant.compare)
		found.first = instant{plannedMS: start}
		if more := count - found.count; len(late) >= more {
			late = late[len(late)-more:]
			found.first = late[0]
		}
		found.count += len(late)
	}
	p.latest.Add(key, found)
	return asked.compare(found.first) >= 0, nil
}

// inactiveUntil returns the end of the period that covers an instant, or 0.
func inactiveUntil(all []timer.Inactivity, dueMS int64) int64 {
	for _, i := range all {
		if i.Covers(dueMS) {
			return i.UntilMS
		}
	}
	return 0
}
