package upcoming

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Store is the part of the store that a Finder needs.
type Store interface {
	Fire(ctx context.Context, app string, id timer.FireID) (store.FireRecord, error)
	History(
		ctx context.Context,
		app string,
		id timer.ID,
		before timer.FireID,
		limit int,
	) ([]timer.Outcome, error)
}

// Finder finds due instants.
type Finder struct {
	Store Store
	Now   func() time.Time
}

// Inputs returns what a timer's schedule depends on besides itself.
func Inputs(t *timer.Timer) schedule.Inputs {
	return schedule.Inputs{Timer: t.ID, Calendars: t.Calendars}
}

// Ahead counts the fires of a timer's plan that exist and are due after nowMS. What max_fires counts
// besides them has come.
func Ahead(t *timer.Timer, nowMS int64) (n int64) {
	p, err := schedule.Parse(t.Definition.Schedule, Inputs(t))
	kind := t.Definition.Schedule.Kind
	switch {
	case t.LastDueMS <= nowMS:
		return 0
	case err != nil, kind == timer.KindFixedDelay, kind.OneShot():
		return 1 // the latest is the only one
	}
	anchor := expansion.Anchor(t)
	for at := p.Next(nowMS, anchor); at <= t.LastDueMS && n < t.FiresCreated; at = p.Next(at, anchor) {
		n++
	}
	return n
}

// NextDue returns the first due instant after now of an active timer. It returns NeverMS where
// there is none, or where it is not yet known. t.NextDueMS is how far the timer is expanded, about
// an hour further.
func (s *Finder) NextDue(ctx context.Context, t *timer.Timer) (int64, error) {
	return s.nextDue(
		t,
		func(now, due int64) (int64, error) { return s.onlyIfOpen(ctx, t, now, due) },
	)
}

// NextPlanned is NextDue without reads of the store. Of a fixed delay, and of a timer whose fires all
// exist, it may return an instant that has no fire any more.
func (s *Finder) NextPlanned(_ context.Context, t *timer.Timer) (int64, error) {
	return s.nextDue(t, func(now, due int64) (int64, error) {
		if due <= now || due > t.LastDueMS {
			return timer.NeverMS, nil
		}
		return due, nil
	})
}

// nextDue asks ifOpen about an instant that counts only with an open fire.
func (s *Finder) nextDue(
	t *timer.Timer,
	ifOpen func(now, due int64) (int64, error),
) (int64, error) {
	if t.Status != timer.StatusActive {
		return timer.NeverMS, nil
	}
	p, err := schedule.Parse(t.Definition.Schedule, Inputs(t))
	if err != nil {
		return timer.NeverMS, nil //nolint:nilerr // the migrator tells why
	}
	now := s.Now().UnixMilli()
	kind, most := t.Definition.Schedule.Kind, t.Definition.Schedule.MaxFires
	switch {
	case kind == timer.KindFixedDelay:
		// Its next instant is unknown while a fire is being called.
		return ifOpen(now, t.LastDueMS)
	case kind.OneShot():
		return nextOneShot(t, p, now), nil
	case most > 0 && t.FiresCreated >= most:
		// All its fires are created, and the schedule alone does not tell which is the last.
		return ifOpen(now, p.Next(max(now, t.ActiveSinceMS-1), expansion.Anchor(t)))
	default:
		return p.Next(max(now, t.ActiveSinceMS-1), expansion.Anchor(t)), nil
	}
}

// nextOneShot returns the due instant of a one-shot. Before expansion that is NextDueMS, which an
// activation may have moved, or the end of a pause; afterwards it is the instant of the schedule,
// unless it has passed.
func nextOneShot(t *timer.Timer, p *schedule.Parsed, now int64) int64 {
	due := p.Next(-1, expansion.Anchor(t))
	if t.NextDueMS != timer.NeverMS {
		return max(due, t.NextDueMS, t.PausedUntilMS)
	}
	if due <= now {
		return timer.NeverMS
	}
	return due
}

// onlyIfOpen returns an instant after now that has an open fire, and NeverMS for others. In a dry run
// a timer that is not created has no fires, and the start of a fixed delay has none: there every
// instant after now counts.
func (s *Finder) onlyIfOpen(
	ctx context.Context,
	t *timer.Timer,
	now, due int64,
) (int64, error) {
	if due <= now || due == timer.NeverMS {
		return timer.NeverMS, nil
	}
	if store.IsDryRun(ctx) && (t.ID == 0 || t.Definition.Schedule.Kind == timer.KindFixedDelay) {
		return due, nil
	}
	f, err := s.Store.Fire(ctx, t.App, timer.FireID{Timer: t.ID, DueMS: due})
	switch {
	case timer.CodeOf(err) == timer.CodeNotFound:
		return timer.NeverMS, nil
	case err != nil:
		return 0, err //nolint:wrapcheck // the store says what it was doing
	case f.Open == nil:
		return timer.NeverMS, nil
	}
	return due, nil
}
