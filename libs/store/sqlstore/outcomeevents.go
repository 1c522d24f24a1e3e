package sqlstore

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxEventAge is how far back outcomes are announced.
const maxEventAge = time.Hour

// outcomeOrder is the primary key of outcomes.
var outcomeOrder = []string{"finished_ms", "timer_id", "due_ms", "series"}

// PendingEvents walks the primary key of outcomes from the position on, and no further back than an
// hour or the session's begin. It passes by the rows of other sessions: an index by session would
// cost every outcome more than the walk over a second of them costs.
func (s *Store) PendingEvents(
	ctx context.Context, session timer.ID, after store.OutcomePosition, untilMS int64, limit int,
) (out []timer.Outcome, err error) {
	err = s.read(
		ctx,
		"reading outcomes to announce",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var at struct {
				NowMS    int64 `db:"now_ms"`
				OpenedMS int64 `db:"opened_ms"`
			}
			q := stmt(
				"SELECT ",
			).nowMS(s.dialect).
				add(" AS now_ms,COALESCE((SELECT opened_ms FROM sessions WHERE id=").
				int(int64(session)).
				add("),0) AS opened_ms")
			if err := s.selectOne(ctx, c, &at, q); err != nil {
				return err
			}
			from := max(
				at.NowMS-maxEventAge.Milliseconds(),
				at.OpenedMS-maxClockSkew.Milliseconds(),
			)
			if after.FinishedMS < from {
				after = store.OutcomePosition{FinishedMS: from}
			}
			q = stmt(
				"SELECT " + outcomeColumns + " FROM outcomes" + s.dialect.byPrimary + " WHERE finished_ms>=",
			).int(after.FinishedMS).
				add(" AND ")
			s.dialect.later(
				q,
				outcomeOrder,
				[]int64{after.FinishedMS, int64(after.Timer), after.DueMS, after.Series},
			)
			if session == store.SystemSession {
				untilMS = min(untilMS, at.NowMS-store.VisibilityDelay.Milliseconds()+1)
			}
			q.add(" AND finished_ms<").int(untilMS)
			var rows []outcomeRow
			q.add(" AND owner=").
				int(int64(session)).
				add(" ORDER BY finished_ms,timer_id,due_ms,series LIMIT ").
				int(int64(limit))
			if err := s.selectAll(ctx, c, &rows, q); err != nil {
				return err
			}
			for i := range rows {
				out = append(out, rows[i].outcome())
			}
			return nil
		},
	)
	return out, err
}

// AckEvents is one statement, conditional on moving forward: of two at once the farther one stays.
// A position whose answer was lost is set again, or not: then something is announced twice.
func (s *Store) AckEvents(ctx context.Context, session timer.ID, p store.OutcomePosition) error {
	if session == store.SystemSession {
		// Its row is made here, dead since ever. Keep leaves it; that of the release before does
		// not, and then an hour is announced again.
		_, err := s.alone(ctx, "making a position", func() *statement {
			return stmt(
				"INSERT INTO sessions (id,kind,name,renewals,inflight_full,oldest_task_ms,opened_ms,renewed_ms,ended_ms) VALUES (",
			).int(int64(session)).
				add(",'','',0,0,0,0,0,1)").
				add(s.dialect.nothing("id"))
		})
		if err != nil {
			return err
		}
	}
	_, err := s.alone(ctx, "noting what is announced", func() *statement {
		at, t, due := p.FinishedMS, int64(p.Timer), p.DueMS
		// MySQL sets the columns one after the other: the condition comes first, of the row as it
		// was.
		return stmt(
			"UPDATE sessions SET acked_ms=",
		).int(at).
			add(",acked_timer=").
			int(t).
			add(",acked_due_ms=").
			int(due).
			add(",acked_series=").
			int(p.Series).
			add(" WHERE id=").
			int(int64(session)).
			add(" AND (acked_ms<").
			int(at).
			add(" OR acked_ms=").
			int(at).
			add(" AND (acked_timer<").
			int(t).
			add(" OR acked_timer=").
			int(t).
			add(" AND (acked_due_ms<").
			int(due).
			add(" OR acked_due_ms=").
			int(due).
			add(" AND acked_series<").
			int(p.Series).
			add(")))")
	})
	return err
}

// SessionsWithPendingEvents reads the few sessions that ended lately.
func (s *Store) SessionsWithPendingEvents(
	ctx context.Context,
) (silent map[timer.ID]store.OutcomePosition, err error) {
	silent = map[timer.ID]store.OutcomePosition{store.SystemSession: {}}
	err = s.read(
		ctx,
		"reading the silent sessions",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var rows []struct {
				ID     int64 `db:"id"`
				AtMS   int64 `db:"acked_ms"`
				Timer  int64 `db:"acked_timer"`
				DueMS  int64 `db:"acked_due_ms"`
				Series int64 `db:"acked_series"`
				Opened int64 `db:"opened_ms"`
			}
			q := stmt(
				"SELECT id,acked_ms,acked_timer,acked_due_ms,acked_series,opened_ms FROM sessions WHERE ended_ms>",
			).nowMS(s.dialect).
				add("-").
				int(maxEventAge.Milliseconds()).
				add(" AND announced=0 AND kind=").
				bind(string(store.ExecutorSession)).
				add(" OR id=").
				int(int64(store.SystemSession))
			if err := s.selectAll(ctx, c, &rows, q); err != nil {
				return err
			}
			for _, r := range rows {
				at := store.OutcomePosition{
					FinishedMS: r.AtMS,
					FireID: timer.FireID{
						Timer:  timer.ID(r.Timer),
						DueMS:  r.DueMS,
						Series: r.Series,
					},
				}
				// it never noted one.
				if begin := r.Opened - maxClockSkew.Milliseconds(); r.AtMS < begin {
					at = store.OutcomePosition{FinishedMS: begin}
				}
				silent[timer.ID(r.ID)] = at
			}
			return nil
		},
	)
	return silent, err
}

// FinishEvents takes a session off the list, for ever. Repeating it is harmless.
func (s *Store) FinishEvents(ctx context.Context, session timer.ID) error {
	_, err := s.alone(ctx, "noting that all is announced", func() *statement {
		return stmt("UPDATE sessions SET announced=1 WHERE ended_ms>0 AND id=").int(int64(session))
	})
	return err
}
