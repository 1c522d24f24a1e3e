package timers

import (
	"context"
	"database/sql"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// AddChanges adds to the change log, as the last step before the commit. Others see the entries
// after the commit, so readers overlap by the time between the two.
func (s *Rows) AddChanges(ctx context.Context, c sqldb.Runner, ids []timer.ID) error {
	if len(ids) == 0 {
		return nil
	}
	nowMS, err := s.db.NowMS(ctx, c)
	if err != nil {
		return err
	}
	const into = "INSERT INTO timer_changes (timer_id,changed_ms) VALUES "
	for q, part := range sqldb.InsertBlocks(s.db.Dialect, ids, into) {
		for n, id := range part {
			q.Row(n == 0, int64(id), nowMS)
		}
		if _, err := s.db.Exec(ctx, c, q); err != nil {
			return err
		}
	}
	return nil
}

// LogChanges adds to the change log and returns the sequences of the entries.
//
// It reads the sequences back. The timers are locked, so after the latest earlier sequence only
// this call has entries about them. This does not depend on how the database assigns sequences.
func (s *Rows) LogChanges(
	ctx context.Context,
	c sqldb.Runner,
	changed []timer.ID,
) ([]int64, error) {
	var before int64
	if err := s.db.SelectOne(
		ctx,
		c,
		&before,
		sqldb.Stmt("SELECT COALESCE(MAX(seq),0) FROM timer_changes"),
	); err != nil {
		return nil, err
	}
	if err := s.AddChanges(ctx, c, changed); err != nil {
		return nil, err
	}
	ids := slices.Clone(changed)
	slices.Sort(ids)
	seqs := map[timer.ID][]int64{}
	for part := range sqldb.Batches(slices.Compact(ids)) {
		var rows []struct {
			Seq   int64 `db:"seq"`
			Timer int64 `db:"timer_id"`
		}
		q := sqldb.Stmt(
			"SELECT seq,timer_id FROM timer_changes WHERE seq>",
		).Int(before).
			Add(" AND timer_id").
			IDList(part)
		if err := s.db.SelectAll(ctx, c, &rows, q.Add(" ORDER BY seq")); err != nil {
			return nil, err
		}
		for _, r := range rows {
			seqs[timer.ID(r.Timer)] = append(seqs[timer.ID(r.Timer)], r.Seq)
		}
	}
	out := make([]int64, len(changed))
	for i, id := range changed {
		if len(seqs[id]) > 0 {
			out[i], seqs[id] = seqs[id][0], seqs[id][1:]
		}
	}
	return out, nil
}

// Changes returns the entries of the change log after a sequence. A transaction that takes its
// sequence early and commits late appears behind the position of its readers, who therefore overlap
// their reads.
func (s *Timers) Changes(
	ctx context.Context,
	after int64,
	limit int,
) (changes []store.Change, err error) {
	var rows []struct {
		Seq       int64         `db:"seq"`
		AtMS      int64         `db:"changed_ms"`
		Timer     int64         `db:"timer_id"`
		AppID     int64         `db:"app_id"`
		AppFrozen sql.NullInt64 `db:"app_frozen"`
		stateRow
	}
	byKey := s.db.Dialect.ByPrimary
	err = s.db.Read(
		ctx,
		"reading the change log",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			return s.db.SelectAll(
				ctx,
				c,
				&rows,
				// By keys: else MariaDB joins the few apps by a buffer, and sorts all changes.
				sqldb.Stmt(
					"SELECT c.seq,c.changed_ms,c.timer_id,c.app_id,f.frozen AS app_frozen,"+stateColumns+
						" FROM timer_changes c"+byKey+" LEFT JOIN timers t"+byKey+" ON t.id=c.timer_id"+
						" LEFT JOIN apps a"+byKey+" ON a.id=t.app_id"+
						" LEFT JOIN apps f"+byKey+" ON f.id=c.app_id WHERE c.seq>",
				).Int(after).
					Add(" ORDER BY c.seq LIMIT ").
					Int(int64(limit)),
			)
		},
	)
	for _, r := range rows {
		ch := store.Change{Seq: r.Seq, AtMS: r.AtMS, AppID: r.AppID, Frozen: r.AppFrozen.Int64 != 0}
		switch {
		case r.ID.Valid:
			ch.State = r.state()
		case r.AppID == 0:
			ch.State.ID = timer.ID(r.Timer)
		}
		changes = append(changes, ch)
	}
	return changes, err
}

// LastChange returns the latest sequence of the change log.
func (s *Timers) LastChange(ctx context.Context) (seq int64, err error) {
	err = s.db.Read(
		ctx,
		"reading the change log",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			return s.db.SelectOne(
				ctx,
				c,
				&seq,
				sqldb.Stmt("SELECT COALESCE(MAX(seq),0) FROM timer_changes"),
			)
		},
	)
	return seq, err
}
