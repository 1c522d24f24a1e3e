package sqlstore

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/timer"
)

// OpenSession begins a session.
func (s *Store) OpenSession(
	ctx context.Context,
	id timer.ID,
	kind store.SessionKind,
	name string,
) error {
	return s.write(ctx, "opening a session", func(ctx context.Context, c runner) error {
		q := stmt(
			"INSERT INTO sessions (id,kind,name,renewals,inflight_full,oldest_task_age_ms,opened_ms,renewed_ms,ended_ms) VALUES (",
		).
			int(int64(id)).
			add(",").
			bind(string(kind)).
			add(",").
			bind(clip(name, maxSessionName)).
			add(",0,0,0,").
			nowMS(s.dialect).
			add(",").
			nowMS(s.dialect).
			add(",0)")
		_, err := s.exec(ctx, c, q)
		if s.dialect.classOf(err) == engine.ClassDuplicate {
			return timer.Conflict("id", "this session id is taken")
		}
		return err
	})
}

const maxSessionName = 255

// RenewSession is one conditional update. It compares no clocks, and matches no ended session.
func (s *Store) RenewSession(ctx context.Context, id timer.ID, load store.Load) (bool, error) {
	n, err := s.urgent(ctx, "renewing a session", func() *statement {
		return stmt(
			"UPDATE sessions SET renewals=renewals+1,inflight_full=",
		).int(flag(load.InflightFull)).
			add(",oldest_task_age_ms=").
			int(load.OldestTaskMS).
			add(",renewed_ms=").
			nowMS(s.dialect).
			add(" WHERE id=").
			int(int64(id)).
			add(" AND ended_ms=0")
	})
	return n == 1, err
}

// LiveSessions returns the alive sessions of all kinds.
func (s *Store) LiveSessions(ctx context.Context) ([]store.Session, error) {
	return s.sessions(ctx, "reading alive sessions", stmt(selectSessions+"ended_ms=0"))
}

// ExpiredSessions returns the sessions that ended recently.
func (s *Store) ExpiredSessions(
	ctx context.Context,
	within time.Duration,
) ([]store.Session, error) {
	return s.sessions(ctx, "reading expired sessions",
		stmt(selectSessions+"ended_ms>").nowMS(s.dialect).add("-").int(within.Milliseconds()))
}

// SessionsByID reads by primary key, without locks.
func (s *Store) SessionsByID(ctx context.Context, ids []timer.ID) ([]store.Session, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.sessions(ctx, "reading sessions", stmt(selectSessions+"id").idList(ids))
}

const selectSessions = "SELECT id,kind,name,renewals,inflight_full,oldest_task_age_ms,ended_ms FROM sessions WHERE "

func (s *Store) sessions(
	ctx context.Context,
	what string,
	q *statement,
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
	err = s.read(ctx, what, func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.selectAll(ctx, c, &rows, q.add(" ORDER BY id"))
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
func (s *Store) ExpireSession(ctx context.Context, id timer.ID, renewals int64) (bool, error) {
	n, err := s.urgent(ctx, "expiring a session", func() *statement {
		return stmt("UPDATE sessions SET ended_ms=").nowMS(s.dialect).
			add(" WHERE id=").int(int64(id)).add(" AND ended_ms=0 AND renewals=").int(renewals)
	})
	return n == 1, err
}

// CloseSession ends the caller's session. It may be repeated.
func (s *Store) CloseSession(ctx context.Context, id timer.ID) error {
	_, err := s.urgent(ctx, "closing a session", func() *statement {
		return stmt("UPDATE sessions SET ended_ms=").nowMS(s.dialect).
			add(" WHERE id=").int(int64(id)).add(" AND ended_ms=0")
	})
	return err
}

// endAllSessions ends the sessions of an earlier process. A new directory has no table of sessions
// yet.
func (s *Store) endAllSessions(ctx context.Context) error {
	return s.write(
		ctx,
		"ending the sessions of an earlier process",
		func(ctx context.Context, c runner) error {
			var n int
			err := s.selectOne(
				ctx,
				c,
				&n,
				stmt("SELECT COUNT(*) FROM sqlite_master WHERE type='table' AND name='sessions'"),
			)
			if err != nil || n == 0 {
				return err
			}
			_, err = s.exec(
				ctx,
				c,
				stmt("UPDATE sessions SET ended_ms=").nowMS(s.dialect).add(" WHERE ended_ms=0"),
			)
			return err
		},
	)
}

// live adds the condition that the session is alive. It is evaluated once per statement from a
// snapshot without locks, so a claim never waits for a renewal. A session that ends while the
// statement runs may still win. Executors then find the fires overdue, because their owner is not
// alive.
func whileLive(q *statement, session timer.ID) *statement {
	return q.add("EXISTS (SELECT 1 FROM sessions WHERE id=").
		int(int64(session)).
		add(" AND ended_ms=0)")
}
