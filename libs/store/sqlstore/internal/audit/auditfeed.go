package audit

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// Rows of cursors: the position of the feed, and when its lease ends.
const (
	auditCursor = "audit"
	auditLease  = "audit_lease"
)

// LeaseAuditFeed takes the lease by one conditional update. Of two calls at once, the second finds
// the new end and changes nothing. A call that dies after it leaves a lease that ends. A call whose
// answer was lost is refused when it is repeated: the lease ends by itself.
func (s *Audit) LeaseAuditFeed(
	ctx context.Context,
	lease time.Duration,
) (l store.AuditLease, ok bool, err error) {
	at, err := s.auditCursors(ctx)
	if err != nil {
		return l, false, err
	}
	now, err := s.db.Now(ctx)
	if err != nil || at[auditLease] > now.UnixMilli() {
		return l, false, err
	}
	l.UntilMS = now.Add(lease).UnixMilli()
	taken, err := s.setAuditLease(ctx, at[auditLease], l.UntilMS)
	if err != nil || !taken {
		return l, false, err
	}
	// Read anew: the holder before may have moved it between the two statements.
	if at, err = s.auditCursors(ctx); err != nil {
		return l, false, err
	}
	l.After = at[auditCursor]
	return l, true, nil
}

// ReleaseAuditFeed changes nothing if another caller has the lease by now.
func (s *Audit) ReleaseAuditFeed(ctx context.Context, l store.AuditLease) error {
	_, err := s.setAuditLease(ctx, l.UntilMS, 0)
	return err
}

func (s *Audit) setAuditLease(ctx context.Context, fromMS, toMS int64) (bool, error) {
	n, err := s.db.Autocommit(ctx, "leasing the audit feed", func() *sqldb.Statement {
		return sqldb.Stmt("UPDATE cursors SET minute=").
			Int(toMS).
			Add(" WHERE name=").
			Bind(auditLease).
			Add(" AND minute=").
			Int(fromMS)
	})
	return n > 0, err
}

// auditCursors reads the position and the lease. The very first call makes their rows.
func (s *Audit) auditCursors(ctx context.Context) (map[string]int64, error) {
	at, err := s.readAuditCursors(ctx)
	if err != nil || len(at) == 2 { //nolint:mnd // the two
		return at, err
	}
	_, err = s.db.Autocommit(ctx, "making the audit feed", func() *sqldb.Statement {
		return sqldb.Stmt("INSERT INTO cursors (name,minute) VALUES (").
			Bind(auditCursor).
			Add(",0),(").
			Bind(auditLease).
			Add(",0)").
			Add(s.db.Dialect.OnConflictNothing("name"))
	})
	if err != nil {
		return nil, err
	}
	return s.readAuditCursors(ctx)
}

func (s *Audit) readAuditCursors(ctx context.Context) (at map[string]int64, err error) {
	err = s.db.Read(
		ctx,
		"reading the audit feed",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var rows []struct {
				Name string `db:"name"`
				At   int64  `db:"minute"`
			}
			at = make(map[string]int64, 2) //nolint:mnd // the two
			q := sqldb.Stmt("SELECT name,minute FROM cursors WHERE name IN (").
				Bind(auditCursor).
				Add(",").
				Bind(auditLease).
				Add(")")
			if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
				return err
			}
			for _, r := range rows {
				at[r.Name] = r.At
			}
			return nil
		},
	)
	return at, err
}

// PendingAudit reads along the primary key, and takes no locks. Entries that are dated in the future
// have a number that is older than that of an entry behind them, so they are old enough if that is.
func (s *Audit) PendingAudit(
	ctx context.Context,
	after int64,
	delay time.Duration,
	limit int,
) (entries []store.AuditEntry, err error) {
	now, err := s.db.Now(ctx)
	if err != nil {
		return nil, err
	}
	boundMS := now.Add(-delay).UnixMilli()
	err = s.db.Read(
		ctx,
		"reading the audit feed",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			entries = nil
			rows := make([]auditRow, 0, limit)
			q := sqldb.Stmt(
				"SELECT seq," + Columns + " FROM audit_log" + s.db.Dialect.ByPrimary + " WHERE seq>",
			).
				Int(after).
				Add(" ORDER BY seq LIMIT ").
				Int(int64(limit))
			if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
				return err
			}
			ids := make([]int64, len(rows))
			for i := range rows {
				ids[i] = rows[i].AppID
			}
			names, err := s.apps.Names(ctx, c, ids)
			if err != nil {
				return err
			}
			n, err := s.oldEnough(ctx, c, rows, now.UnixMilli(), boundMS)
			if err != nil {
				return err
			}
			for i := range rows[:n] {
				entries = append(entries, rows[i].entry(names[rows[i].AppID]))
			}
			return nil
		},
	)
	return entries, err
}

// oldEnough returns how many entries of a page, from the first on, are not younger than boundMS. A
// clock that was far ahead for a moment dates entries in the future.
func (s *Audit) oldEnough(
	ctx context.Context, c sqlx.QueryerContext, rows []auditRow, nowMS, boundMS int64,
) (n int, err error) {
	for i := range rows {
		switch at := rows[i].AtMS; {
		case at <= boundMS:
			n = i + 1
		case at <= nowMS:
			return n, nil
		}
	}
	if n == len(rows) {
		return n, nil
	}
	var behind []int64 // the page ends with entries of the future
	q := sqldb.Stmt("SELECT changed_ms FROM audit_log" + s.db.Dialect.ByPrimary + " WHERE seq>").
		Int(rows[len(rows)-1].Seq).
		Add(" AND changed_ms<=").
		Int(nowMS).
		Add(" ORDER BY seq LIMIT 1")
	err = s.db.SelectAll(ctx, c, &behind, q)
	if len(behind) > 0 && behind[0] <= boundMS {
		n = len(rows)
	}
	return n, err
}

// AckAudit moves the position forward only, so that it may be repeated, and may come late.
func (s *Audit) AckAudit(ctx context.Context, seq int64) error {
	_, err := s.db.Autocommit(ctx, "advancing the audit feed", func() *sqldb.Statement {
		return sqldb.Stmt("UPDATE cursors SET minute=").
			Int(seq).
			Add(" WHERE name=").
			Bind(auditCursor).
			Add(" AND minute<").
			Int(seq)
	})
	return err
}
