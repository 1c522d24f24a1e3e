package sessions

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// OpenSession begins a session.
func (s *Sessions) OpenSession(ctx context.Context, begun store.Session) error {
	return s.db.Write(ctx, "opening a session", func(ctx context.Context, c sqldb.Runner) error {
		q := sqldb.Stmt(
			"INSERT INTO sessions (id,kind,name,renewals,inflight_full,oldest_task_age_ms,opened_ms,renewed_ms,ended_ms) VALUES (",
		).
			Int(int64(begun.ID)).
			Add(",").
			Bind(string(begun.Kind)).
			Add(",").
			Bind(sqldb.Clip(begun.Name, maxSessionName)).
			Add(",").
			Int(begun.Renewals).
			Add(",0,0,").
			NowMS(s.db.Dialect).
			Add(",").
			NowMS(s.db.Dialect).
			Add(",0)")
		_, err := s.db.Exec(ctx, c, q)
		if s.db.Dialect.ClassOf(err) == engine.ClassDuplicate {
			return timer.Conflict("id", "this session id is taken")
		}
		return err
	})
}

const maxSessionName = 255

// RenewSession is one conditional update. It compares no clocks, and matches no ended session.
func (s *Sessions) RenewSession(ctx context.Context, id timer.ID, load store.Load) (bool, error) {
	n, err := s.db.Urgent(ctx, "renewing a session", func() *sqldb.Statement {
		return sqldb.Stmt(
			"UPDATE sessions SET renewals=renewals+1,inflight_full=",
		).Int(sqldb.Flag(load.InflightFull)).
			Add(",oldest_task_age_ms=").
			Int(load.OldestTaskMS).
			Add(",renewed_ms=").
			NowMS(s.db.Dialect).
			Add(" WHERE id=").
			Int(int64(id)).
			Add(" AND ended_ms=0")
	})
	return n == 1, err
}

// LiveSessions returns the alive sessions of all kinds.
func (s *Sessions) LiveSessions(ctx context.Context) ([]store.Session, error) {
	return s.sessions(ctx, "reading alive sessions", sqldb.Stmt(selectSessions+"ended_ms=0"))
}

// ExpiredSessions returns the sessions that ended recently.
func (s *Sessions) ExpiredSessions(
	ctx context.Context,
	within time.Duration,
) ([]store.Session, error) {
	return s.sessions(
		ctx,
		"reading expired sessions",
		sqldb.Stmt(selectSessions+"ended_ms>").
			NowMS(s.db.Dialect).
			Add("-").
			Int(within.Milliseconds()),
	)
}

// SessionsByID reads by primary key, without locks.
func (s *Sessions) SessionsByID(ctx context.Context, ids []timer.ID) ([]store.Session, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.sessions(ctx, "reading sessions", sqldb.Stmt(selectSessions+"id").IDList(ids))
}

const selectSessions = "SELECT id,kind,name,renewals,inflight_full,oldest_task_age_ms,ended_ms FROM sessions WHERE "

func (s *Sessions) sessions(
	ctx context.Context,
	what string,
	q *sqldb.Statement,
) (all []store.Session, err error) {
	var rows []struct {
		ID           int64  `db:"id"`
		Kind         string `db:"kind"`
		Name         string `db:"name"`
		Renewals     int64  `db:"renewals"`
		InflightFull bool   `db:"inflight_full"`
		OldestTaskMS int64  `db:"oldest_task_age_ms"`
		EndedMS      int64  `db:"ended_ms"`
	}
	err = s.db.Read(ctx, what, func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.db.SelectAll(ctx, c, &rows, q.Add(" ORDER BY id"))
	})
	for _, r := range rows {
		all = append(all, store.Session{
			ID: timer.ID(r.ID), Kind: store.SessionKind(r.Kind), Name: r.Name, Renewals: r.Renewals,
			Load:  store.Load{InflightFull: r.InflightFull, OldestTaskMS: r.OldestTaskMS},
			Ended: r.EndedMS != 0,
		})
	}
	return all, err
}

// ExpireSession is conditional on the number of renewals. Of several callers that saw no renewal,
// one ends the session. A renewal in between keeps it alive.
func (s *Sessions) ExpireSession(ctx context.Context, id timer.ID, renewals int64) (bool, error) {
	n, err := s.db.Urgent(ctx, "expiring a session", func() *sqldb.Statement {
		return sqldb.Stmt("UPDATE sessions SET ended_ms=").NowMS(s.db.Dialect).
			Add(" WHERE id=").Int(int64(id)).Add(" AND ended_ms=0 AND renewals=").Int(renewals)
	})
	return n == 1, err
}

// CloseSession ends the caller's session. It may be repeated.
func (s *Sessions) CloseSession(ctx context.Context, id timer.ID) error {
	_, err := s.db.Urgent(ctx, "closing a session", func() *sqldb.Statement {
		return sqldb.Stmt("UPDATE sessions SET ended_ms=").NowMS(s.db.Dialect).
			Add(" WHERE id=").Int(int64(id)).Add(" AND ended_ms=0")
	})
	return err
}

// EndAll ends the sessions of an earlier process. A new directory has no table of sessions
// yet.
func (s *Rows) EndAll(ctx context.Context) error {
	return s.db.Write(
		ctx,
		"ending the sessions of an earlier process",
		func(ctx context.Context, c sqldb.Runner) error {
			var n int
			err := s.db.SelectOne(
				ctx,
				c,
				&n,
				sqldb.Stmt(
					"SELECT COUNT(*) FROM sqlite_master WHERE type='table' AND name='sessions'",
				),
			)
			if err != nil || n == 0 {
				return err
			}
			_, err = s.db.Exec(
				ctx,
				c,
				sqldb.Stmt("UPDATE sessions SET ended_ms=").
					NowMS(s.db.Dialect).
					Add(" WHERE ended_ms=0"),
			)
			return err
		},
	)
}

// WhileLive adds the condition that the session is alive. It is evaluated once per statement from a
// snapshot without locks, so a claim never waits for a renewal. A session that ends while the
// statement runs may still win. Executors then find the fires overdue, because their owner is not
// alive.
func WhileLive(q *sqldb.Statement, session timer.ID) *sqldb.Statement {
	return q.Add("EXISTS (SELECT 1 FROM sessions WHERE id=").
		Int(int64(session)).
		Add(" AND ended_ms=0)")
}
