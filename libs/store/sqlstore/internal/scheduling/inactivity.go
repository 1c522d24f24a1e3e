package scheduling

import (
	"cmp"
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
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
func (s *Scheduling) Inactivities(
	ctx context.Context,
	ids []timer.ID,
) (all map[timer.ID][]timer.Inactivity, err error) {
	err = s.db.Read(
		ctx,
		"reading inactivities",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			all = make(map[timer.ID][]timer.Inactivity, len(ids))
			for part := range sqldb.Batches(ids) {
				var rows []inactivityRow
				q := sqldb.Stmt(
					"SELECT timer_id,from_ms,until_ms,status FROM inactivities WHERE timer_id",
				).IDList(part)
				if err := s.db.SelectAll(
					ctx,
					c,
					&rows,
					q.Add(" ORDER BY timer_id,from_ms"),
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
							Status:  timers.StatusFromRow(r.Status),
						},
					)
				}
			}
			return nil
		},
	)
	return all, err
}

// beginInactivity begins a stretch with the timer's new status, and ends the one before.
func (x *expansion) beginInactivity(t *timer.Timer) {
	x.endStretch(t, x.nowMS)
	if t.InactiveSinceMS = x.nowMS; t.Status == timer.StatusDeleted {
		return // its remaining fires are skipped as deleted
	}
	until := timer.NeverMS
	if t.Status == timer.StatusPaused && t.PausedUntilMS > 0 {
		until = t.PausedUntilMS
	}
	x.stretches = append(
		x.stretches,
		inactivityRow{int64(t.ID), x.nowMS, until, timers.StatusToRow(t.Status)},
	)
}

// endStretch ends the present stretch of a timer, if there is one. The stretch keeps its status:
// the timer may have the next one already.
func (x *expansion) endStretch(t *timer.Timer, atMS int64) {
	if t.InactiveSinceMS > 0 {
		x.stretches = append(
			x.stretches,
			inactivityRow{int64(t.ID), t.InactiveSinceMS, max(atMS, t.InactiveSinceMS), keepStatus},
		)
	}
}

// keepStatus makes saveStretches keep the status of an existing row.
const keepStatus = -1

// saveStretches writes the stretches that began or ended. The timers' rows are locked, so the later
// of two calls sees what the earlier one wrote. A stretch of less than a millisecond covers
// nothing, and the next one may overwrite it.
func (x *expansion) saveStretches(ctx context.Context) error {
	slices.SortStableFunc(x.stretches, func(a, b inactivityRow) int {
		return cmp.Or(cmp.Compare(a.Timer, b.Timer), cmp.Compare(a.FromMS, b.FromMS))
	})
	d := x.store.db.Dialect
	for part := range sqldb.Batches(x.stretches) {
		q := sqldb.Stmt("INSERT INTO inactivities (timer_id,from_ms,until_ms,status) VALUES ")
		for i, r := range part {
			q.Row(i == 0, r.Timer, r.FromMS, r.UntilMS, r.Status)
		}
		q.Add(d.Set("timer_id,from_ms", "until_ms")).
			Add(",status=CASE WHEN " + d.Value("status") + "=").
			Int(keepStatus).
			Add(" THEN inactivities.status ELSE " + d.Value("status") + " END")
		if _, err := x.store.db.Exec(ctx, x.c, q); err != nil {
			return err
		}
	}
	return nil
}

// deferredRow is a row of deferred_fires.
type deferredRow struct {
	sqldb.FireIDRow
	RunAtMS int64 `db:"run_at_ms"`
	Rev     int32 `db:"revision"`
}

// findDeferred reads the deferred fires of timers that are active again or deleted, for flush to
// release.
func (x *expansion) findDeferred(ctx context.Context) error {
	x.deferred = map[timer.FireID]deferredRow{}
	for part := range sqldb.Batches(x.reactivated) {
		var rows []deferredRow
		q := sqldb.Stmt(
			"SELECT timer_id,due_ms,series,run_at_ms,revision FROM deferred_fires WHERE timer_id",
		).IDList(part)
		if err := x.store.db.SelectAll(ctx, x.c, &rows, q); err != nil {
			return err
		}
		for _, r := range rows {
			x.deferred[r.FireID()] = r
		}
	}
	return nil
}

// releaseDeferred restores the run_at of unclaimed deferred fires, in bucket 0, which every minute
// has. A fire that was claimed at the end of the pause belongs to its owner, was released since
// with another revision, or is finished.
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
		if _, planned := x.resolved[id]; planned || !open || f.Owner != 0 || f.Rev != row.Rev {
			continue
		}
		f.RunAtMS, f.Bucket = min(f.RunAtMS, row.RunAtMS), 0
		f.Rev++
		released = append(released, f)
	}
	slices.SortFunc(released, timer.CompareFires)
	for i := range released {
		x.released[released[i].Timer] = append(x.released[released[i].Timer], released[i])
	}
	for part := range sqldb.Batches(x.reactivated) {
		q := sqldb.Stmt(
			x.store.db.Dialect.DeleteFrom("deferred_fires", "PRIMARY") + " WHERE timer_id",
		).IDList(part)
		if _, err := x.store.db.Exec(ctx, x.c, q); err != nil {
			return nil, err
		}
	}
	return released, nil
}
