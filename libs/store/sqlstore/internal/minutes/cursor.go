package minutes

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// cursorName is the name of the only cursor.
const cursorName = "slices"

// maxAdvance is how many minutes one call of AdvanceCursor reads: a little more than a day.
const maxAdvance = 1500

// Cursor returns the position of the cursor. The very first call sets it.
func (s *Minutes) Cursor(ctx context.Context, minute int64) (int64, error) {
	at, found, err := s.cursors.Read(ctx)
	if err != nil || found {
		return at, err
	}
	_, err = s.db.Autocommit(ctx, "setting the cursor", func() *sqldb.Statement {
		return sqldb.Stmt(
			"INSERT INTO cursors (name,minute) VALUES (",
		).Bind(cursorName).
			Add(",").
			Int(minute).
			Add(")").
			Add(s.db.Dialect.OnConflictNothing("name"))
	})
	if err != nil {
		return 0, err
	}
	at, _, err = s.cursors.Read(ctx)
	return at, err
}

// Read returns the position of the cursor. found is false before the very first call of Cursor.
func (s *Cursors) Read(ctx context.Context) (at int64, found bool, err error) {
	err = s.db.Read(
		ctx,
		"reading the cursor",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			err := s.db.SelectOne(
				ctx,
				c,
				&at,
				sqldb.Stmt("SELECT minute FROM cursors WHERE name=").Bind(cursorName),
			)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			found = err == nil
			return err
		},
	)
	return at, found, err
}

// AdvanceCursor needs no lock. A minute that is frozen and whose slices are done stays so, and the
// write only moves the cursor forward.
func (s *Minutes) AdvanceCursor(ctx context.Context, limit int64) (int64, error) {
	at, found, err := s.cursors.Read(ctx)
	if err != nil || !found {
		return at, err
	}
	to := at
	err = s.db.Read(
		ctx,
		"reading finished minutes",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			until := min(limit, at+maxAdvance)
			var rows []struct {
				Minute  int64 `db:"minute"`
				Buckets int64 `db:"buckets"`
				Done    int64 `db:"done"`
			}
			q := sqldb.Stmt(
				"SELECT m.minute,m.buckets,COUNT(s.bucket) AS done FROM minutes m LEFT JOIN slices s ON s.minute=m.minute AND " +
					"s.done=1 WHERE m.frozen=1 AND m.minute>=",
			).Int(at).
				Add(" AND m.minute<").
				Int(until).
				Add(" GROUP BY m.minute,m.buckets ORDER BY m.minute")
			if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
				return err
			}
			for _, r := range rows {
				if r.Minute != to || r.Done < r.Buckets {
					break
				}
				to++
			}
			return nil
		},
	)
	if err != nil || to == at {
		return at, err
	}
	_, err = s.db.Autocommit(ctx, "advancing the cursor", func() *sqldb.Statement {
		return sqldb.Stmt(
			"UPDATE cursors SET minute=",
		).Int(to).
			Add(" WHERE name=").
			Bind(cursorName).
			Add(" AND minute<").
			Int(to)
	})
	if err != nil {
		return 0, err
	}
	// Another process may have moved it further.
	at, _, err = s.cursors.Read(ctx)
	return at, err
}

// SliceBacklog counts from the cursor on: all slices before it are done.
func (s *Minutes) SliceBacklog(ctx context.Context) (n int64, err error) {
	at, _, err := s.cursors.Read(ctx)
	if err != nil {
		return 0, err
	}
	err = s.db.Read(ctx, "counting slices", func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.db.SelectOne(
			ctx,
			c,
			&n,
			sqldb.Stmt(
				"SELECT COUNT(*) FROM slices WHERE minute>=",
			).Int(at).
				Add(" AND done=0 AND token>0"),
		)
	})
	return n, err
}
