package sqldb

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
)

const (
	deleteChunk  = 1000 // rows of one DELETE: keeps transactions and locks short
	deleteChunks = 200  // for one table in one call, so that other tables get their turn
)

// DeleteAll deletes matching rows in chunks, up to deleteChunks. If more may be left, the error is
// store.ErrMoreExpired, and the next call continues.
func (s *DB) DeleteAll(ctx context.Context, table, key, order string, where *Statement) error {
	for range deleteChunks {
		n, err := s.Autocommit(ctx, "trimming "+table, func() *Statement {
			return s.Dialect.DeleteUpTo(table, key, order, string(where.Text), deleteChunk)
		})
		if err != nil || n < deleteChunk {
			return err
		}
	}
	return store.ErrMoreExpired
}

// DeleteOld deletes the rows of a log that were changed before an instant, like DeleteAll. The log
// has the columns seq, by which it grows, and changed_ms, on which it has no index: so it is read
// from its front on, a chunk at a time, up to the first row to keep. Rows that took an early sequence
// and are committed late are left to a later call. keepLast keeps the last of the rows that are old: a
// reader that knew it until a moment ago finds it again, and so knows that the log is the same. Of two
// calls at once, each deletes what the other has not.
func (s *DB) DeleteOld(ctx context.Context, table string, boundMS int64, keepLast bool) error {
	after := int64(0)
	for range deleteChunks {
		var rows []struct {
			Seq       int64 `db:"seq"`
			ChangedMS int64 `db:"changed_ms"`
		}
		err := s.Read(
			ctx,
			"reading "+table,
			func(ctx context.Context, c sqlx.QueryerContext) error {
				rows = nil
				q := Stmt(
					"SELECT seq,changed_ms FROM " + table + s.Dialect.ByPrimary + " WHERE seq>",
				)
				q.Int(after).Add(" ORDER BY seq LIMIT ").Int(deleteChunk + 1)
				return s.SelectAll(ctx, c, &rows, q)
			},
		)
		if err != nil {
			return err
		}
		n := 0
		for n < len(rows) && rows[n].ChangedMS < boundMS {
			n++
		}
		if keepLast {
			n--
		}
		if n = min(n, deleteChunk); n <= 0 {
			return nil
		}
		last := rows[n-1].Seq
		_, err = s.Autocommit(ctx, "trimming "+table, func() *Statement {
			where := Stmt("seq<=").Int(last).Add(" AND changed_ms<").Int(boundMS)
			return s.Dialect.DeleteUpTo(table, "seq", "seq", string(where.Text), deleteChunk)
		})
		if err != nil || n < deleteChunk {
			return err
		}
		after = last
	}
	return store.ErrMoreExpired
}
