package sqlstore

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// byScan tells whether a replan has to know a timer's open fires for certain. Calendars and time
// zones changed since they were planned, so the schedule as it is now does not lead to them. Only
// what counts its fires, and a one-shot, depend on how many there are: a scan costs more than a
// plan.
func byScan(t *timer.Timer) bool {
	return t.Definition.Schedule.Kind.OneShot() ||
		t.Definition.Schedule.MaxFires > 0 && t.Definition.Schedule.Kind != timer.KindFixedDelay
}

// aheadOfReplan returns the open fires of a timer that are due later than now, where calendars or
// time zones changed.
func (x *expansion) aheadOfReplan(ctx context.Context, t *timer.Timer) ([]timer.Fire, error) {
	if !byScan(t) {
		return x.ahead(ctx, t)
	}
	if _, ok := x.openAhead[t.ID]; !ok {
		if err := x.findAhead(ctx, []timer.ID{t.ID}); err != nil {
			return nil, err
		}
	}
	return x.openAhead[t.ID], nil
}

// aheadOfEdit is ahead, but for certain where a plan may not lead to what is open: the timer is to
// be planned anew, or depends on a zone for which processes have different rules, and another one
// may have planned it.
func (x *expansion) aheadOfEdit(ctx context.Context, t *timer.Timer) ([]timer.Fire, error) {
	if x.mixedZones == nil {
		changed, rules, err := x.store.changedZones(ctx, x.c)
		if err != nil {
			return nil, err
		}
		if x.mixedZones = changed; rules < 2 {
			x.mixedZones = map[string]bool{}
		}
	}
	switch {
	case t.Definition.Schedule.Kind != timer.KindFixedDelay && dependsOn(t, x.mixedZones):
	case t.Replan:
		return x.aheadOfReplan(ctx, t)
	default:
		return x.ahead(ctx, t)
	}
	if err := x.findAhead(ctx, []timer.ID{t.ID}); err != nil {
		return nil, err
	}
	return x.openAhead[t.ID], nil
}

// findAllAhead looks for the open fires of all timers that need that, by one scan for a batch.
func (x *expansion) findAllAhead(ctx context.Context, ts []timer.Timer) error {
	var ids []timer.ID
	for i := range ts {
		if t := &ts[i]; t.Replan && x.calendar[t.ID] && t.NextDueMS > x.nowMS+1 && byScan(t) {
			ids = append(ids, t.ID)
		}
	}
	return x.findAhead(ctx, ids)
}

// findAhead reads the open fires to come of timers, but for those that an edit left behind. It goes
// through the fires of the coming hour by their primary key. No lock is needed, for the reason that
// ahead tells.
func (x *expansion) findAhead(ctx context.Context, ids []timer.ID) error {
	slices.Sort(ids)
	for part := range slices.Chunk(ids, store.MaxBatch) {
		var rows []struct {
			ID   int64 `db:"id"`
			Plan int32 `db:"plan_version"`
		}
		err := x.store.selectAll(
			ctx,
			x.c,
			&rows,
			stmt(
				"SELECT id,plan_version FROM timers"+x.store.dialect.byPrimary+" WHERE id",
			).idList(part),
		)
		if err != nil {
			return err
		}
		since := map[timer.ID]int32{}
		for _, r := range rows {
			since[timer.ID(r.ID)] = r.Plan
			x.openAhead[timer.ID(r.ID)] = nil
		}
		open, err := x.store.selectFires(
			ctx,
			x.c,
			stmt(
				"SELECT "+fireColumns+" FROM fires"+x.store.dialect.byPrimary+" WHERE due_ms>",
			).int(x.nowMS).
				add(" AND series=0 AND timer_id").
				idList(part),
		)
		if err != nil {
			return err
		}
		for _, f := range open {
			if f.Version >= since[f.Timer] {
				x.openAhead[f.Timer] = append(x.openAhead[f.Timer], f)
			}
		}
	}
	return nil
}
