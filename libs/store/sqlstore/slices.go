package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// ClaimSlices locks slices and skips those that others have locked, so two callers at once get
// different ones. If a caller dies before it publishes, its leases expire.
func (s *Store) ClaimSlices(
	ctx context.Context, minute int64, buckets int32, lease time.Duration, limit int,
) (claims []store.SliceClaim, err error) {
	err = s.write(ctx, "claiming slices", func(ctx context.Context, c runner) error {
		claims = nil
		if err := s.makeSlices(ctx, c, minute, buckets); err != nil {
			return err
		}
		var rows []struct {
			Bucket int32 `db:"bucket"`
			Token  int64 `db:"token"`
		}
		q := stmt(
			"SELECT bucket,token FROM slices WHERE minute=",
		).int(minute).
			add(" AND done=0 AND lease_until_ms<=").
			nowMS(s.dialect).
			add(" ORDER BY bucket LIMIT ").
			int(int64(limit)).
			add(s.skipLocked())
		if err := s.selectAll(ctx, c, &rows, q); err != nil || len(rows) == 0 {
			return err
		}
		taken := make([]int64, len(rows))
		for i, r := range rows {
			taken[i] = int64(r.Bucket)
			claims = append(
				claims,
				store.SliceClaim{Minute: minute, Bucket: r.Bucket, Token: r.Token + 1},
			)
		}
		_, err := s.exec(
			ctx,
			c,
			stmt(
				"UPDATE slices"+s.dialect.byPrimary+" SET token=token+1,lease_holder=0,lease_until_ms=",
			).nowMS(s.dialect).
				add("+").
				int(lease.Milliseconds()).
				add(" WHERE minute=").
				int(minute).
				add(" AND bucket IN (").
				ints(taken...).
				add(")"),
		)
		return err
	})
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// makeSlices inserts missing rows, most often none. Of two calls at once, the second changes
// nothing.
func (s *Store) makeSlices(ctx context.Context, c runner, minute int64, buckets int32) error {
	var have []int32
	if err := s.selectAll(
		ctx,
		c,
		&have,
		stmt("SELECT bucket FROM slices WHERE minute=").int(minute),
	); err != nil {
		return err
	}
	if len(have) >= int(buckets) {
		return nil
	}
	q := stmt("INSERT INTO slices (minute,bucket,token,lease_until_ms,lease_holder,done) VALUES ")
	first := true
	for b := range buckets {
		if !slices.Contains(have, b) {
			q.row(first, minute, int64(b), 0, 0, 0, 0)
			first = false
		}
	}
	if first {
		return nil
	}
	_, err := s.exec(ctx, c, q.add(s.dialect.onConflictNothing("minute")))
	return err
}

// AcquireSlice takes the slice over from another holder of the same token. The message was then
// delivered twice, and the later delivery works.
func (s *Store) AcquireSlice(
	ctx context.Context,
	sc store.SliceClaim,
	holder timer.ID,
	lease time.Duration,
	free bool,
) (bool, error) {
	n, err := s.urgent(ctx, "acquiring a slice", func() *statement {
		q := ofSlice(stmt(
			"UPDATE slices"+s.dialect.byPrimary+" SET lease_holder=",
		).int(int64(holder)).
			add(",lease_until_ms=").
			nowMS(s.dialect).
			add("+").
			int(lease.Milliseconds()), sc).
			add(" AND done=0")
		if free {
			// The holder itself is allowed: the answer to its first try may be lost.
			q.add(" AND lease_holder IN (0,").int(int64(holder)).add(")")
		}
		return q
	})
	return n == 1, err
}

// slice adds the condition that the claim is the latest one of its slice.
func ofSlice(q *statement, c store.SliceClaim) *statement {
	return q.add(" WHERE minute=").
		int(c.Minute).
		add(" AND bucket=").
		int(int64(c.Bucket)).
		add(" AND token=").
		int(c.Token)
}

// RenewSlices renews with one statement. It reads the rows only if fewer of them matched.
func (s *Store) RenewSlices(
	ctx context.Context, holder timer.ID, claims []store.SliceClaim, lease time.Duration,
) (lost []store.SliceClaim, err error) {
	claims = slices.Clone(claims)
	slices.SortFunc(claims, compareClaims)
	for part := range batches(slices.Compact(claims)) {
		mine := func(q *statement) *statement {
			q.add(" WHERE lease_holder=").int(int64(holder)).add(" AND done=0 AND ")
			if len(part) == 1 {
				return q.equalTo(
					"minute,bucket,token",
					part[0].Minute,
					int64(part[0].Bucket),
					part[0].Token,
				)
			}
			q.add("(minute,bucket,token) IN (" + s.dialect.tuples)
			for i, h := range part {
				q.row(i == 0, h.Minute, int64(h.Bucket), h.Token)
			}
			return q.add(")")
		}
		n, err := s.urgent(ctx, "renewing slices", func() *statement {
			return mine(
				stmt(
					"UPDATE slices" + s.dialect.byPrimary + " SET lease_until_ms=",
				).nowMS(s.dialect).
					add("+").
					int(lease.Milliseconds()),
			)
		})
		if err != nil {
			return nil, err
		}
		if int(n) == len(part) {
			continue
		}
		var rows []sliceRow
		err = s.read(ctx, "reading slices", func(ctx context.Context, c sqlx.QueryerContext) error {
			return s.selectAll(
				ctx,
				c,
				&rows,
				mine(stmt("SELECT minute,bucket,token FROM slices"+s.dialect.byPrimary)),
			)
		})
		if err != nil {
			return nil, err
		}
		for _, h := range part {
			if !slices.Contains(rows, sliceRow(h)) {
				lost = append(lost, h)
			}
		}
	}
	return lost, nil
}

type sliceRow struct {
	Minute int64 `db:"minute"`
	Bucket int32 `db:"bucket"`
	Token  int64 `db:"token"`
}

func compareClaims(a, b store.SliceClaim) int {
	return cmp.Or(
		cmp.Compare(a.Minute, b.Minute),
		cmp.Compare(a.Bucket, b.Bucket),
		cmp.Compare(a.Token, b.Token),
	)
}

// FinishSlice is conditional on the token: the holder of an older one changes no row.
func (s *Store) FinishSlice(ctx context.Context, sc store.SliceClaim) (bool, error) {
	n, err := s.urgent(ctx, "finishing a slice", func() *statement {
		return ofSlice(stmt("UPDATE slices"+s.dialect.byPrimary+" SET done=1"), sc)
	})
	return n == 1, err
}
