package scheduling

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// flush writes the collected changes. It locks existing rows in the order of their keys. Open fires
// of an older version or epoch are moved, fires with an outcome are left out, and the others are
// inserted. It reads open fires first and outcomes second, so it finds a fire that is recorded in
// between.
func (x *expansion) flush(ctx context.Context) error {
	s := x.store
	if err := s.timers.CopyVersions(ctx, x.c, x.copiedVersions, x.nowMS); err != nil {
		return err
	}
	if err := x.findDeferred(ctx); err != nil {
		return err
	}
	there, err := x.lockExisting(ctx)
	if err != nil {
		return err
	}
	done, err := x.finished(ctx, there)
	if err != nil {
		return err
	}
	created := slices.Clone(x.newFires)
	var changed []timer.Fire
	for i := range x.mergeFires {
		f := &x.mergeFires[i]
		row, open := there[f.FireID]
		switch {
		case open:
			if next, is := x.move(row, f); is {
				changed = append(changed, next)
			}
			if row.Epoch < f.Epoch && x.chainBefore[f.Timer] == f.DueMS {
				x.alreadyCounted[f.Timer]++
			}
		case done[f.FireID]:
			x.resolved[f.FireID] = nil
			x.alreadyCounted[f.Timer]++
		default:
			created = append(created, *f)
		}
	}
	for i := range x.moved {
		f := &x.moved[i]
		if row, open := there[f.FireID]; open && row.Version < f.Version {
			row.Version, row.PriorityLevel = f.Version, f.PriorityLevel
			changed = append(changed, row)
		}
	}
	released, err := x.releaseDeferred(ctx, there)
	if err != nil {
		return err
	}
	changed = append(changed, released...)
	err = s.fires.Save(
		ctx,
		x.c,
		changed,
		"run_at_ms",
		"run_at_minute",
		"bucket",
		"version",
		"epoch",
		"revision",
		"priority",
	)
	if err != nil {
		return err
	}
	if err := x.endReplaced(ctx); err != nil {
		return err
	}
	if err := s.fires.Insert(ctx, x.c, created); err != nil {
		return err
	}
	if err := s.history.InsertOutcomes(ctx, x.c, x.skips, nil); err != nil {
		return err
	}
	return x.saveStretches(ctx)
}

// endReplaced finishes the fires of one-shots that the new plan does not have.
func (x *expansion) endReplaced(ctx context.Context) error {
	planned := make(map[timer.FireID]bool, len(x.mergeFires))
	for i := range x.mergeFires {
		planned[x.mergeFires[i].FireID] = true
	}
	var ended []timer.Outcome
	for _, f := range x.replaced {
		if !planned[f.FireID] {
			ended = append(ended, store.Superseded(f, x.nowMS))
		}
	}
	x.skips = append(x.skips, ended...)
	return x.store.fires.DeleteLocked(ctx, x.c, ended)
}

// move returns an open row as the plan wants it, and whether this changes the row. A fire keeps its
// run_at if it has an owner, waits for a slot or waits for another attempt.
func (x *expansion) move(row timer.Fire, planned *timer.Fire) (timer.Fire, bool) {
	x.resolved[row.FireID] = nil
	if row.Version >= planned.Version && row.Epoch >= planned.Epoch {
		return row, false
	}
	row.Version, row.Epoch, row.PriorityLevel = planned.Version, planned.Epoch, planned.PriorityLevel
	if row.Owner == 0 && row.State == timer.FireReady && row.RunAtMS != planned.RunAtMS {
		row.RunAtMS, row.Bucket = planned.RunAtMS, planned.Bucket
		row.Rev++
		x.resolved[row.FireID] = &row
	}
	return row, true
}

func (x *expansion) lockExisting(ctx context.Context) (map[timer.FireID]timer.Fire, error) {
	ids := append(sqldb.IDsOf(x.mergeFires), sqldb.IDsOf(x.moved)...)
	for id := range x.deferred {
		ids = append(ids, id)
	}
	there := map[timer.FireID]timer.Fire{}
	for part := range sqldb.Batches(sqldb.SortedIDs(ids)) {
		rows, err := x.store.fires.Open(ctx, x.c, part, x.store.db.Dialect.ForUpdate)
		if err != nil {
			return nil, err
		}
		for _, f := range rows {
			there[f.FireID] = f
		}
	}
	return there, nil
}

// finished returns which of mergeFires have an outcome. A one-shot or fixed delay may have a fire
// that was ended as superseded before it was due, and that this plan has again. It withdraws such an
// outcome: without that the fire would have two, or would not be called.
func (x *expansion) finished(
	ctx context.Context,
	there map[timer.FireID]timer.Fire,
) (map[timer.FireID]bool, error) {
	var ids, single []timer.FireID
	for i := range x.mergeFires {
		f := &x.mergeFires[i]
		if _, open := there[f.FireID]; open {
			continue
		}
		if x.single[f.Timer] {
			single = append(single, f.FireID)
		}
		if f.DueMS <= x.nowMS+history.MaxClockSkew.Milliseconds() {
			ids = append(ids, f.FireID)
		}
	}
	if err := x.store.history.Withdraw(ctx, x.c, single); err != nil {
		return nil, err
	}
	return x.store.history.Finished(ctx, x.c, ids)
}

// marked returns, as they are now, those of the planned fires that need an entry in the window, and
// the released deferred fires.
func (x *expansion) marked(planned []timer.Fire) (out []timer.Fire) {
	for _, fires := range x.released {
		out = append(out, fires...)
	}
	x.released = map[timer.ID][]timer.Fire{}
	for i := range planned {
		f, settled := x.resolved[planned[i].FireID]
		switch {
		case !settled:
			out = append(out, planned[i])
		case f != nil:
			out = append(out, *f)
		}
	}
	return out
}

// expandColumns are the columns of timers that an expansion changes. changeColumns are those that
// also change with the status or the definition.
var (
	expandColumns = []string{"next_due_ms", "last_due_ms", "expand_at_ms", "fires_created"}
	changeColumns = []string{
		"status",
		"version",
		"active_since_ms",
		"active_epoch",
		"next_due_ms",
		"last_due_ms",
		"expand_at_ms",
		"fires_created",
		"anchor_ms",
		"version_since_ms",
		"replan",
		"inactive_since_ms",
		"paused_until_ms",
		"updated_ms",
		"pause_reason",
	}
)

// save writes timers' rows. It is called after flush.
func (x *expansion) save(ctx context.Context, ts []timer.Timer, columns []string) error {
	versions := map[timer.ID]int64{}
	var begun []timer.ID
	for i := range ts {
		if versions[ts[i].ID] = int64(ts[i].Version); x.begun[ts[i].ID] {
			begun = append(begun, ts[i].ID)
		}
	}
	err := x.store.timers.Save(ctx, x.c, ts, func(t *timer.Timer) int64 {
		switch {
		case !t.Replan:
			return timers.ReplanNothing
		case x.calendar[t.ID]:
			return timers.ReplanCalendar
		}
		return timers.ReplanEdited
	}, columns...)
	if err != nil {
		return err
	}
	return x.store.timers.SetEach(
		ctx,
		x.c,
		begun,
		[]string{"plan_version"},
		func(id timer.ID, _ int) int64 { return versions[id] },
	)
}
