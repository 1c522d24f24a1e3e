package expansion

import (
	"time"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// A look for the latest instants goes back so far, and then each time so many times as far, until
// it has found enough of them.
const (
	latestSpan  = time.Minute
	latestWiden = 4
)

// latest is what was found out about the late instants of a version: up to untilMS, those that run
// are due from fromMS on. Where there are fewer than may run, what is due before fromMS is still to
// be counted.
type latest struct {
	fromMS, untilMS int64
	count           int
}

// AmongLatest tells whether a late fire is among the latest n of those of its timer whose run was
// planned before untilMS: what fire_all runs. Like a catch-up, an answer covers all that was late
// when it was first asked for: who works through a backlog leaves out no more of it for the time
// that this takes. It is exact but where nobody knows: where the timer counts its fires, all of
// them run; of an interval whose instants a calendar has moved, the distances count.
func (p *Planner) AmongLatest(
	f *timer.Fire,
	d *timer.Definition,
	calendars []timer.Calendar,
	untilMS int64,
	count int,
) (bool, error) {
	if kind := d.Schedule.Kind; kind != timer.KindCron && kind != timer.KindInterval ||
		f.Series != 0 ||
		d.Schedule.MaxFires > 0 {
		return true, nil
	}
	key := store.VersionKey{Timer: f.Timer, Version: f.Version}
	found, ok := p.latest.Get(key)
	switch {
	case !ok || f.DueMS > found.untilMS:
		found = latest{fromMS: untilMS, untilMS: untilMS}
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
	// an interval has this instant, whatever it counts from.
	anchor := f.DueMS - time.Duration(d.Schedule.Phase+d.Schedule.Every).Milliseconds()
	for span := latestSpan.Milliseconds(); found.count < count && found.fromMS > f.DueMS; span *= latestWiden {
		start := max(f.DueMS, found.fromMS-span)
		var dues []int64
		for due := s.Next(start-1, anchor); due < found.fromMS; due = s.Next(due, anchor) {
			if due+schedule.Jitter(f.Timer, due, d.Schedule.Jitter) < found.untilMS {
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
