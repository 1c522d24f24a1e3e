package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// inactivityRow is a row of inactivities.
type inactivityRow struct {
	Timer   int64 `db:"timer_id"`
	FromMS  int64 `db:"from_ms"`
	UntilMS int64 `db:"until_ms"`
	Status  int64 `db:"status"`
}

// Inactivities reads the stretches along the primary key, without locks.
func (s *Store) Inactivities(
	ctx context.Context,
	ids []timer.ID,
) (all map[timer.ID][]timer.Inactivity, err error) {
	err = s.read(
		ctx,
		"reading when timers were not active",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			all = make(map[timer.ID][]timer.Inactivity, len(ids))
			for part := range batches(ids) {
				var rows []inactivityRow
				q := stmt(
					"SELECT timer_id,from_ms,until_ms,status FROM inactivities WHERE timer_id",
				).idList(part)
				if err := s.selectAll(
					ctx,
					c,
					&rows,
					q.add(" ORDER BY timer_id,from_ms"),
				); err != nil {
					return err
				}
				for _, r := range rows {
					id := timer.ID(r.Timer)
					all[id] = append(
						all[id],
						timer.Inactivity{
							FromMS:  r.FromMS,
							UntilMS: r.UntilMS,
							Status:  statusFromRow(r.Status),
						},
					)
				}
			}
			return nil
		},
	)
	return all, err
}

// stop begins a stretch in which a timer is not active, with its new status, and ends the one
// before.
func (x *expansion) stop(t *timer.Timer) {
	x.endStretch(t, x.nowMS)
	if t.InactiveSinceMS = x.nowMS; t.Status == timer.StatusDeleted {
		return // whatever it has left is skipped as deleted
	}
	until := timer.NeverMS
	if t.Status == timer.StatusPaused && t.PausedUntilMS > 0 {
		until = t.PausedUntilMS
	}
	x.stretches = append(
		x.stretches,
		inactivityRow{int64(t.ID), x.nowMS, until, statusToRow(t.Status)},
	)
}

// endStretch ends the stretch that a timer is in, if it is in one. The stretch keeps the status
// that it began with: the timer may have its next one already.
func (x *expansion) endStretch(t *timer.Timer, atMS int64) {
	if t.InactiveSinceMS > 0 {
		x.stretches = append(
			x.stretches,
			inactivityRow{int64(t.ID), t.InactiveSinceMS, max(atMS, t.InactiveSinceMS), keepStatus},
		)
	}
}

// keepStatus is the status of a row that is there already, and keeps it.
const keepStatus = -1

// saveStretches writes the stretches that began or ended. The timers' rows are locked, so of two
// calls the later one sees what the earlier one wrote. A stretch that began and ended within one
// millisecond covers nothing, and may be overwritten by the next.
func (x *expansion) saveStretches(ctx context.Context) error {
	slices.SortStableFunc(x.stretches, func(a, b inactivityRow) int {
		return cmp.Or(cmp.Compare(a.Timer, b.Timer), cmp.Compare(a.FromMS, b.FromMS))
	})
	d := x.store.dialect
	for part := range batches(x.stretches) {
		q := stmt("INSERT INTO inactivities (timer_id,from_ms,until_ms,status) VALUES ")
		for i, r := range part {
			q.row(i == 0, r.Timer, r.FromMS, r.UntilMS, r.Status)
		}
		q.add(d.set("timer_id,from_ms", "until_ms")).
			add(",status=CASE WHEN " + d.value("status") + "=").
			int(keepStatus).
			add(" THEN inactivities.status ELSE " + d.value("status") + " END")
		if _, err := x.store.exec(ctx, x.c, q); err != nil {
			return err
		}
	}
	return nil
}

// Defer locks the timers' rows, then those of the fires. An activation comes before all of this,
// and then the fire stays with the session, or after all of it, and then it finds the fire among
// the deferred ones. A call that dies halfway has changed nothing; a repeated one owns nothing any
// more.
//
// A deferred fire waits for no turn, and holds none before its first attempt: others of its timer
// may be asked for meanwhile. One between two attempts keeps its turn, for it has not finished.
func (s *Store) Defer(
	ctx context.Context,
	session timer.ID,
	fires []store.Deferral,
) (active []timer.FireID, err error) {
	ids := make([]timer.ID, len(fires))
	for i := range fires {
		ids[i] = fires[i].Fire.Timer
	}
	err = s.write(ctx, "deferring fires", func(ctx context.Context, c runner) error {
		active = nil
		slots, err := s.lockSlots(ctx, c, ids)
		if err != nil {
			return err
		}
		nowMS, err := s.nowMS(ctx, c)
		if err != nil {
			return err
		}
		var waiting []timer.Fire
		runs := make(map[timer.FireID]int64, len(fires))
		for i := range fires {
			d := &fires[i]
			if r := slots[d.Fire.Timer]; r != nil && r.activeAt(nowMS) {
				active = append(active, d.Fire.FireID)
				continue
			}
			waiting, runs[d.Fire.FireID] = append(waiting, d.Fire), d.RunAtMS
		}
		return s.deferOwned(ctx, c, session, waiting, runs, slots)
	})
	return active, err
}

