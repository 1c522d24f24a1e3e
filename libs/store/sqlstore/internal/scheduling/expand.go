package scheduling

import (
	"context"
	"database/sql"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Expand locks timers and skips those that others have locked, so two calls at once share the work.
// The locks of a call that dies end with its connection. A call is committed whole or not at all,
// so a repeated one finds next_due and the fires consistent. It also activates paused timers whose
// pause ends.
func (s *Scheduling) Expand(
	ctx context.Context,
	limit int,
	plan store.Planner,
) (fires []timer.Fire, n int, err error) {
	work := func(ctx context.Context, c sqldb.Runner) error {
		fires, n = nil, 0
		x := s.newExpansion(c, plan, 0)
		paused, err := x.takeTurns(ctx, timers.RowPaused, (limit+1)/2)
		if err != nil {
			return err
		}
		active, err := x.takeTurns(ctx, timers.RowActive, limit-len(paused))
		if err != nil || len(paused)+len(active) == 0 {
			return err
		}
		made, err := x.expandAll(ctx, paused, active)
		if err != nil {
			return err
		}
		fires, n = made, len(paused)+len(active)
		return nil
	}
	err = s.withoutUnreadable(ctx, ofTimers, planRetryDelay, func() error {
		return s.db.Write(ctx, "expanding timers", work)
	})
	// With an error, fires is what the last commit would have created: nobody knows whether it did.
	return fires, n, err
}

// expandAll expands timers. It writes all columns of those that change in more than their
// expansion, and logs them.
func (x *expansion) expandAll(
	ctx context.Context,
	paused, active []timer.Timer,
) ([]timer.Fire, error) {
	var planned []timer.Fire
	all := slices.Concat(paused, active)
	changed := make([]bool, len(all))
	if err := x.findAllAhead(ctx, all); err != nil {
		return nil, err
	}
	if err := x.findReplansOf(ctx, all); err != nil {
		return nil, err
	}
	for i := range all {
		t := &all[i]
		was := *t
		next := x.proceed
		if i < len(paused) {
			next = x.activate
		}
		fires, err := next(ctx, t)
		if err != nil {
			return nil, err
		}
		planned = append(planned, fires...)
		nextPageMS := x.nowMS
		if t.NextDueMS == was.NextDueMS {
			nextPageMS += replanRetryDelay.Milliseconds() // the plan has failed
		}
		x.followUp(t, nextPageMS)
		changed[i] = t.Status != was.Status || t.Version != was.Version || t.Replan != was.Replan
	}
	if err := x.flush(ctx); err != nil {
		return nil, err
	}
	var plain, more []timer.Timer
	var logged []timer.ID
	for i := range all {
		all[i].FiresCreated -= x.alreadyCounted[all[i].ID]
		if changed[i] {
			more = append(more, all[i])
			logged = append(logged, all[i].ID)
		} else {
			plain = append(plain, all[i])
		}
	}
	if err := x.saveReplans(ctx); err != nil {
		return nil, err
	}
	if err := x.save(ctx, plain, expandColumns); err != nil {
		return nil, err
	}
	if err := x.save(ctx, more, changeColumns); err != nil {
		return nil, err
	}
	return x.marked(planned), x.store.timers.AddChanges(ctx, x.c, logged)
}

// Orders of takeTimers.
const (
	oldestFirst = " ORDER BY expand_at_ms LIMIT "
	newestFirst = " ORDER BY expand_at_ms DESC LIMIT "
)

// takeTurns takes timers of a status. If more than half of limit are due, it takes the newest, too: a
// change of a calendar, or pauses that end together, make many timers of an app due at once, and
// those of other apps that become due later do not wait until they are done.
func (x *expansion) takeTurns(
	ctx context.Context,
	status int64,
	limit int,
) ([]timer.Timer, error) {
	half := (limit + 1) / 2
	ts, err := x.takeTimers(ctx, status, oldestFirst, half)
	if err != nil || len(ts) < half {
		return ts, err
	}
	newest, err := x.takeTimers(ctx, status, newestFirst, limit-half)
	if err != nil {
		return nil, err
	}
	taken := make(map[timer.ID]bool, half)
	for i := range ts {
		taken[ts[i].ID] = true
	}
	for i := range newest {
		if !taken[newest[i].ID] { // a transaction does not skip the rows that it has locked itself
			ts = append(ts, newest[i])
		}
	}
	return ts, nil
}

// takeTimers locks timers of a status that are due for expansion, and reads the clock.
func (x *expansion) takeTimers(
	ctx context.Context,
	status int64,
	order string,
	limit int,
) ([]timer.Timer, error) {
	s := x.store
	if limit == 0 {
		return nil, nil
	}
	var rows []struct {
		timers.Row
		NowMS int64 `db:"now_ms"`
	}
	q := s.fromDueTimers(
		sqldb.Stmt("SELECT "+timers.Columns+",").NowMS(s.db.Dialect).Add(" AS now_ms"),
		status,
	).
		Add(order).
		Int(int64(limit)).
		Add(s.db.SkipLocked())
	if err := s.db.SelectAll(ctx, x.c, &rows, q); err != nil || len(rows) == 0 {
		return nil, err
	}
	plain := make([]timers.Row, len(rows))
	ids := make([]timer.ID, len(rows))
	for i := range rows {
		plain[i], ids[i] = rows[i].Row, timer.ID(rows[i].ID)
		if rows[i].Replan == timers.ReplanCalendar {
			x.calendar[timer.ID(rows[i].ID)] = true
		}
	}
	x.nowMS = rows[0].NowMS
	if err := s.db.GuardTimers(ctx, x.c, ids); err != nil {
		return nil, err
	}
	return s.timers.Complete(ctx, x.c, plain, nil)
}

// ExpandBacklog counts the timers that Expand would take, and returns since when the first of them
// is due.
func (s *Scheduling) ExpandBacklog(
	ctx context.Context,
	limit int,
) (n int, oldestMS int64, err error) {
	err = s.db.Read(
		ctx,
		"counting timers to expand",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var row struct {
				N      int           `db:"n"`
				Oldest sql.NullInt64 `db:"oldest"`
			}
			q := sqldb.Stmt(
				"SELECT COUNT(*) AS n,MIN(expand_at_ms) AS oldest FROM (" +
					"SELECT expand_at_ms FROM (SELECT expand_at_ms",
			)
			s.fromDueTimers(q, timers.RowActive).
				Add(oldestFirst).
				Int(int64(limit)).
				Add(") active UNION ALL SELECT expand_at_ms FROM (SELECT expand_at_ms")
			s.fromDueTimers(q, timers.RowPaused).
				Add(oldestFirst).
				Int(int64(limit)).
				Add(") paused) waiting")
			err := s.db.SelectOne(ctx, c, &row, q)
			n, oldestMS = min(row.N, limit), row.Oldest.Int64
			return err
		},
	)
	return n, oldestMS, err
}
