package sqldb

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

// Statement builds the text of one SQL statement. It writes whole numbers into the text: they
// cannot contain SQL, and a batch has thousands, each of which would be boxed as an argument. All
// other values are bound.
//
// A prepared statement binds whole numbers too, so that its text is always the same.
type Statement struct {
	Text     []byte
	Args     []any
	Prepared bool
}

// Stmt begins a statement. The text must come from the program, not from a caller.
func Stmt(text string) *Statement { return &Statement{Text: append(make([]byte, 0, 256), text...)} }

// Add adds a text of the program.
func (q *Statement) Add(text string) *Statement {
	q.Text = append(q.Text, text...)
	return q
}

// Int adds a whole number.
func (q *Statement) Int(n int64) *Statement {
	if q.Prepared {
		return q.Bind(n)
	}
	q.Text = strconv.AppendInt(q.Text, n, 10)
	return q
}

// Bind adds a placeholder for a text or bytes.
func (q *Statement) Bind(v any) *Statement {
	q.Text = append(q.Text, '?')
	q.Args = append(q.Args, v)
	return q
}

// Row adds "(a,b,…)", after a comma unless it is the first row.
func (q *Statement) Row(first bool, ns ...int64) *Statement {
	return q.Open(first).Ints(ns...).Add(")")
}

// Open begins a row that the caller completes.
func (q *Statement) Open(first bool) *Statement {
	if !first {
		q.Text = append(q.Text, ',')
	}
	q.Text = append(q.Text, '(')
	return q
}

// Ints adds "a,b,…".
func (q *Statement) Ints(ns ...int64) *Statement {
	for i, n := range ns {
		if i > 0 {
			q.Text = append(q.Text, ',')
		}
		q.Int(n)
	}
	return q
}

// IDList adds " IN (a,b,…)". ids must not be empty.
func (q *Statement) IDList(ids []timer.ID) *Statement {
	q.Add(" IN (")
	for i, id := range ids {
		if i > 0 {
			q.Add(",")
		}
		q.Int(int64(id))
	}
	return q.Add(")")
}

// Runner is a connection, a transaction or a pool.
type Runner = engine.Runner

// Exec runs a statement and returns the number of matched rows. On both dialects this includes rows
// that an UPDATE left as they were. "All rows matched" therefore means that all have the new
// values.
func (s *DB) Exec(ctx context.Context, c sqlx.ExecerContext, q *Statement) (int64, error) {
	s.Watch(q)
	text := string(q.Text)
	run := c.ExecContext
	if p, ok := c.(engine.Preparer); ok && q.Prepared {
		run = p.ExecPrepared
	}
	res, err := run(ctx, text, q.Args...)
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

// SelectAll reads all rows into dest, a pointer to a slice of structs with db tags or of a plain
// type.
func (s *DB) SelectAll(
	ctx context.Context,
	c sqlx.QueryerContext,
	dest any,
	q *Statement,
) error {
	s.Watch(q)
	return sqlx.SelectContext(ctx, c, dest, string(q.Text), q.Args...) //nolint:wrapcheck // as exec
}

// SelectOne reads one row into dest. It returns sql.ErrNoRows if there is none.
func (s *DB) SelectOne(
	ctx context.Context,
	c sqlx.QueryerContext,
	dest any,
	q *Statement,
) error {
	s.Watch(q)
	return sqlx.GetContext(ctx, c, dest, string(q.Text), q.Args...) //nolint:wrapcheck // as exec
}

// Query reads rows without reflection. The caller closes them.
func (s *DB) Query(
	ctx context.Context,
	c sqlx.QueryerContext,
	q *Statement,
) (*sql.Rows, error) {
	s.Watch(q)
	return c.QueryContext(ctx, string(q.Text), q.Args...) //nolint:wrapcheck // as exec
}

// Watch calls OnStatement, for a statement that none of the methods above runs.
func (s *DB) Watch(q *Statement) {
	if s.OnStatement != nil {
		s.OnStatement(string(q.Text))
	}
}

// Batches cuts a list into parts of at most store.MaxBatch.
func Batches[T any](all []T) func(yield func([]T) bool) {
	return slices.Chunk(all, store.MaxBatch)
}

// InsertBlocks cuts rows to insert into parts, and begins the statement of each. SQLite spends as
// much time on the text of an INSERT as on its rows. Parts of a few sizes therefore have a prepared
// statement there, and only a small rest has none.
func InsertBlocks[T any](
	d *Dialect,
	all []T,
	text string,
) func(yield func(*Statement, []T) bool) {
	return func(yield func(*Statement, []T) bool) {
		for len(all) > 0 {
			q, n := Stmt(text), min(len(all), store.MaxBatch)
			for _, rows := range d.PreparedRows {
				if rows <= len(all) {
					n, q.Prepared = rows, true
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

// Literal adds a text as a literal if it has only the characters of the program's own words, and
// binds it otherwise.
func (q *Statement) Literal(text string) *Statement {
	if q.Prepared {
		return q.Bind(text)
	}
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && c != '_' {
			return q.Bind(text)
		}
	}
	return q.Add("'").Add(text).Add("'")
}

// MaxStatementBytes is the largest size of the texts in one statement. A definition can be larger
// than a megabyte, and servers accept packets of 16 MB by default.
const MaxStatementBytes = 4 << 20
