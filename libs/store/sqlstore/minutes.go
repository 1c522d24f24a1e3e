package sqlstore

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/slicing"
)

// GrowMinutes writes each minute in a statement of its own, so no row lock lasts longer and no two
// processes deadlock. A repeated call counts an estimate twice, which costs a bucket at most. A
// returned count is committed: a bucket below it belongs to a slice that will be claimed.
func (s *Store) GrowMinutes(
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
	err := s.read(
		ctx,
		"reading bucket counts",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			for part := range batches(minutes) {
				rows, err := s.minutes(ctx, c, stmt("minute IN (").ints(part...).add(")"))
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
func (s *Store) grow(ctx context.Context, grow []slicing.Growth) error {
	if s.dialect.singleWriter {
		return s.write(ctx, "raising bucket counts", func(ctx context.Context, c runner) error {
			for _, g := range grow {
				if _, err := s.exec(ctx, c, s.growth(g)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, g := range grow {
		if _, err := s.autocommit(
			ctx,
			"raising a bucket count",
			func() *statement { return s.growth(g) },
		); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) growth(g slicing.Growth) *statement {
	d := s.dialect
	return stmt("INSERT INTO minutes (minute,buckets,estimated_fires,frozen) VALUES ").
		row(true, g.Minute, max(int64(g.Buckets), 1), g.Added, 0).add(d.onConflictUpdate("minute") +
		"estimated_fires=minutes.estimated_fires+" + d.value("estimated_fires") + ",buckets=CASE WHEN minutes.frozen=0 THEN " +
		d.greatest + "(minutes.buckets," + d.value("buckets") + ") ELSE minutes.buckets END")
}

// MinuteCounts returns the counts of minutes that have a row. The others have one bucket.
func (s *Store) MinuteCounts(
	ctx context.Context,
	from, to int64,
) (out []slicing.MinuteCount, err error) {
	err = s.read(
		ctx,
		"reading bucket counts",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			out, err = s.minutes(ctx, c, stmt("minute>=").int(from).add(" AND minute<=").int(to))
			return err
		},
	)
	return out, err
}

func (s *Store) minutes(
	ctx context.Context,
	c sqlx.QueryerContext,
	where *statement,
) ([]slicing.MinuteCount, error) {
	var rows []struct {
		Minute   int64 `db:"minute"`
		Buckets  int32 `db:"buckets"`
		Estimate int64 `db:"estimated_fires"`
		Frozen   bool  `db:"frozen"`
	}
	q := stmt(
		"SELECT minute,buckets,estimated_fires,frozen FROM minutes WHERE ",
	).add(string(where.text)).
		add(" ORDER BY minute")
	if err := s.selectAll(ctx, c, &rows, q); err != nil {
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
func (s *Store) FreezeMinute(ctx context.Context, minute int64) (buckets int32, err error) {
	_, err = s.autocommit(ctx, "freezing a minute", func() *statement {
		return stmt(
			"INSERT INTO minutes (minute,buckets,estimated_fires,frozen) VALUES ",
		).row(true, minute, 1, 0, 1).
			add(s.dialect.onConflictUpdate("minute") + "frozen=1")
	})
	if err != nil {
		return 0, err
	}
	err = s.read(
		ctx,
		"reading a bucket count",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			return s.selectOne(
				ctx,
				c,
				&buckets,
				stmt("SELECT buckets FROM minutes WHERE minute=").int(minute),
			)
		},
	)
	return buckets, err
}
