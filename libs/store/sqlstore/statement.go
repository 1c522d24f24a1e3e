package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/timer"
)

// statement builds the text of one SQL statement. It writes whole numbers into the text: they
// cannot contain SQL, and a batch has thousands, each of which would be boxed as an argument. All
// other values are bound.
//
// A prepared statement binds whole numbers too, so that its text is always the same.
type statement struct {
	text     []byte
	args     []any
	prepared bool
}

// stmt begins a statement. The text must come from the program, not from a caller.
func stmt(text string) *statement { return &statement{text: append(make([]byte, 0, 256), text...)} }

func (q *statement) add(text string) *statement {
	q.text = append(q.text, text...)
	return q
}

func (q *statement) int(n int64) *statement {
	if q.prepared {
		return q.bind(n)
	}
	q.text = strconv.AppendInt(q.text, n, 10)
	return q
}

// bind adds a placeholder for a text or bytes.
func (q *statement) bind(v any) *statement {
	q.text = append(q.text, '?')
	q.args = append(q.args, v)
	return q
}

// row adds "(a,b,…)", after a comma unless it is the first row.
func (q *statement) row(first bool, ns ...int64) *statement {
	return q.open(first).ints(ns...).add(")")
}

// open begins a row that the caller completes.
func (q *statement) open(first bool) *statement {
	if !first {
		q.text = append(q.text, ',')
	}
	q.text = append(q.text, '(')
	return q
}

// ints adds "a,b,…".
func (q *statement) ints(ns ...int64) *statement {
	for i, n := range ns {
		if i > 0 {
			q.text = append(q.text, ',')
		}
		q.int(n)
	}
	return q
}

// idList adds " IN (a,b,…)". ids must not be empty.
func (q *statement) idList(ids []timer.ID) *statement {
	q.add(" IN (")
	for i, id := range ids {
		if i > 0 {
			q.add(",")
		}
		q.int(int64(id))
	}
	return q.add(")")
}

// runner is a connection, a transaction or a pool.
type runner = engine.Runner

// exec runs a statement and returns the number of matched rows. On both dialects this includes rows
// that an UPDATE left as they were. "All rows matched" therefore means that all have the new
// values.
func (s *Store) exec(ctx context.Context, c sqlx.ExecerContext, q *statement) (int64, error) {
	s.watch(q)
	text := string(q.text)
	run := c.ExecContext
	if p, ok := c.(engine.Preparer); ok && q.prepared {
		run = p.ExecPrepared
	}
	res, err := run(ctx, text, q.args...)
	if err != nil {
		//nolint:wrapcheck // translated with what was being done, by read, write and alone
		return 0, err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("counting rows: %w", err)
	}
	return n, nil
}

// selectAll reads all rows into dest, a pointer to a slice of structs with db tags or of a plain
// type.
func (s *Store) selectAll(
	ctx context.Context,
	c sqlx.QueryerContext,
	dest any,
	q *statement,
) error {
	s.watch(q)
	return sqlx.SelectContext(ctx, c, dest, string(q.text), q.args...) //nolint:wrapcheck // as exec
}

// selectOne reads one row into dest. It returns sql.ErrNoRows if there is none.
func (s *Store) selectOne(
	ctx context.Context,
	c sqlx.QueryerContext,
	dest any,
	q *statement,
) error {
	s.watch(q)
	return sqlx.GetContext(ctx, c, dest, string(q.text), q.args...) //nolint:wrapcheck // as exec
}

// query reads rows without reflection. The caller closes them.
func (s *Store) query(
	ctx context.Context,
	c sqlx.QueryerContext,
	q *statement,
) (*sql.Rows, error) {
	s.watch(q)
	return c.QueryContext(ctx, string(q.text), q.args...) //nolint:wrapcheck // as exec
}

func (s *Store) watch(q *statement) {
	if s.onStatement != nil {
		s.onStatement(string(q.text))
	}
}

// batches cuts a list into parts of at most store.MaxBatch.
func batches[T any](all []T) func(yield func([]T) bool) {
	return slices.Chunk(all, store.MaxBatch)
}

// insertBlocks cuts rows to insert into parts, and begins the statement of each. SQLite spends as
// much time on the text of an INSERT as on its rows. Parts of a few sizes therefore have a prepared
// statement there, and only a small rest has none.
func insertBlocks[T any](
	d *dialect,
	all []T,
	text string,
) func(yield func(*statement, []T) bool) {
	return func(yield func(*statement, []T) bool) {
		for len(all) > 0 {
			q, n := stmt(text), min(len(all), store.MaxBatch)
			for _, rows := range d.preparedRows {
				if rows <= len(all) {
					n, q.prepared = rows, true
					break
				}
			}
			if !yield(q, all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// literal adds a text as a literal if it has only the characters of the program's own words, and
// binds it otherwise.
func (q *statement) literal(text string) *statement {
	if q.prepared {
		return q.bind(text)
	}
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && c != '_' {
			return q.bind(text)
		}
	}
	return q.add("'").add(text).add("'")
}

// maxStatementBytes is the largest size of the texts in one statement. A definition can be larger
// than a megabyte, and servers accept packets of 16 MB by default.
const maxStatementBytes = 4 << 20
