package sqlstore

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxEventAge is the age up to which outcomes are published.
const maxEventAge = time.Hour

// outcomeOrder is the primary key of outcomes.
var outcomeOrder = []string{"finished_ms", "timer_id", "due_ms", "series"}

// PendingEvents scans the primary key of outcomes from the position on, at most an hour back and
// not before the session began. It skips rows of other sessions: an index by session would cost
// every outcome more than this scan costs.
func (s *Store) PendingEvents(
	ctx context.Context, session timer.ID, after store.OutcomePosition, untilMS int64, limit int,
) (out []timer.Outcome, err error) {
	err = s.read(
		ctx,
		"reading pending events",
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
			s.dialect.keyAfter(
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

// AckEvents is one statement that only moves forward, so the farther of two positions stays. If its
// answer was lost, the position is set again, or some events are published twice.
func (s *Store) AckEvents(ctx context.Context, session timer.ID, p store.OutcomePosition) error {
	if session == store.SystemSession {
		// The row of SystemSession is inserted here, as ended. PurgeExpired keeps it.
		_, err := s.autocommit(ctx, "inserting the acked position", func() *statement {
			return stmt(
				"INSERT INTO sessions (id,kind,name,renewals,inflight_full,oldest_task_age_ms,opened_ms,renewed_ms,ended_ms) VALUES (",
			).int(int64(session)).
				add(",'','',0,0,0,0,0,1)").
				add(s.dialect.onConflictNothing("id"))
		})
		if err != nil {
			return err
		}
	}
	_, err := s.autocommit(ctx, "acknowledging outcome events", func() *statement {
		at, t, due := p.FinishedMS, int64(p.Timer), p.DueMS
		// The condition comes first, because MySQL assigns columns one by one.
		return stmt(
			"UPDATE sessions SET acked_finished_ms=",
		).int(at).
			add(",acked_timer_id=").
			int(t).
			add(",acked_due_ms=").
			int(due).
			add(",acked_series=").
			int(p.Series).
			add(" WHERE id=").
			int(int64(session)).
			add(" AND (acked_finished_ms<").
			int(at).
			add(" OR acked_finished_ms=").
			int(at).
			add(" AND (acked_timer_id<").
			int(t).
			add(" OR acked_timer_id=").
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

// SessionsWithPendingEvents reads the few sessions that ended recently.
func (s *Store) SessionsWithPendingEvents(
	ctx context.Context,
) (positions map[timer.ID]store.OutcomePosition, err error) {
	positions = map[timer.ID]store.OutcomePosition{store.SystemSession: {}}
	err = s.read(
		ctx,
		"reading sessions with pending events",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var rows []struct {
				ID     int64 `db:"id"`
				AtMS   int64 `db:"acked_finished_ms"`
				Timer  int64 `db:"acked_timer_id"`
				DueMS  int64 `db:"acked_due_ms"`
				Series int64 `db:"acked_series"`
				Opened int64 `db:"opened_ms"`
			}
			q := stmt(
				"SELECT id,acked_finished_ms,acked_timer_id,acked_due_ms,acked_series,opened_ms FROM sessions WHERE ended_ms>",
			).nowMS(s.dialect).
				add("-").
				int(maxEventAge.Milliseconds()).
				add(" AND events_acked=0 AND kind=").
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
				// The session never acked a position.
				if begin := r.Opened - maxClockSkew.Milliseconds(); r.AtMS < begin {
					at = store.OutcomePosition{FinishedMS: begin}
				}
				positions[timer.ID(r.ID)] = at
			}
			return nil
		},
	)
	return positions, err
}

// FinishEvents takes a session off the list for ever. It may be repeated.
func (s *Store) FinishEvents(ctx context.Context, session timer.ID) error {
	_, err := s.autocommit(ctx, "finishing outcome events", func() *statement {
		return stmt(
			"UPDATE sessions SET events_acked=1 WHERE ended_ms>0 AND id=",
		).int(int64(session))
	})
	return err
}
