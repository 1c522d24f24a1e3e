package sqlstore

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Fire reads the open fire first and the outcome second. A fire that is recorded in between is
// found twice and never missed. The outcome then counts.
func (s *Store) Fire(
	ctx context.Context,
	app string,
	id timer.FireID,
) (rec store.FireRecord, err error) {
	if err := s.ownTimer(ctx, app, id.Timer); err != nil {
		return store.FireRecord{}, err
	}
	err = s.read(ctx, "reading a fire", func(ctx context.Context, c sqlx.QueryerContext) error {
		rec = store.FireRecord{}
		open, err := s.selectFires(
			ctx,
			c,
			stmt("SELECT "+fireColumns+" FROM fires WHERE due_ms=").int(id.DueMS).
				add(" AND timer_id=").int(int64(id.Timer)).add(" AND series=").int(id.Series),
		)
		if err != nil {
			return err
		}
		var done []outcomeRow
		err = s.selectAll(
			ctx,
			c,
			&done,
			stmt("SELECT "+outcomeColumns+" FROM outcomes"+s.dialect.byTimer+" WHERE ").ofFire(id),
		)
		if err != nil {
			return err
		}
		switch {
		case len(done) > 0:
			o := done[0].outcome()
			rec.Outcome = &o
		case len(open) > 0:
			rec.Open = &open[0]
		default:
			return timer.NotFound("fire", id)
		}
		rec.Attempts, err = s.attempts(ctx, c, id)
		return err
	})
	return rec, err
}

func (q *statement) ofFire(id timer.FireID) *statement {
	return q.add("timer_id=").
		int(int64(id.Timer)).
		add(" AND due_ms=").
		int(id.DueMS).
		add(" AND series=").
		int(id.Series)
}

func (s *Store) attempts(
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
	err := s.selectAll(
		ctx,
		c,
		&rows,
		stmt(
			"SELECT finished_ms,attempt,started_ms,status_code,error,excerpt,failure,target FROM attempts WHERE ",
		).
			ofFire(id).
			add(" ORDER BY attempt,started_ms,target"),
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

// History pages backwards through a timer's outcomes, also those of a deleted timer.
func (s *Store) History(
	ctx context.Context, app string, id timer.ID, before timer.FireID, limit int,
) (out []timer.Outcome, err error) {
	if err := s.ownTimer(ctx, app, id); err != nil {
		return nil, err
	}
	err = s.read(
		ctx,
		"reading a timer's history",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			q := stmt(
				"SELECT " + outcomeColumns + " FROM outcomes" + s.dialect.byTimer + " WHERE timer_id=",
			).int(int64(id))
			if before != (timer.FireID{}) {
				q.add(" AND due_ms<=").int(before.DueMS).add(" AND (due_ms<").int(before.DueMS).
					add(" OR series<").int(before.Series).add(")")
			}
			var rows []outcomeRow
			if err := s.selectAll(
				ctx,
				c,
				&rows,
				q.add(" ORDER BY due_ms DESC,series DESC LIMIT ").int(int64(limit)),
			); err != nil {
				return err
			}
			for _, r := range rows {
				out = append(out, r.outcome())
			}
			return nil
		},
	)
	return out, err
}

// ownTimer returns not_found if the app never had the timer.
func (s *Store) ownTimer(ctx context.Context, app string, id timer.ID) error {
	appID, err := s.appID(ctx, app)
	if err != nil {
		return err
	}
	return s.read(ctx, "reading a timer", func(ctx context.Context, c sqlx.QueryerContext) error {
		var n int
		err := s.selectOne(
			ctx,
			c,
			&n,
			stmt(
				"SELECT COUNT(*) FROM timers WHERE id=",
			).int(int64(id)).
				add(" AND app_id=").
				int(appID),
		)
		if err == nil && n == 0 {
			return timer.NotFound("timer", id)
		}
		return err
	})
}
