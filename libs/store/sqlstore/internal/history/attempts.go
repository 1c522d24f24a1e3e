package history

import (
	"cmp"
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// OfFire adds the condition that a row is of a fire.
func OfFire(q *sqldb.Statement, id timer.FireID) *sqldb.Statement {
	return q.Add("timer_id=").
		Int(int64(id.Timer)).
		Add(" AND due_ms=").
		Int(id.DueMS).
		Add(" AND series=").
		Int(id.Series)
}

// Attempts returns the attempts of a fire in order.
func (s *Rows) Attempts(
	ctx context.Context,
	c sqlx.QueryerContext,
	id timer.FireID,
) ([]timer.Attempt, error) {
	var rows []struct {
		FinishedMS int64  `db:"finished_ms"`
		N          int32  `db:"attempt"`
		StartMS    int64  `db:"started_ms"`
		StatusCode int32  `db:"status_code"`
		Error      string `db:"error"`
		Excerpt    string `db:"excerpt"`
		Failure    string `db:"failure"`
		Target     string `db:"target"`
	}
	err := s.db.SelectAll(
		ctx,
		c,
		&rows,
		OfFire(sqldb.Stmt(
			"SELECT finished_ms,attempt,started_ms,status_code,error,excerpt,failure,target FROM attempts WHERE ",
		), id).
			Add(" ORDER BY attempt,started_ms,target"),
	)
	var out []timer.Attempt
	for _, r := range rows {
		out = append(out, timer.Attempt{
			FireID:     id,
			N:          r.N,
			StartMS:    r.StartMS,
			DurationMS: r.FinishedMS - r.StartMS,
			StatusCode: r.StatusCode,
			Error:      r.Error,
			Excerpt:    r.Excerpt,
			Failure:    timer.Failure(r.Failure),
			Target:     r.Target,
		})
	}
	return out, err
}

// AttemptsOf returns the attempts of the given fires.
func AttemptsOf(attempts []timer.Attempt, fires []timer.Fire) []timer.Attempt {
	if len(attempts) == 0 {
		return nil
	}
	ids := make(map[timer.FireID]bool, len(fires))
	for i := range fires {
		ids[fires[i].FireID] = true
	}
	return slices.DeleteFunc(
		slices.Clone(attempts),
		func(a timer.Attempt) bool { return !ids[a.FireID] },
	)
}

// InsertAttempts inserts attempts and keeps existing ones. It first cuts texts to their limits and
// to valid UTF-8, so that no receiver's answer makes a statement fail.
func (s *Rows) InsertAttempts(ctx context.Context, c sqldb.Runner, attempts []timer.Attempt) error {
	slices.SortFunc(attempts, func(a, b timer.Attempt) int {
		if a.FireID != b.FireID {
			return timer.CompareFireIDs(a.FireID, b.FireID)
		}
		return cmp.Or(cmp.Compare(a.N, b.N), cmp.Compare(a.Target, b.Target))
	})
	const into = "INSERT INTO attempts (finished_ms,timer_id,due_ms,series,attempt,started_ms," +
		"status_code,failure,error,excerpt,target) VALUES "
	for q, part := range sqldb.InsertBlocks(s.db.Dialect, attempts, into) {
		for i, a := range part {
			q.Open(i == 0).
				Ints(a.EndMS(), int64(a.Timer), a.DueMS, a.Series, int64(a.N), a.StartMS,
					int64(
						a.StatusCode,
					)).
				Add(",").
				Literal(sqldb.ASCII(string(a.Failure), maxFailure)).
				Add(",").
				Bind(sqldb.Clip(a.Error, timer.MaxExcerpt)).
				Add(",").
				Bind(sqldb.Clip(a.Excerpt, timer.MaxExcerpt)).
				Add(",").
				Literal(sqldb.Clip(a.Target, timer.MaxTargetNameLen)).
				Add(")")
		}
		if _, err := s.db.Exec(
			ctx,
			c,
			q.Add(s.db.Dialect.OnConflictNothing("attempt")),
		); err != nil {
			return err
		}
	}
	return nil
}
