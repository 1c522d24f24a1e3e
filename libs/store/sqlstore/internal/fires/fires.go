package fires

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// Columns are those of a fire, in the order that Select reads.
	Columns = "due_ms,timer_id,series,run_at_ms,bucket,app_id,version,epoch,cause,state,attempt,first_lateness_ms,revision,owner,priority,target_bits,waiting_since_ms,waited_for"
	// fireOrder is the order of the index by_run. Both databases append the primary key to it.
	fireOrder = " ORDER BY run_at_minute,bucket,run_at_ms,due_ms,timer_id,series"
)

const insertFires = "INSERT INTO fires (" + Columns + ",run_at_minute) VALUES "

// Insert inserts fires, sorted by primary key like every statement about fires. No row with
// the same key exists: next_due never moves back, except in a replan, where flush has looked.
func (s *Rows) Insert(ctx context.Context, c sqldb.Runner, fires []timer.Fire) error {
	fires = slices.Clone(fires)
	slices.SortFunc(fires, timer.CompareFires)
	for q, part := range sqldb.InsertBlocks(s.db.Dialect, fires, insertFires) {
		for i := range part {
			addFire(q, i == 0, &part[i])
		}
		if _, err := s.db.Exec(
			ctx,
			c,
			q.Add(s.db.Dialect.OnConflictNothing("due_ms")),
		); err != nil {
			return err
		}
	}
	return nil
}

func addFire(q *sqldb.Statement, first bool, f *timer.Fire) {
	q.Row(
		first,
		f.DueMS,
		int64(f.Timer),
		f.Series,
		f.RunAtMS,
		int64(f.Bucket),
		f.AppID,
		int64(f.Version),
		f.Epoch,
		int64(
			f.Cause,
		),
		int64(f.State),
		int64(f.Attempt),
		f.FirstLatenessMS,
		int64(f.Rev),
		int64(f.Owner),
		int64(f.PriorityLevel),
		int64(f.TargetBits),
		f.WaitingSinceMS,
		int64(f.WaitedFor),
		f.RunAtMinute(),
	)
}

// Open returns those of the fires that are open. ids are sorted by key.
func (s *Rows) Open(
	ctx context.Context,
	c sqlx.QueryerContext,
	ids []timer.FireID,
	lock string,
) ([]timer.Fire, error) {
	return s.Select(
		ctx,
		c,
		sqldb.Stmt(
			"SELECT "+Columns+" FROM fires"+s.db.Dialect.ByPrimary+" WHERE ",
		).Fires(s.db.Dialect, ids).
			Add(lock),
	)
}

// Select reads fires. It scans rows without reflection: a slice has thousands of them.
func (s *Rows) Select(
	ctx context.Context,
	c sqlx.QueryerContext,
	q *sqldb.Statement,
) (fires []timer.Fire, err error) {
	rows, err := s.db.Query(ctx, c, q)
	if err != nil {
		return nil, err
	}
	defer rows.Close() // rows.Err reports errors
	var n [18]int64
	for rows.Next() {
		err := rows.Scan(
			&n[0],
			&n[1],
			&n[2],
			&n[3],
			&n[4],
			&n[5],
			&n[6],
			&n[7],
			&n[8],
			&n[9],
			&n[10],
			&n[11],
			&n[12],
			&n[13],
			&n[14],
			&n[15],
			&n[16],
			&n[17],
		)
		if err != nil {
			return nil, fmt.Errorf("reading a fire: %w", err)
		}
		//nolint:gosec // what was stored came from these types
		fires = append(fires, timer.Fire{
			FireID:  timer.FireID{DueMS: n[0], Timer: timer.ID(n[1]), Series: n[2]},
			RunAtMS: n[3],
			Bucket:  int32(n[4]),
			AppID:   n[5],
			Version: int32(n[6]),
			Epoch:   n[7],
			Cause: timer.Cause(
				n[8],
			),
			State:           timer.FireState(n[9]),
			Attempt:         int32(n[10]),
			FirstLatenessMS: n[11],
			Rev: int32(
				n[12],
			),
			Owner:          timer.ID(n[13]),
			PriorityLevel:  timer.PriorityLevel(n[14]),
			TargetBits:     timer.TargetBits(n[15]),
			WaitingSinceMS: n[16],
			WaitedFor:      timer.Wait(n[17]),
		})
	}
	return fires, rows.Err() //nolint:wrapcheck // as exec
}

// LoadSlice reads a page along the index by_run, without locks.
func (s *Fires) LoadSlice(
	ctx context.Context, minute int64, bucket int32, after store.Position, untilMS int64, limit int,
) (fires []timer.Fire, err error) {
	err = s.db.Read(ctx, "loading a slice", func(ctx context.Context, c sqlx.QueryerContext) error {
		q := sqldb.Stmt("SELECT " + Columns + " FROM fires" + s.db.Dialect.ByRun + " WHERE run_at_minute=").
			Int(minute).
			Add(" AND bucket=").
			Int(int64(bucket)).
			Add(" AND run_at_ms<=").
			Int(untilMS)
		q = afterPosition(q, s.db.Dialect, after).
			Add(" AND owner=0").
			Add(fireOrder + " LIMIT ").
			Int(int64(limit))
		fires, err = s.fires.Select(ctx, c, q)
		return err
	})
	return fires, err
}

// afterPosition adds the condition that a fire of one slice comes after the position.
func afterPosition(q *sqldb.Statement, d *sqldb.Dialect, p store.Position) *sqldb.Statement {
	q.Add(" AND ")
	d.KeyAfter(
		q,
		[]string{"run_at_ms", "due_ms", "timer_id", "series"},
		[]int64{p.RunAtMS, p.DueMS, int64(p.Timer), p.Series},
	)
	return q
}
