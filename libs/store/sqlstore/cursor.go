package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"
)

// cursorName is the one cursor that there is.
const cursorName = "slices"

// maxAdvance is how many minutes one call of AdvanceCursor looks at: a day and some.
const maxAdvance = 1500

// Cursor returns where the cursor stands; the first call ever puts it.
func (s *Store) Cursor(ctx context.Context, minute int64) (int64, error) {
	at, found, err := s.readCursor(ctx)
	if err != nil || found {
		return at, err
	}
	_, err = s.alone(ctx, "setting the cursor", func() *statement {
		return stmt(
			"INSERT INTO cursors (name,minute) VALUES (",
		).bind(cursorName).
			add(",").
			int(minute).
			add(")").
			add(s.dialect.nothing("name"))
	})
	if err != nil {
		return 0, err
	}
	at, _, err = s.readCursor(ctx)
	return at, err
}

func (s *Store) readCursor(ctx context.Context) (at int64, found bool, err error) {
	err = s.read(ctx, "reading the cursor", func(ctx context.Context, c sqlx.QueryerContext) error {
		err := s.selectOne(
			ctx,
			c,
			&at,
			stmt("SELECT minute FROM cursors WHERE name=").bind(cursorName),
		)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		found = err == nil
		return err
	})
	return at, found, err
}

// AdvanceCursor needs no lock: that a minute is frozen and its slices are done is never undone, so
// what was seen still holds when the cursor is written, and the write is conditional on moving
// forward.
func (s *Store) AdvanceCursor(ctx context.Context, limit int64) (int64, error) {
	at, found, err := s.readCursor(ctx)
	if err != nil || !found {
		return at, err
	}
	to := at
	err = s.read(
		ctx,
		"reading finished minutes",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			until := min(limit, at+maxAdvance)
			var rows []struct {
				Minute  int64 `db:"minute"`
				Buckets int64 `db:"buckets"`
				Done    int64 `db:"done"`
			}
			q := stmt(
				"SELECT m.minute,m.buckets,COUNT(s.bucket) AS done FROM minutes m LEFT JOIN slices s ON s.minute=m.minute AND " +
					"s.done=1 WHERE m.frozen=1 AND m.minute>=",
			).int(at).
				add(" AND m.minute<").
				int(until).
				add(" GROUP BY m.minute,m.buckets ORDER BY m.minute")
			if err := s.selectAll(ctx, c, &rows, q); err != nil {
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
	_, err = s.alone(ctx, "advancing the cursor", func() *statement {
		return stmt(
			"UPDATE cursors SET minute=",
		).int(to).
			add(" WHERE name=").
			bind(cursorName).
			add(" AND minute<").
			int(to)
	})
	if err != nil {
		return 0, err
	}
	// Another process may have moved it further.
	at, _, err = s.readCursor(ctx)
	return at, err
}

// SliceBacklog counts from the cursor on: behind it all slices are done.
func (s *Store) SliceBacklog(ctx context.Context) (n int64, err error) {
	at, _, err := s.readCursor(ctx)
	if err != nil {
		return 0, err
	}
	err = s.read(ctx, "counting slices", func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.selectOne(
			ctx,
			c,
			&n,
			stmt(
				"SELECT COUNT(*) FROM slices WHERE minute>=",
			).int(at).
				add(" AND done=0 AND token>0"),
		)
	})
	return n, err
}
