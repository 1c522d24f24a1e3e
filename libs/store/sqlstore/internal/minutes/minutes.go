package minutes

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// GrowMinutes writes each minute in a statement of its own, so no row lock lasts longer and no two
// processes deadlock. A repeated call counts an estimate twice, which costs a bucket at most. A
// returned count is committed: a bucket below it belongs to a slice that will be claimed.
func (s *Minutes) GrowMinutes(
	ctx context.Context,
	grow []slicing.Growth,
) ([]slicing.MinuteCount, error) {
	if len(grow) == 0 {
		return nil, nil
	}
	if err := s.grow(ctx, grow); err != nil {
		return nil, err
	}
	minutes := make([]int64, len(grow))
	for i, g := range grow {
		minutes[i] = g.Minute
	}
	var out []slicing.MinuteCount
	err := s.db.Read(
		ctx,
		"reading bucket counts",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			for part := range sqldb.Batches(minutes) {
				rows, err := s.minutes(ctx, c, sqldb.Stmt("minute IN (").Ints(part...).Add(")"))
				if err != nil {
					return err
				}
				out = append(out, rows...)
			}
			return nil
		},
	)
	return out, err
}

// grow writes each minute by itself, or all in one transaction if the database has one writer.
func (s *Minutes) grow(ctx context.Context, grow []slicing.Growth) error {
	if s.db.Dialect.SingleWriter {
		return s.db.Write(
			ctx,
			"raising bucket counts",
			func(ctx context.Context, c sqldb.Runner) error {
				for _, g := range grow {
					if _, err := s.db.Exec(ctx, c, s.growth(g)); err != nil {
						return err
					}
				}
				return nil
			},
		)
	}
	for _, g := range grow {
		if _, err := s.db.Autocommit(
			ctx,
			"raising a bucket count",
			func() *sqldb.Statement { return s.growth(g) },
		); err != nil {
			return err
		}
	}
	return nil
}

func (s *Minutes) growth(g slicing.Growth) *sqldb.Statement {
	d := s.db.Dialect
	return sqldb.Stmt("INSERT INTO minutes (minute,buckets,estimated_fires,frozen) VALUES ").
		Row(true, g.Minute, max(int64(g.Buckets), 1), g.Added, 0).Add(d.OnConflictUpdate("minute") +
		"estimated_fires=minutes.estimated_fires+" + d.Value("estimated_fires") + ",buckets=CASE WHEN minutes.frozen=0 THEN " +
		d.Greatest + "(minutes.buckets," + d.Value("buckets") + ") ELSE minutes.buckets END")
}

// MinuteCounts returns the counts of minutes that have a row. The others have one bucket.
func (s *Minutes) MinuteCounts(
	ctx context.Context,
	from, to int64,
) (out []slicing.MinuteCount, err error) {
	err = s.db.Read(
		ctx,
		"reading bucket counts",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			out, err = s.minutes(
				ctx,
				c,
				sqldb.Stmt("minute>=").Int(from).Add(" AND minute<=").Int(to),
			)
			return err
		},
	)
	return out, err
}

func (s *Minutes) minutes(
	ctx context.Context,
	c sqlx.QueryerContext,
	where *sqldb.Statement,
) ([]slicing.MinuteCount, error) {
	var rows []struct {
		Minute   int64 `db:"minute"`
		Buckets  int32 `db:"buckets"`
		Estimate int64 `db:"estimated_fires"`
		Frozen   bool  `db:"frozen"`
	}
	q := sqldb.Stmt(
		"SELECT minute,buckets,estimated_fires,frozen FROM minutes WHERE ",
	).Append(where).
		Add(" ORDER BY minute")
	if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
		return nil, err
	}
	out := make([]slicing.MinuteCount, len(rows))
	for i, r := range rows {
		out[i] = slicing.MinuteCount(r)
	}
	return out, nil
}

// FreezeMinute freezes with one statement and reads the count with the next. Once frozen, the count
// is the same for every reader.
func (s *Minutes) FreezeMinute(ctx context.Context, minute int64) (buckets int32, err error) {
	_, err = s.db.Autocommit(ctx, "freezing a minute", func() *sqldb.Statement {
		return sqldb.Stmt(
			"INSERT INTO minutes (minute,buckets,estimated_fires,frozen) VALUES ",
		).Row(true, minute, 1, 0, 1).
			Add(s.db.Dialect.OnConflictUpdate("minute") + "frozen=1")
	})
	if err != nil {
		return 0, err
	}
	err = s.db.Read(
		ctx,
		"reading a bucket count",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			return s.db.SelectOne(
				ctx,
				c,
				&buckets,
				sqldb.Stmt("SELECT buckets FROM minutes WHERE minute=").Int(minute),
			)
		},
	)
	return buckets, err
}
