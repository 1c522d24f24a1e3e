package memstore

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

type backfill struct {
	store.Backfill

	expandAtMS int64
}

func (s *Store) backfill(app string, id timer.ID) (*backfill, error) {
	for _, b := range s.backfills {
		if b.ID == id && b.App == app {
			return b, nil
		}
	}
	return nil, timer.NotFound("backfill", id)
}

// StartBackfill begins a backfill.
func (s *Store) StartBackfill(ctx context.Context, b store.Backfill) (store.Backfill, error) {
	defer s.lockToWrite(ctx)()
	t := s.timers[b.Timer]
	if t == nil || t.App != b.App || t.Status == timer.StatusDeleted {
		return store.Backfill{}, timer.NotFound("timer", b.Timer)
	}
	for _, x := range s.backfills {
		switch {
		case x.ID != b.ID:
		case x.App != b.App || x.Timer != b.Timer:
			return store.Backfill{}, timer.Conflict("id", "this backfill id is taken")
		default:
			return x.Backfill, nil
		}
	}
	if err := s.refuseFrozen(b.App); err != nil {
		return store.Backfill{}, err
	}
	b.NextMS, b.FiresCreated, b.Status, b.CreatedMS = b.FromMS, 0, store.BackfillRunning, s.nowMS()
	s.backfills = append(s.backfills, &backfill{Backfill: b, expandAtMS: b.CreatedMS})
	e, err := store.AuditBackfillStarted(&b)
	s.addAudit(store.ActorOf(ctx), b.App, e, err)
	return b, nil
}

// Backfill returns a backfill.
func (s *Store) Backfill(_ context.Context, app string, id timer.ID) (store.Backfill, error) {
	defer s.lock()()
	b, err := s.backfill(app, id)
	if err != nil {
		return store.Backfill{}, err
	}
	return b.Backfill, nil
}

// CancelBackfill ends a backfill and finishes its unowned fires.
func (s *Store) CancelBackfill(
	ctx context.Context,
	app string,
	id timer.ID,
) (store.Backfill, error) {
	defer s.lockToWrite(ctx)()
	b, err := s.backfill(app, id)
	if err != nil {
		return store.Backfill{}, err
	}
	var open []*timer.Fire
	some := false // whether any fire is open
	for fid, f := range s.fires {
		if fid.Timer != b.Timer || fid.Series != int64(id) {
			continue
		}
		if some = true; f.Owner == 0 {
			open = append(open, f)
		}
	}
	if b.Status == store.BackfillDone && !some {
		return b.Backfill, nil
	}
	if b.Status != store.BackfillCancelled {
		e, err := store.AuditBackfillCancelled(&b.Backfill)
		s.addAudit(store.ActorOf(ctx), app, e, err)
	}
	b.Status = store.BackfillCancelled
	nowMS := s.nowMS()
	slices.SortFunc(open, func(x, y *timer.Fire) int { return timer.CompareFires(*x, *y) })
	for _, f := range open {
		s.finish(f, &timer.Outcome{
			Fire:       *f,
			Kind:       timer.Skipped,
			Reason:     timer.ReasonCancelled,
			FinishedMS: nowMS,
			UntilMS:    f.DueMS,
			Count:      1,
			Attempts:   f.Attempt,
			LatenessMS: f.FirstLatenessMS,
			Hops:       f.Hops(nowMS),
		}, store.SystemSession)
		delete(s.timers[b.Timer].queue, f.FireID)
	}
	s.promoteNext(s.timers[b.Timer])
	return b.Backfill, nil
}

// ExpandBackfills plans backfills one by one.
func (s *Store) ExpandBackfills(
	_ context.Context,
	limit int,
	plan store.BackfillPlanner,
) (fires []timer.Fire, n int, err error) {
	defer s.lock()()
	nowMS := s.nowMS()
	due := s.dueBackfills(nowMS)
	n = min(len(due), limit)
	for _, b := range due[:n] {
		t := s.timers[b.Timer]
		if t.Status == timer.StatusDeleted ||
			t.Definition.Schedule.Kind == timer.KindFixedDelay {
			b.Status = store.BackfillCancelled
			continue
		}
		made, nextMS, err := plan(&t.Timer, &b.Backfill, nowMS)
		if err != nil || !validPlan(&b.Backfill, made, nextMS) {
			b.expandAtMS = nowMS + planRetryDelay.Milliseconds()
			continue
		}
		for _, f := range made {
			f.AppID, f.Version, f.Epoch, f.Rev, f.Owner, f.TargetBits = t.AppID, t.Version, t.ActiveEpoch, 0, 0, 0
			s.keep(t)
			s.insert(&f)
			fires = append(fires, f)
		}
		b.NextMS, b.FiresCreated = nextMS, b.FiresCreated+int64(len(made))
		if nextMS >= b.ToMS || b.FiresCreated >= store.MaxBackfillFires {
			b.Status = store.BackfillDone
		}
	}
	return fires, n, nil
}

// dueBackfills returns the running backfills that are due for expansion.
func (s *Store) dueBackfills(nowMS int64) (due []*backfill) {
	for _, b := range s.backfills {
		if b.Status == store.BackfillRunning && b.expandAtMS <= nowMS {
			due = append(due, b)
		}
	}
	return due
}

// validPlan reports whether a plan advances and has each due instant of its part once.
func validPlan(b *store.Backfill, fires []timer.Fire, nextMS int64) bool {
	slices.SortFunc(fires, timer.CompareFires)
	last := b.NextMS - 1
	for i := range fires {
		f := &fires[i]
		if f.Timer != b.Timer || f.Series != int64(b.ID) || f.DueMS <= last || f.DueMS >= b.ToMS {
			return false
		}
		last = f.DueMS
	}
	return last < nextMS
}
