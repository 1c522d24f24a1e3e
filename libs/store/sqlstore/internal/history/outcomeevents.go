package history

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxEventAge is the age up to which outcomes are published.
const maxEventAge = time.Hour

// outcomeOrder is the primary key of outcomes.
var outcomeOrder = []string{"finished_ms", "timer_id", "due_ms", "series"}

// PendingEvents scans the primary key of outcomes from the position on, at most an hour back and
// not before the session began. It skips rows of other sessions: an index by session would cost
// every outcome more than this scan costs.
func (s *Reader) PendingEvents(
	ctx context.Context, session timer.ID, after store.OutcomePosition, untilMS int64, limit int,
) (out []timer.Outcome, err error) {
	err = s.db.Read(
		ctx,
		"reading pending events",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var at struct {
				NowMS    int64 `db:"now_ms"`
				OpenedMS int64 `db:"opened_ms"`
			}
			q := sqldb.Stmt(
				"SELECT ",
			).NowMS(s.db.Dialect).
				Add(" AS now_ms,COALESCE((SELECT opened_ms FROM sessions WHERE id=").
				Int(int64(session)).
				Add("),0) AS opened_ms")
			if err := s.db.SelectOne(ctx, c, &at, q); err != nil {
				return err
			}
			from := max(
				at.NowMS-maxEventAge.Milliseconds(),
				firstEventMS(at.OpenedMS, at.NowMS),
			)
			if after.FinishedMS < from {
				after = store.OutcomePosition{FinishedMS: from}
			}
			q = sqldb.Stmt(
				"SELECT " + OutcomeColumns + " FROM outcomes" + s.db.Dialect.ByPrimary + " WHERE finished_ms>=",
			).Int(after.FinishedMS).
				Add(" AND ")
			s.db.Dialect.KeyAfter(
				q,
				outcomeOrder,
				[]int64{after.FinishedMS, int64(after.Timer), after.DueMS, after.Series},
			)
			if session == store.SystemSession {
				untilMS = min(untilMS, at.NowMS-store.VisibilityDelay.Milliseconds()+1)
			}
			q.Add(" AND finished_ms<").Int(untilMS)
			var rows []OutcomeRow
			q.Add(" AND owner=").
				Int(int64(session)).
				Add(" ORDER BY finished_ms,timer_id,due_ms,series LIMIT ").
				Int(int64(limit))
			if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
				return err
			}
			for i := range rows {
				out = append(out, rows[i].Outcome())
			}
			return nil
		},
	)
	return out, err
}

// nodesDifferMS is by how much the clocks of a cluster's nodes may differ. An instant that is later
// than now by more was set by a clock that was ahead.
func (s *Reader) nodesDifferMS() int64 {
	if s.db.Engine.Capabilities().RowLocks {
		return 0 // one server
	}
	return MaxClockSkew.Milliseconds()
}

// firstEventMS returns the instant before which a session has recorded no outcome. A session that was
// opened by a clock that was ahead has had another one since: 0.
func firstEventMS(openedMS, nowMS int64) int64 {
	if openedMS > nowMS {
		return 0
	}
	return openedMS - MaxClockSkew.Milliseconds()
}

// AckEvents is one statement that only moves forward, so the farther of two positions stays. If its
// answer was lost, the position is set again, or some events are published twice. That of
// SystemSession moves back from an instant later than now, by a clock that was ahead: the store
// records outcomes by now.
func (s *Reader) AckEvents(ctx context.Context, session timer.ID, p store.OutcomePosition) error {
	if session == store.SystemSession {
		// The row of SystemSession is inserted here, as ended. PurgeExpired keeps it.
		_, err := s.db.Autocommit(ctx, "inserting the acked position", func() *sqldb.Statement {
			return sqldb.Stmt(
				"INSERT INTO sessions (id,kind,name,renewals,inflight_full,oldest_task_age_ms,opened_ms,renewed_ms,ended_ms) VALUES (",
			).Int(int64(session)).
				Add(",'','',0,0,0,0,0,1)").
				Add(s.db.Dialect.OnConflictNothing("id"))
		})
		if err != nil {
			return err
		}
	}
	_, err := s.db.Autocommit(ctx, "acknowledging outcome events", func() *sqldb.Statement {
		at, t, due := p.FinishedMS, int64(p.Timer), p.DueMS
		// The condition comes first, because MySQL assigns columns one by one.
		q := sqldb.Stmt(
			"UPDATE sessions SET acked_finished_ms=",
		).Int(at).
			Add(",acked_timer_id=").
			Int(t).
			Add(",acked_due_ms=").
			Int(due).
			Add(",acked_series=").
			Int(p.Series).
			Add(" WHERE id=").
			Int(int64(session)).
			Add(" AND (acked_finished_ms<").
			Int(at).
			Add(" OR acked_finished_ms=").
			Int(at).
			Add(" AND (acked_timer_id<").
			Int(t).
			Add(" OR acked_timer_id=").
			Int(t).
			Add(" AND (acked_due_ms<").
			Int(due).
			Add(" OR acked_due_ms=").
			Int(due).
			Add(" AND acked_series<").
			Int(p.Series).
			Add("))")
		if session == store.SystemSession {
			q.Add(" OR acked_finished_ms>").NowMS(s.db.Dialect).
				Add("+").Int(s.nodesDifferMS())
		}
		return q.Add(")")
	})
	return err
}

// SessionsWithPendingEvents reads the few sessions that ended recently.
func (s *Reader) SessionsWithPendingEvents(
	ctx context.Context,
) (positions map[timer.ID]store.OutcomePosition, err error) {
	positions = map[timer.ID]store.OutcomePosition{store.SystemSession: {}}
	err = s.db.Read(
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
				NowMS  int64 `db:"now_ms"`
			}
			q := sqldb.Stmt(
				"SELECT id,acked_finished_ms,acked_timer_id,acked_due_ms,acked_series,opened_ms,",
			).NowMS(s.db.Dialect).
				Add(" AS now_ms FROM sessions WHERE ended_ms>").
				NowMS(s.db.Dialect).
				Add("-").
				Int(maxEventAge.Milliseconds()).
				Add(" AND events_acked=0 AND kind=").
				Bind(string(store.ExecutorSession)).
				Add(" OR id=").
				Int(int64(store.SystemSession))
			if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
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
				id := timer.ID(r.ID)
				// The session never acked a position.
				if begin := firstEventMS(r.Opened, r.NowMS); r.AtMS < begin {
					at = store.OutcomePosition{FinishedMS: begin}
				}
				if id == store.SystemSession && r.AtMS > r.NowMS+s.nodesDifferMS() {
					at = store.OutcomePosition{}
				}
				positions[id] = at
			}
			return nil
		},
	)
	return positions, err
}

// FinishEvents takes a session off the list for ever. It may be repeated.
func (s *Reader) FinishEvents(ctx context.Context, session timer.ID) error {
	_, err := s.db.Autocommit(ctx, "finishing outcome events", func() *sqldb.Statement {
		return sqldb.Stmt(
			"UPDATE sessions SET events_acked=1 WHERE ended_ms>0 AND id=",
		).Int(int64(session))
	})
	return err
}
