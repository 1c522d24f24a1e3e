package sqlstore

import (
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Expand takes timers by row locks that pass by locked rows: two calls at once share the work, and a call that dies gives its
// timers back with its connection. What it did is committed whole or not at all, so a repeated call finds next_due and
// the fires in step.
func (s *Store) Expand(ctx context.Context, limit int, plan store.Planner) (fires []timer.Fire, n int, err error) {
	err = s.write(ctx, "expanding timers", func(ctx context.Context, c runner) error {
		fires, n = nil, 0
		ts, nowMS, err := s.takeTimers(ctx, c, limit)
		if err != nil || len(ts) == 0 {
			return err
		}
		var made []timer.Fire
		for i := range ts {
			made = append(made, s.expand(&ts[i], plan, nowMS)...)
		}
		if err := s.saveTimers(ctx, c, ts, "next_due_ms", "expand_at_ms", "fires_made"); err != nil {
			return err
		}
		if err := s.insertFires(ctx, c, made); err != nil {
			return err
		}
		fires, n = made, len(ts)
		return nil
	})
	return fires, n, err // with an error: what the last commit would have made, of which nobody knows whether it did
}

func (s *Store) takeTimers(ctx context.Context, c runner, limit int) ([]timer.Timer, int64, error) {
	var rows []struct {
		timerRow
		NowMS int64 `db:"now_ms"`
	}
	q := stmt("SELECT " + timerColumns + ",").nowMS(s.dialect).add(" AS now_ms FROM timers" + s.dialect.byExpand + " WHERE status=").int(rowActive).
		add(" AND expand_at_ms<=").nowMS(s.dialect).add(" ORDER BY expand_at_ms LIMIT ").int(int64(limit)).
		add(s.dialect.skipLocked)
	if err := s.selectAll(ctx, c, &rows, q); err != nil || len(rows) == 0 {
		return nil, 0, err
	}
	plain := make([]timerRow, len(rows))
	for i := range rows {
		plain[i] = rows[i].timerRow
	}
	ts, err := s.timers(ctx, c, plain, nil)
	return ts, rows[0].NowMS, err
}

// ExpandBacklog counts the timers that Expand would take, and returns the instant since when the first of them waits.
func (s *Store) ExpandBacklog(ctx context.Context, limit int) (n int, oldestMS int64, err error) {
	err = s.read(ctx, "counting timers to expand", func(ctx context.Context, c sqlx.QueryerContext) error {
		var row struct {
			N      int           `db:"n"`
			Oldest sql.NullInt64 `db:"oldest"`
		}
		q := stmt("SELECT COUNT(*) AS n,MIN(expand_at_ms) AS oldest FROM (SELECT expand_at_ms FROM timers" + s.dialect.byExpand + " WHERE status=").
			int(rowActive).add(" AND expand_at_ms<=").nowMS(s.dialect).add(" ORDER BY expand_at_ms LIMIT ").int(int64(limit)).
			add(") waiting")
		err := s.selectOne(ctx, c, &row, q)
		n, oldestMS = row.N, row.Oldest.Int64
		return err
	})
	return n, oldestMS, err
}
