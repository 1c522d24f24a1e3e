package fires

import (
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// slotRow has the columns of timers about the concurrency slot. A transaction that changes them, or
// the timer's queue, has the row locked.
type slotRow struct {
	ID            int64 `db:"id"`
	Status        int64 `db:"status"`
	PausedUntilMS int64 `db:"paused_until_ms"`
	Version       int32 `db:"version"`
	ActiveEpoch   int64 `db:"active_epoch"`
	ActiveSinceMS int64 `db:"active_since_ms"`
	FiresCreated  int64 `db:"fires_created"`
	ExpandAtMS    int64 `db:"expand_at_ms"`
	RunningDueMS  int64 `db:"slot_due_ms"` // negative: that fire had the slot last, and it is free
	RunningSeries int64 `db:"slot_series"`
	CaughtByMS    int64 `db:"catch_up_due_ms"`
	CaughtToMS    int64 `db:"catch_up_to_ms"`
	PlanVersion   int32 `db:"plan_version"`
	LastDueMS     int64 `db:"last_due_ms"`
	EndedMS       int64 `db:"last_call_ended_ms"`

	changed bool
}

// running returns the fire that has the slot, zero if it is free.
func (r *slotRow) running() timer.FireID {
	if r.RunningDueMS <= 0 {
		return timer.FireID{}
	}
	return r.last()
}

// last returns the fire that has the slot, or had it last. It is zero if none is known.
func (r *slotRow) last() timer.FireID {
	if r.RunningDueMS == 0 {
		return timer.FireID{}
	}
	return timer.FireID{
		Timer:  timer.ID(r.ID),
		DueMS:  max(r.RunningDueMS, -r.RunningDueMS),
		Series: r.RunningSeries,
	}
}

// free takes the slot from the fire that has it, and keeps that this fire had it last.
func (r *slotRow) free() {
	if r.RunningDueMS > 0 {
		r.RunningDueMS, r.changed = -r.RunningDueMS, true
	}
}

func (r *slotRow) give(to timer.FireID) {
	r.RunningDueMS, r.RunningSeries, r.changed = to.DueMS, to.Series, true
}

// lockSlots locks timers' rows in order of id.
func (s *Rows) lockSlots(
	ctx context.Context,
	c sqldb.Runner,
	ids []timer.ID,
) (map[timer.ID]*slotRow, error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	slots := make(map[timer.ID]*slotRow, len(ids))
	for part := range sqldb.Batches(slices.Compact(ids)) {
		var rows []slotRow
		q := sqldb.Stmt(
			"SELECT id,status,paused_until_ms,version,active_epoch,active_since_ms,fires_created,expand_at_ms,slot_due_ms,slot_series,catch_up_due_ms,catch_up_to_ms," +
				"plan_version,last_due_ms,last_call_ended_ms FROM timers" + s.db.Dialect.ByPrimary + " WHERE id",
		).
			IDList(part).
			Add(" ORDER BY id" + s.db.Dialect.ForUpdate)
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
			return nil, err
		}
		if err := s.db.GuardTimers(ctx, c, part); err != nil {
			return nil, err
		}
		for i := range rows {
			slots[timer.ID(rows[i].ID)] = &rows[i]
		}
	}
	return slots, nil
}

// saveSlots writes the changed rows.
func (s *Rows) saveSlots(ctx context.Context, c sqldb.Runner, slots map[timer.ID]*slotRow) error {
	var ids []timer.ID
	for id, r := range slots {
		if r.changed {
			ids = append(ids, id)
		}
	}
	columns := []string{
		"slot_due_ms",
		"slot_series",
		"catch_up_due_ms",
		"catch_up_to_ms",
		"fires_created",
		"last_due_ms",
		"last_call_ended_ms",
		"expand_at_ms",
	}
	return s.timers.SetEach(ctx, c, ids, columns, func(id timer.ID, column int) int64 {
		r := slots[id]
		return []int64{r.RunningDueMS, r.RunningSeries, r.CaughtByMS, r.CaughtToMS, r.FiresCreated, r.LastDueMS, r.EndedMS, r.ExpandAtMS}[column]
	})
}

// stillOpen returns those of the fires that are open, without locks. A fire with a slot is recorded
// under the lock on its timer's row, which the caller has, or by a transaction that does not know
// of slots. The slot is then free for the next request.
func (s *Fires) stillOpen(
	ctx context.Context,
	c sqlx.QueryerContext,
	ids []timer.FireID,
) (map[timer.FireID]timer.Fire, error) {
	open := map[timer.FireID]timer.Fire{}
	for part := range sqldb.Batches(sqldb.SortedIDs(ids)) {
		rows, err := s.fires.Open(ctx, c, part, "")
		if err != nil {
			return nil, err
		}
		for _, f := range rows {
			open[f.FireID] = f
		}
	}
	return open, nil
}

// CatchUp locks the timers' rows in order of id. Of two misfired fires of one timer, the one that
// asks first stands for the other. A repeated request gets the same answer, which is in the row,
// until a later fire becomes the stand-in. That one then stands for all before it. A fire of a
// series other than 0 was requested and always runs.
func (s *Fires) CatchUp(
	ctx context.Context,
	requests []store.CatchUpRequest,
) (run []bool, err error) {
	ids := make([]timer.ID, len(requests))
	for i := range requests {
		ids[i] = requests[i].Timer
	}
	err = s.db.Write(ctx, "catching up", func(ctx context.Context, c sqldb.Runner) error {
		run = make([]bool, len(requests))
		slots, err := s.fires.lockSlots(ctx, c, ids)
		if err != nil {
			return err
		}
		nowMS, err := s.db.NowMS(ctx, c)
		if err != nil {
			return err
		}
		for i := range requests {
			a, r := &requests[i], slots[requests[i].Timer]
			switch {
			case a.Series != 0 || r == nil || r.CaughtToMS != 0 && r.CaughtByMS == a.DueMS:
				run[i] = true
			case !a.CoveredBy(r.CaughtToMS):
				r.CaughtByMS, r.CaughtToMS, r.changed = a.DueMS, a.CoversTo(nowMS), true
				run[i] = true
			}
		}
		return s.fires.saveSlots(ctx, c, slots)
	})
	if err != nil {
		return nil, err
	}
	return run, nil
}
