package fires

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Defer locks the timers' rows, then those of the fires. An activation comes before, and the fire
// stays with the session, or it comes after and finds the fire deferred. A call that dies halfway
// has changed nothing. A repeated call owns none of the fires any more.
//
// A deferred fire does not wait for a slot, and gives up its slot if it had no attempt yet. The
// first fire in the queue gets it: a requested one runs meanwhile. An attempt that died with its
// executor is not recorded, and does not count. A fire between two attempts keeps its slot, because
// it has not finished. Only a requested fire takes it, and the first one in the queue asks again.
func (s *Fires) Defer(
	ctx context.Context,
	session timer.ID,
	fires []store.Deferral,
) (kept []timer.FireID, err error) {
	ids := make([]timer.ID, len(fires))
	for i := range fires {
		ids[i] = fires[i].Fire.Timer
	}
	err = s.db.Write(ctx, "deferring fires", func(ctx context.Context, c sqldb.Runner) error {
		kept = nil
		slots, err := s.fires.lockSlots(ctx, c, ids)
		if err != nil {
			return err
		}
		nowMS, err := s.db.NowMS(ctx, c)
		if err != nil {
			return err
		}
		var waiting []timer.Fire
		runs := make(map[timer.FireID]int64, len(fires))
		for i := range fires {
			d := &fires[i]
			r := slots[d.Fire.Timer]
			if r != nil && (r.activeAt(nowMS) || r.Status == timers.RowDeleted) {
				kept = append(kept, d.Fire.FireID)
				continue
			}
			waiting, runs[d.Fire.FireID] = append(waiting, d.Fire), d.RunAtMS
		}
		return s.deferOwned(ctx, c, session, waiting, runs, slots, nowMS)
	})
	return kept, err
}

// activeAt reports whether the timer is active by the store's clock: see timer.State.
func (r *slotRow) activeAt(nowMS int64) bool {
	return r.Status == timers.RowActive ||
		r.Status == timers.RowPaused && r.PausedUntilMS > 0 && r.PausedUntilMS <= nowMS
}

func (s *Fires) deferOwned(
	ctx context.Context,
	c sqldb.Runner,
	session timer.ID,
	fires []timer.Fire,
	runs map[timer.FireID]int64,
	slots map[timer.ID]*slotRow,
	nowMS int64,
) error {
	owned, _, err := s.ownedOf(ctx, c, session, fires)
	if err != nil || len(owned) == 0 {
		return err
	}
	slices.SortFunc(owned, func(a, b timer.Fire) int {
		return cmp.Or(cmp.Compare(a.Timer, b.Timer), timer.CompareFires(a, b))
	})
	for part := range sqldb.Batches(owned) {
		q := sqldb.Stmt(
			"INSERT INTO deferred_fires (timer_id,due_ms,series,run_at_ms,revision) VALUES ",
		)
		for i := range part {
			q.Row(
				i == 0,
				int64(part[i].Timer),
				part[i].DueMS,
				part[i].Series,
				part[i].RunAtMS,
				int64(part[i].Rev+1),
			)
		}
		if _, err := s.db.Exec(
			ctx,
			c,
			q.Add(s.db.Dialect.Set("timer_id,due_ms,series", "run_at_ms", "revision")),
		); err != nil {
			return err
		}
	}
	given := map[timer.ID]*slotRow{}
	var attempted []timer.ID // of timers whose slot a deferred fire keeps
	for i := range owned {
		f := &owned[i]
		if r := slots[f.Timer]; r != nil && r.running() == f.FireID {
			if f.Attempt > 0 {
				attempted = append(attempted, f.Timer)
			} else {
				r.give(timer.FireID{})
				given[f.Timer] = r
			}
		}
		f.RunAtMS, f.Bucket, f.Owner = runs[f.FireID], 0, 0
		f.Rev++
	}
	if err := s.fires.dequeue(ctx, c, sqldb.IDsOf(owned)); err != nil {
		return err
	}
	promoted, err := s.fires.promoteAfter(ctx, c, given, nowMS)
	if err != nil {
		return err
	}
	woken, err := s.fires.wakeRequested(ctx, c, attempted, nowMS)
	if err != nil {
		return err
	}
	if err := s.fires.saveSlots(ctx, c, slots); err != nil {
		return err
	}
	owned = slices.Concat(owned, promoted, woken)
	slices.SortFunc(owned, timer.CompareFires)
	return s.fires.Save(ctx, c, owned, releaseColumns...)
}
