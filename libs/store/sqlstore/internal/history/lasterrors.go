package history

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// LastErrors reads in parts, because a statement has a bounded size.
func (s *Reader) LastErrors(
	ctx context.Context,
	fires []timer.FireID,
) (last map[timer.FireID]string, err error) {
	err = s.db.Read(
		ctx,
		"reading the errors of failed fires",
		func(ctx context.Context, c sqlx.QueryerContext) (err error) {
			last, err = LastErrors(ctx, s.db, c, fires)
			return err
		},
	)
	return last, err
}

// LastErrors returns the last error text of each fire that has one, without those of a target that
// took the fire later. It reads along the index by timer, like TargetAttempts, and returns one row
// per fire, however many attempts there were.
func LastErrors(
	ctx context.Context,
	db *sqldb.DB,
	c sqlx.QueryerContext,
	fires []timer.FireID,
) (map[timer.FireID]string, error) {
	last := make(map[timer.FireID]string, len(fires))
	for part := range sqldb.Batches(fires) {
		if err := addLastErrors(ctx, db, c, part, last); err != nil {
			return nil, err
		}
	}
	return last, nil
}

func addLastErrors(
	ctx context.Context,
	db *sqldb.DB,
	c sqlx.QueryerContext,
	fires []timer.FireID,
	last map[timer.FireID]string,
) error {
	first := fires[0].DueMS
	for i := range fires {
		first = min(first, fires[i].DueMS)
	}
	const key = "timer_id,due_ms,series"
	q := sqldb.Stmt("SELECT " + key + ",error FROM (SELECT " + key + ",error,ROW_NUMBER() OVER (" +
		"PARTITION BY " + key + " ORDER BY attempt DESC,started_ms DESC,target DESC) AS place " +
		"FROM (SELECT " + key + ",attempt,started_ms,target,failure,error," +
		"MAX(CASE WHEN failure='' THEN attempt ELSE 0 END) OVER (PARTITION BY " + key +
		",target) AS taken FROM attempts" + db.Dialect.ByTimer + " WHERE finished_ms>=")
	q.Int(first - MaxClockSkew.Milliseconds()).
		Add(" AND (" + key + ") IN (" + db.Dialect.Tuples)
	for i, f := range fires {
		q.Row(i == 0, int64(f.Timer), f.DueMS, f.Series)
	}
	var rows []struct {
		sqldb.FireIDRow

		Error string `db:"error"`
	}
	q.Add(")) a WHERE error<>'' AND (target='' OR failure<>'' AND attempt>=taken)) b WHERE place=1")
	if err := db.SelectAll(ctx, c, &rows, q); err != nil {
		return err
	}
	for i := range rows {
		last[rows[i].FireID()] = rows[i].Error
	}
	return nil
}
