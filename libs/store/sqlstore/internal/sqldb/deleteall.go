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
// and are committed late are left to a later call.
//
// Rows that are dated later than nowMS stay, and what is behind them is deleted: the clock was ahead
// when they were written, so their dates tell nothing about the rows behind them. A row that commits
// late is not among them, as it has the date of its own transaction.
//
// keepLast keeps the last of the rows that are old: a reader that knew it until a moment ago finds it
// again, and so knows that the log is the same. Of two calls at once, each deletes what the other has
// not.
func (s *DB) DeleteOld(
	ctx context.Context, table string, nowMS, boundMS int64, keepLast bool,
) error {
	after := int64(0)
	for chunks := 0; chunks < deleteChunks; {
		rows, err := s.logRows(ctx, table, after)
		if err != nil {
			return err
		}
		old, more := oldRows(rows, nowMS, boundMS, keepLast)
		if len(old) > 0 {
			where := string(Stmt("seq<=").Int(old[len(old)-1]).
				Add(" AND changed_ms<").Int(boundMS).Text)
			_, err := s.Autocommit(ctx, "trimming "+table, func() *Statement {
				return s.Dialect.DeleteUpTo(table, "seq", "seq", where, deleteChunk)
			})
			if err != nil {
				return err
			}
			chunks++
		}
		if !more {
			return nil
		}
		after = rows[deleteChunk-1].Seq
	}
	return store.ErrMoreExpired
}

// logRow is a row of a log.
type logRow struct {
	Seq       int64 `db:"seq"`
	ChangedMS int64 `db:"changed_ms"`
}

// logRows reads a chunk of a log, and the row behind it.
func (s *DB) logRows(ctx context.Context, table string, after int64) (rows []logRow, err error) {
	err = s.Read(ctx, "reading "+table, func(ctx context.Context, c sqlx.QueryerContext) error {
		rows = nil
		q := Stmt("SELECT seq,changed_ms FROM " + table + s.Dialect.ByPrimary + " WHERE seq>")
		q.Int(after).Add(" ORDER BY seq LIMIT ").Int(deleteChunk + 1)
		return s.SelectAll(ctx, c, &rows, q)
	})
	return rows, err
}

// oldRows returns the rows of a chunk to delete, and whether there may be others behind the chunk.
func oldRows(rows []logRow, nowMS, boundMS int64, keepLast bool) (seqs []int64, more bool) {
	more = len(rows) > deleteChunk
	for i := range rows {
		if at := rows[i].ChangedMS; at < boundMS {
			seqs = append(seqs, rows[i].Seq)
		} else if at <= nowMS {
			more = false
			break
		}
	}
	if keepLast && len(seqs) > 0 {
		seqs = seqs[:len(seqs)-1]
	}
	return seqs[:min(len(seqs), deleteChunk)], more
}
