package scheduling

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/calendars"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/fires"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// byScan reports whether a replan must find a timer's open fires by a scan. Calendars or time zones
// have changed since the fires were planned, so the present schedule does not lead to them. A scan
// costs more than a plan. Only timers that count their fires, and one-shots, depend on the number
// of open fires.
func byScan(t *timer.Timer) bool {
	return t.Definition.Schedule.Kind.OneShot() ||
		t.Definition.Schedule.MaxFires > 0 && t.Definition.Schedule.Kind != timer.KindFixedDelay
}

// aheadOfReplan returns the open fires of a timer that are due later than now, after a change of
// calendars or time zones.
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

// aheadOfEdit is like ahead, but scans if a plan may not lead to all open fires. This is so if the
// timer is to be replanned or cannot be read, or if processes have different rules for its zone and
// another process may have planned it.
func (x *expansion) aheadOfEdit(ctx context.Context, t *timer.Timer) ([]timer.Fire, error) {
	if err := x.findMixedZones(ctx); err != nil {
		return nil, err
	}
	switch {
	case t.Definition.Unreadable != "":
	case t.Definition.Schedule.Kind != timer.KindFixedDelay && calendars.DependsOn(t, x.mixedZones):
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

// findMixedZones reads for which zones processes have different rules, once.
func (x *expansion) findMixedZones(ctx context.Context) error {
	if x.mixedZones != nil {
		return nil
	}
	changed, rules, err := x.store.zones.ChangedZones(ctx, x.c)
	if x.mixedZones = changed; err == nil && rules < 2 {
		x.mixedZones = map[string]bool{}
	}
	return err
}

// findAllAhead finds the open fires of all timers that need a scan, with one scan for a batch.
func (x *expansion) findAllAhead(ctx context.Context, ts []timer.Timer) error {
	var ids []timer.ID
	for i := range ts {
		if t := &ts[i]; t.Replan && x.calendar[t.ID] && t.NextDueMS > x.nowMS+1 && byScan(t) {
			ids = append(ids, t.ID)
		}
	}
	return x.findAhead(ctx, ids)
}

// findAhead reads the future open fires of timers, without those that an edit left behind. It scans
// the fires of the coming hour by primary key, at most to the last one that these timers have. It
// needs no lock, for the reason given at ahead.
func (x *expansion) findAhead(ctx context.Context, ids []timer.ID) error {
	slices.Sort(ids)
	for part := range slices.Chunk(ids, store.MaxBatch) {
		var rows []struct {
			ID        int64 `db:"id"`
			Plan      int32 `db:"plan_version"`
			LastDueMS int64 `db:"last_due_ms"`
		}
		err := x.store.db.SelectAll(
			ctx,
			x.c,
			&rows,
			sqldb.Stmt(
				"SELECT id,plan_version,last_due_ms FROM timers"+x.store.db.Dialect.ByPrimary+" WHERE id",
			).IDList(part),
		)
		if err != nil {
			return err
		}
		since, lastMS := map[timer.ID]int32{}, int64(0)
		for _, r := range rows {
			since[timer.ID(r.ID)], lastMS = r.Plan, max(lastMS, r.LastDueMS)
			x.openAhead[timer.ID(r.ID)] = nil
		}
		if lastMS <= x.nowMS {
			continue
		}
		open, err := x.store.fires.Select(
			ctx,
			x.c,
			sqldb.Stmt(
				"SELECT "+fires.Columns+" FROM fires"+x.store.db.Dialect.ByPrimary+" WHERE due_ms>",
			).Int(x.nowMS).
				Add(" AND due_ms<=").Int(lastMS).
				Add(" AND series=0 AND timer_id").
				IDList(part),
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
