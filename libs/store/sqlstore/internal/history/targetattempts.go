package history

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TargetAttempts reads along the index by timer, from the first due instant on. It thus skips the
// partitions of earlier days: no attempt ends before its fire is due, except by a clock that is
// ahead.
func (s *Reader) TargetAttempts(
	ctx context.Context,
	fires []timer.FireID,
) (out []timer.Attempt, err error) {
	if len(fires) == 0 {
		return nil, nil
	}
	err = s.db.Read(
		ctx,
		"reading attempts of targets",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			out = nil
			for part := range sqldb.Batches(fires) {
				some, err := s.targetAttempts(ctx, c, part)
				if err != nil {
					return err
				}
				out = append(out, some...)
			}
			return nil
		},
	)
	return out, err
}

func (s *Reader) targetAttempts(
	ctx context.Context,
	c sqlx.QueryerContext,
	fires []timer.FireID,
) ([]timer.Attempt, error) {
	first := fires[0].DueMS
	for i := range fires {
		first = min(first, fires[i].DueMS)
	}
	q := sqldb.Stmt(
		"SELECT finished_ms,timer_id,due_ms,series,attempt,started_ms,status_code,failure,target FROM attempts" + s.db.Dialect.ByTimer,
	)
	q.Add(" WHERE finished_ms>=").Int(first - MaxClockSkew.Milliseconds())
	q.Add(" AND (timer_id,due_ms,series) IN (" + s.db.Dialect.Tuples)
	for i, f := range fires {
		q.Row(i == 0, int64(f.Timer), f.DueMS, f.Series)
	}
	var rows []struct {
		FinishedMS int64  `db:"finished_ms"`
		TimerID    int64  `db:"timer_id"`
		DueMS      int64  `db:"due_ms"`
		Series     int64  `db:"series"`
		N          int32  `db:"attempt"`
		StartMS    int64  `db:"started_ms"`
		StatusCode int32  `db:"status_code"`
		Failure    string `db:"failure"`
		Target     string `db:"target"`
	}
	if err := s.db.SelectAll(
		ctx,
		c,
		&rows,
		q.Add(") AND target<>'' ORDER BY timer_id,due_ms,series,attempt,started_ms,target"),
	); err != nil {
		return nil, err
	}
	out := make([]timer.Attempt, len(rows))
	for i, r := range rows {
		out[i] = timer.Attempt{
			FireID: timer.FireID{
				Timer:  timer.ID(r.TimerID),
				DueMS:  r.DueMS,
				Series: r.Series,
			},
			N:          r.N,
			StartMS:    r.StartMS,
			DurationMS: r.FinishedMS - r.StartMS,
			StatusCode: r.StatusCode,
			Failure:    timer.Failure(r.Failure),
			Target:     r.Target,
		}
	}
	return out, nil
}