// activeAt tells whether the timer is active by the store's clock: see timer.State.
func (r *slotRow) activeAt(nowMS int64) bool {
	return r.Status == rowActive ||
		r.Status == rowPaused && r.PausedUntilMS > 0 && r.PausedUntilMS <= nowMS
}

func (s *Store) deferOwned(
	ctx context.Context,
	c runner,
	session timer.ID,
	fires []timer.Fire,
	runs map[timer.FireID]int64,
	slots map[timer.ID]*slotRow,
) error {
	owned, _, err := s.ownedOf(ctx, c, session, fires)
	if err != nil || len(owned) == 0 {
		return err
	}
	slices.SortFunc(owned, func(a, b timer.Fire) int {
		return cmp.Or(cmp.Compare(a.Timer, b.Timer), timer.CompareFires(a, b))
	})
	for part := range batches(owned) {
		q := stmt("INSERT INTO deferred (timer_id,due_ms,series,run_at_ms,rev) VALUES ")
		for i := range part {
			q.row(
				i == 0,
				int64(part[i].Timer),
				part[i].DueMS,
				part[i].Series,
				part[i].RunAtMS,
				int64(part[i].Rev+1),
			)
		}
		if _, err := s.exec(
			ctx,
			c,
			q.add(s.dialect.set("timer_id,due_ms,series", "run_at_ms", "rev")),
		); err != nil {
			return err
		}
	}
	for i := range owned {
		f := &owned[i]
		if r := slots[f.Timer]; r != nil && r.running() == f.FireID && f.Attempt == 0 {
			r.give(timer.FireID{})
		}
		f.RunAtMS, f.Bucket, f.Owner, f.Sweeps = runs[f.FireID], 0, 0, 0
		f.Rev++
	}
	slices.SortFunc(owned, timer.CompareFires)
	if err := s.dequeue(ctx, c, idsOf(owned)); err != nil {
		return err
	}
	if err := s.saveSlots(ctx, c, slots); err != nil {
		return err
	}
	return s.saveFires(ctx, c, owned, releaseColumns...)
}

// deferredRow is a row of deferred.
type deferredRow struct {
	fireIDRow
	RunAtMS int64 `db:"run_at_ms"`
	Rev     int32 `db:"rev"`
}

// findDeferred reads which fires wait for the timers that are active again, or deleted: flush
// releases them.
func (x *expansion) findDeferred(ctx context.Context) error {
	x.deferred = map[timer.FireID]deferredRow{}
	for part := range batches(x.resumed) {
		var rows []deferredRow
		q := stmt(
			"SELECT timer_id,due_ms,series,run_at_ms,rev FROM deferred WHERE timer_id",
		).idList(part)
		if err := x.store.selectAll(ctx, x.c, &rows, q); err != nil {
			return err
		}
		for _, r := range rows {
			x.deferred[r.id()] = r
		}
	}
	return nil
}

// releaseDeferred gives the deferred fires that nobody has claimed their run back, in bucket 0,
// which every minute has. One that was claimed at the end of the pause is its owner's, or was given
// back since with another revision, or was ended.
func (x *expansion) releaseDeferred(
	ctx context.Context,
	there map[timer.FireID]timer.Fire,
) ([]timer.Fire, error) {
	if len(x.deferred) == 0 {
		return nil, nil
	}
	var released []timer.Fire
	for id, row := range x.deferred {
		f, open := there[id]
		if _, planned := x.settled[id]; planned || !open || f.Owner != 0 || f.Rev != row.Rev {
			continue
		}
		f.RunAtMS, f.Bucket, f.Sweeps = min(f.RunAtMS, row.RunAtMS), 0, 0
		f.Rev++
		released = append(released, f)
	}
	slices.SortFunc(released, timer.CompareFires)
	for i := range released {
		x.released[released[i].Timer] = append(x.released[released[i].Timer], released[i])
	}
	for part := range batches(x.resumed) {
		q := stmt(
			x.store.dialect.deleteFrom("deferred", "PRIMARY") + " WHERE timer_id",
		).idList(part)
		if _, err := x.store.exec(ctx, x.c, q); err != nil {
			return nil, err
		}
	}
	return released, nil
}
