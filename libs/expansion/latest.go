package expansion

import (
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

// latest is the result of a search over the late fires of a version. Of those planned up to
// untilMS, the ones due from fromMS on run. While count is below the number that may run, earlier
// ones are still to be counted.
type latest struct {
	fromMS, untilMS int64
	plannedMS       int64 // fires planned then or later are of another backlog
	count           int
}

// Backlog tells which instants of a version are those of late fires.
type Backlog struct {
	Inactive []timer.Inactivity // what was due in them is skipped
	// SinceMS is when the pause began for which fires are late. What was planned before it was called
	// then. So was some of the next second, in which executors learn of the pause. That counts: rather
	// fewer run than more. 0: there was no pause.
	SinceMS     int64
	UntilMS     int64 // what was planned then or later is not late
	DueBeforeMS int64 // what was due then or later is of another version
	AnchorMS    int64 // as the timer's
}

// AmongLatest reports whether a late fire is among the latest count fires of its timer's backlog,
// which misfire policy fire_all runs. The first answer covers the whole backlog, so that working
// through it leaves out no more of it.
//
// Three cases are not exact. If the timer has max_fires, all of them run. If a calendar moved the due
// times of an interval, only their distances count. With jitter, fires that were called before an
// outage, up to the jitter, count, so that fewer run.
func (p *Planner) AmongLatest(
	f *timer.Fire,
	d *timer.Definition,
	calendars []timer.Calendar,
	b *Backlog,
	count int,
) (bool, error) {
	if !d.Schedule.Kind.Repeats() ||
		f.Series != 0 ||
		d.Schedule.MaxFires > 0 {
		return true, nil
	}
	key := store.VersionKey{Timer: f.Timer, Version: f.Version}
	found, ok := p.latest.Get(key)
	switch {
	case !ok || f.DueMS+schedule.Jitter(f.Timer, f.DueMS, d.Schedule.Jitter) >= found.plannedMS:
		untilMS := min(b.UntilMS, b.DueBeforeMS)
		found = latest{fromMS: untilMS, untilMS: untilMS, plannedMS: b.UntilMS}
	case f.DueMS >= found.fromMS || found.count >= count:
		return f.DueMS >= found.fromMS, nil
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
	if d.Schedule.Kind == timer.KindCron { // @every has an anchor too
		anchor = b.AnchorMS
	}
	for span := latestSpan.Milliseconds(); found.count < count && found.fromMS > f.DueMS; span *= latestWiden {
		start := max(f.DueMS, found.fromMS-span)
		var dues []int64
		for due := s.Next(start-1, anchor); due < found.fromMS; due = s.Next(due, anchor) {
			if end := inactiveUntil(b.Inactive, due); end > due {
				due = min(end, found.fromMS) - 1
				continue
			}
			planned := due + schedule.Jitter(f.Timer, due, d.Schedule.Jitter)
			if b.SinceMS <= planned && planned < b.UntilMS {
				dues = append(dues, due)
			}
		}
		found.fromMS = start
		if more := count - found.count; len(dues) >= more {
			dues = dues[len(dues)-more:]
			found.fromMS = dues[0]
		}
		found.count += len(dues)
	}
	p.latest.Add(key, found)
	return f.DueMS >= found.fromMS, nil
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
