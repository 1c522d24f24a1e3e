package sqlstore

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
)

// Rows of cursors: the position of the feed, and when its lease ends.
const (
	auditCursor = "audit"
	auditLease  = "audit_lease"
)

// LeaseAuditFeed takes the lease by one conditional update. Of two calls at once, the second finds
// the new end and changes nothing. A call that dies after it leaves a lease that ends. A call whose
// answer was lost is refused when it is repeated: the lease ends by itself.
func (s *Store) LeaseAuditFeed(
	ctx context.Context,
	lease time.Duration,
) (l store.AuditLease, ok bool, err error) {
	at, err := s.auditCursors(ctx)
	if err != nil {
		return l, false, err
	}
	now, err := s.Now(ctx)
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
func (s *Store) ReleaseAuditFeed(ctx context.Context, l store.AuditLease) error {
	_, err := s.setAuditLease(ctx, l.UntilMS, 0)
	return err
}

func (s *Store) setAuditLease(ctx context.Context, fromMS, toMS int64) (bool, error) {
	n, err := s.autocommit(ctx, "leasing the audit feed", func() *statement {
		return stmt("UPDATE cursors SET minute=").int(toMS).add(" WHERE name=").bind(auditLease).
			add(" AND minute=").int(fromMS)
	})
	return n > 0, err
}

// auditCursors reads the position and the lease. The very first call makes their rows.
func (s *Store) auditCursors(ctx context.Context) (map[string]int64, error) {
	at, err := s.readAuditCursors(ctx)
	if err != nil || len(at) == 2 { //nolint:mnd // the two
		return at, err
	}
	_, err = s.autocommit(ctx, "making the audit feed", func() *statement {
		return stmt("INSERT INTO cursors (name,minute) VALUES (").bind(auditCursor).add(",0),(").
			bind(auditLease).add(",0)").add(s.dialect.onConflictNothing("name"))
	})
	if err != nil {
		return nil, err
	}
	return s.readAuditCursors(ctx)
}

func (s *Store) readAuditCursors(ctx context.Context) (at map[string]int64, err error) {
	err = s.read(
		ctx,
		"reading the audit feed",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var rows []struct {
				Name string `db:"name"`
				At   int64  `db:"minute"`
			}
			at = make(map[string]int64, 2) //nolint:mnd // the two
			q := stmt("SELECT name,minute FROM cursors WHERE name IN (").bind(auditCursor).add(",").
				bind(auditLease).add(")")
			if err := s.selectAll(ctx, c, &rows, q); err != nil {
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

// PendingAudit reads along the primary key, and takes no locks.
func (s *Store) PendingAudit(
	ctx context.Context,
	after int64,
	delay time.Duration,
	limit int,
) (entries []store.AuditEntry, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	boundMS := now.Add(-delay).UnixMilli()
	err = s.read(
		ctx,
		"reading the audit feed",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			entries = nil
			var rows []auditRow
			q := stmt(
				"SELECT seq," + auditColumns + " FROM audit_log" + s.dialect.byPrimary + " WHERE seq>",
			).
				int(after).
				add(" ORDER BY seq LIMIT ").
				int(int64(limit))
			if err := s.selectAll(ctx, c, &rows, q); err != nil {
				return err
			}
			ids := make([]int64, len(rows))
			for i := range rows {
				ids[i] = rows[i].AppID
			}
			names, err := s.appNames(ctx, c, ids)
			if err != nil {
				return err
			}
			for i := range rows {
				if rows[i].AtMS > boundMS {
					break
				}
				entries = append(entries, rows[i].entry(names[rows[i].AppID]))
			}
			return nil
		},
	)
	return entries, err
}

// AckAudit moves the position forward only, so that it may be repeated, and may come late.
func (s *Store) AckAudit(ctx context.Context, seq int64) error {
	_, err := s.autocommit(ctx, "advancing the audit feed", func() *statement {
		return stmt("UPDATE cursors SET minute=").int(seq).add(" WHERE name=").bind(auditCursor).
			add(" AND minute<").int(seq)
	})
	return err
}
