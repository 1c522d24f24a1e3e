package upcoming

import (
	"context"
	"sort"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Upcoming returns up to limit due instants of a timer after asOfMS, ascending. It computes them
// from the schedule, so the cost does not depend on which fires exist. A timer paused until an
// instant is due from then on. Other timers that are not active are never due.
func (s *Finder) Upcoming(
	ctx context.Context,
	t *timer.Timer,
	asOfMS int64,
	limit int,
) ([]int64, error) {
	p, err := schedule.Parse(t.Definition.Schedule, Inputs(t))
	if err != nil {
		return nil, nil //nolint:nilerr // the migrator tells why
	}
	afterMS, ok := startOf(t, asOfMS)
	if !ok {
		return nil, nil
	}
	def := &t.Definition.Schedule
	switch {
	case def.Kind == timer.KindFixedDelay:
		return s.upcomingFixedDelay(ctx, t, asOfMS)
	case def.Kind.OneShot():
		if due := nextOneShot(t, p, asOfMS); due > asOfMS && due != timer.NeverMS {
			return []int64{due}, nil
		}
		return nil, nil
	}
	var dues []int64
	left := def.MaxFires - t.FiresCreated // beyond what is expanded
	for at := p.Next(afterMS, expansion.Anchor(t)); at != timer.NeverMS && len(dues) < limit; at = p.Next(at, expansion.Anchor(t)) {
		if def.MaxFires > 0 && at >= t.NextDueMS {
			if left <= 0 {
				break
			}
			left--
		}
		dues = append(dues, at)
	}
	if def.MaxFires > 0 && t.FiresCreated >= def.MaxFires && t.NextDueMS == timer.NeverMS {
		return s.limitToOpen(ctx, t, dues)
	}
	return dues, nil
}

// startOf returns the instant after which a timer is due, asOfMS or later. ok is false if it is
// never due.
func startOf(t *timer.Timer, asOfMS int64) (afterMS int64, ok bool) {
	switch {
	case t.Status == timer.StatusPaused && t.PausedUntilMS > 0:
		return max(asOfMS, t.PausedUntilMS-1), true
	case t.Status != timer.StatusActive:
		return 0, false
	}
	return max(asOfMS, t.ActiveSinceMS-1), true
}

// upcomingFixedDelay returns the next fire of a fixed delay, if it exists and is not due yet. Its
// successors depend on when it ends.
func (s *Finder) upcomingFixedDelay(
	ctx context.Context,
	t *timer.Timer,
	asOfMS int64,
) ([]int64, error) {
	if t.Status != timer.StatusActive {
		return nil, nil
	}
	due, err := s.onlyIfOpen(ctx, t, asOfMS, t.LastDueMS)
	if err != nil || due == timer.NeverMS {
		return nil, err
	}
	return []int64{due}, nil
}

// limitToOpen returns the instants before the first one without an open fire. All fires that
// max_fires allows exist, and the schedule alone does not tell which is the last. Fires are created
// in order, so a binary search finds it.
func (s *Finder) limitToOpen(ctx context.Context, t *timer.Timer, dues []int64) ([]int64, error) {
	var failed error
	n := sort.Search(len(dues), func(i int) bool {
		if failed != nil {
			return true
		}
		f, err := s.Store.Fire(ctx, t.App, timer.FireID{Timer: t.ID, DueMS: dues[i]})
		if err != nil && timer.CodeOf(err) != timer.CodeNotFound {
			failed = err
		}
		return err != nil || f.Open == nil
	})
	return dues[:n], failed
}
