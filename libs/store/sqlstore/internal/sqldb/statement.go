package sqldb

import (
	"bytes"
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

// maxBound is how many whole numbers of a statement that is not Prepared are bound where texts are
// kept prepared. Longer texts are batches, each of another length.
const maxBound = 32

// Statement builds the text of one SQL statement. It writes whole numbers into the text: they
// cannot contain SQL, and a batch has thousands, each of which would be boxed as an argument. All
// other values are bound.
//
// Where texts are kept prepared, a statement with few whole numbers binds them when it is run, and
// a Prepared one binds all, so that its text is always the same.
type Statement struct {
	Text     []byte
	Args     []any
	Prepared bool

	numbers []number // in Text: the first maxBound, and one more if there are more
}

// limitIs comes before a number that is not bound: SQLite would plan the statement anew each time.
var limitIs = []byte(" LIMIT ")

// number is a whole number in the text of a statement.
type number struct {
	n        int64
	from, to int // in Text
	args     int // Args before it
}

// Stmt begins a statement. The text must come from the program, not from a caller.
func Stmt(text string) *Statement { return &Statement{Text: append(make([]byte, 0, 256), text...)} }

// Add adds a text of the program.
func (q *Statement) Add(text string) *Statement {
	q.Text = append(q.Text, text...)
	return q
}

// Append adds another statement.
func (q *Statement) Append(part *Statement) *Statement {
	for _, n := range part.numbers {
		if len(q.numbers) > maxBound {
			break
		}
		n.from += len(q.Text)
		n.to += len(q.Text)
		n.args += len(q.Args)
		q.numbers = append(q.numbers, n)
	}
	q.Text = append(q.Text, part.Text...)
	q.Args = append(q.Args, part.Args...)
	return q
}

// Int adds a whole number.
func (q *Statement) Int(n int64) *Statement {
	if q.Prepared {
		return q.Bind(n)
	}
	from := len(q.Text)
	q.Text = strconv.AppendInt(q.Text, n, 10)
	if len(q.numbers) <= maxBound && !bytes.HasSuffix(q.Text[:from], limitIs) {
		q.numbers = append(q.numbers, number{n, from, len(q.Text), len(q.Args)})
	}
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
	ctx, text, args := s.render(ctx, q)
	res, err := c.ExecContext(ctx, text, args...)
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
	ctx, text, args := s.render(ctx, q)
	return sqlx.SelectContext(ctx, c, dest, text, args...) //nolint:wrapcheck // as exec
}

// SelectOne reads one row into dest. It returns sql.ErrNoRows if there is none.
func (s *DB) SelectOne(
	ctx context.Context,
	c sqlx.QueryerContext,
	dest any,
	q *Statement,
) error {
	ctx, text, args := s.render(ctx, q)
	return sqlx.GetContext(ctx, c, dest, text, args...) //nolint:wrapcheck // as exec
}

// Query reads rows without reflection. The caller closes them.
func (s *DB) Query(
	ctx context.Context,
	c sqlx.QueryerContext,
	q *Statement,
) (*sql.Rows, error) {
	ctx, text, args := s.render(ctx, q)
	return c.QueryContext(ctx, text, args...) //nolint:wrapcheck // as exec
}

// render returns what runs a statement, and calls OnStatement.
func (s *DB) render(ctx context.Context, q *Statement) (context.Context, string, []any) {
	text, args := string(q.Text), q.Args
	if s.Dialect.KeepsPrepared && !q.Prepared {
		if len(q.numbers) > maxBound {
			ctx = engine.Once(ctx)
		} else {
			text, args = q.bound()
		}
	}
	s.watch(text)
	return ctx, text, args
}

// bound returns the statement with its numbers bound.
func (q *Statement) bound() (text string, args []any) {
	made := make([]byte, 0, len(q.Text))
	args = make([]any, 0, len(q.Args)+len(q.numbers))
	var last number
	for _, n := range q.numbers {
		made = append(append(made, q.Text[last.to:n.from]...), '?')
		args = append(append(args, q.Args[last.args:n.args]...), n.n)
		last = n
	}
	return string(append(made, q.Text[last.to:]...)), append(args, q.Args[last.args:]...)
}

// Watch calls OnStatement, for a statement that none of the methods above runs.
func (s *DB) Watch(q *Statement) { s.watch(string(q.Text)) }

func (s *DB) watch(text string) {
	if s.OnStatement != nil {
		s.OnStatement(text)
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
