package minutes

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// ClaimSlices locks slices and skips those that others have locked, so two callers at once get
// different ones. If a caller dies before it publishes, its leases expire. It first reads whether
// there is a slice to claim, because most calls find none.
func (s *Minutes) ClaimSlices(
	ctx context.Context, minute int64, buckets int32, lease time.Duration, limit int,
) (claims []store.SliceClaim, err error) {
	if none, err := s.noneToClaim(ctx, minute, buckets); err != nil || none {
		return nil, err
	}
	err = s.db.Write(ctx, "claiming slices", func(ctx context.Context, c sqldb.Runner) error {
		claims = nil
		if err := s.makeSlices(ctx, c, minute, buckets); err != nil {
			return err
		}
		var rows []struct {
			Bucket int32 `db:"bucket"`
			Token  int64 `db:"token"`
		}
		q := sqldb.Stmt(
			"SELECT bucket,token FROM slices WHERE minute=",
		).Int(minute).
			Add(" AND done=0 AND lease_until_ms<=").
			NowMS(s.db.Dialect).
			Add(" ORDER BY bucket LIMIT ").
			Int(int64(limit)).
			Add(s.db.SkipLocked())
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil || len(rows) == 0 {
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
		_, err := s.db.Exec(
			ctx,
			c,
			sqldb.Stmt(
				"UPDATE slices"+s.db.Dialect.ByPrimary+" SET token=token+1,lease_holder=0,lease_until_ms=",
			).NowMS(s.db.Dialect).
				Add("+").
				Int(lease.Milliseconds()).
				Add(" WHERE minute=").
				Int(minute).
				Add(" AND bucket IN (").
				Ints(taken...).
				Add(")"),
		)
		return err
	})
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// noneToClaim reports whether the slices of a minute exist, and each is done or leased.
func (s *Minutes) noneToClaim(
	ctx context.Context,
	minute int64,
	buckets int32,
) (none bool, err error) {
	err = s.db.Read(ctx, "reading slices", func(ctx context.Context, c sqlx.QueryerContext) error {
		var row struct {
			N    int32 `db:"n"`
			Free int32 `db:"free"`
		}
		q := sqldb.Stmt("SELECT COUNT(*) AS n,COUNT(CASE WHEN done=0 AND lease_until_ms<=").
			NowMS(s.db.Dialect).
			Add(" THEN 1 END) AS free FROM slices WHERE minute=").
			Int(minute)
		err := s.db.SelectOne(ctx, c, &row, q)
		none = row.N >= buckets && row.Free == 0
		return err
	})
	return none, err
}

// makeSlices inserts missing rows, most often none. Of two calls at once, the second changes
// nothing.
func (s *Minutes) makeSlices(
	ctx context.Context,
	c sqldb.Runner,
	minute int64,
	buckets int32,
) error {
	var have []int32
	if err := s.db.SelectAll(
		ctx,
		c,
		&have,
		sqldb.Stmt("SELECT bucket FROM slices WHERE minute=").Int(minute),
	); err != nil {
		return err
	}
	if len(have) >= int(buckets) {
		return nil
	}
	q := sqldb.Stmt(
		"INSERT INTO slices (minute,bucket,token,lease_until_ms,lease_holder,done) VALUES ",
	)
	first := true
	for b := range buckets {
		if !slices.Contains(have, b) {
			q.Row(first, minute, int64(b), 0, 0, 0, 0)
			first = false
		}
	}
	if first {
		return nil
	}
	_, err := s.db.Exec(ctx, c, q.Add(s.db.Dialect.OnConflictNothing("minute")))
	return err
}

// AcquireSlice takes the slice over from another holder of the same token. The message was then
// delivered twice, and the later delivery works.
func (s *Minutes) AcquireSlice(
	ctx context.Context,
	sc store.SliceClaim,
	holder timer.ID,
	lease time.Duration,
	free bool,
) (bool, error) {
	n, err := s.db.Urgent(ctx, "acquiring a slice", func() *sqldb.Statement {
		q := sqldb.Stmt("UPDATE slices" + s.db.Dialect.ByPrimary + " SET lease_holder=").
			Int(int64(holder)).
			Add(",lease_until_ms=").
			NowMS(s.db.Dialect).
			Add("+").
			Int(lease.Milliseconds())
		ofSlice(q, sc).Add(" AND done=0")
		if free {
			// The holder itself is allowed: the answer to its first try may be lost.
			q.Add(" AND lease_holder IN (0,").Int(int64(holder)).Add(")")
		}
		return q
	})
	return n == 1, err
}

// ofSlice adds the condition that the claim is the latest one of its slice.
func ofSlice(q *sqldb.Statement, c store.SliceClaim) *sqldb.Statement {
	return q.Add(" WHERE minute=").
		Int(c.Minute).
		Add(" AND bucket=").
		Int(int64(c.Bucket)).
		Add(" AND token=").
		Int(c.Token)
}

// RenewSlices renews with one statement. It reads the rows only if fewer of them matched.
func (s *Minutes) RenewSlices(
	ctx context.Context, holder timer.ID, claims []store.SliceClaim, lease time.Duration,
) (lost []store.SliceClaim, err error) {
	claims = slices.Clone(claims)
	slices.SortFunc(claims, compareClaims)
	for part := range sqldb.Batches(slices.Compact(claims)) {
		mine := func(q *sqldb.Statement) *sqldb.Statement {
			q.Add(" WHERE lease_holder=").Int(int64(holder)).Add(" AND done=0 AND ")
			if len(part) == 1 {
				return q.EqualTo(
					"minute,bucket,token",
					part[0].Minute,
					int64(part[0].Bucket),
					part[0].Token,
				)
			}
			q.Add("(minute,bucket,token) IN (" + s.db.Dialect.Tuples)
			for i, h := range part {
				q.Row(i == 0, h.Minute, int64(h.Bucket), h.Token)
			}
			return q.Add(")")
		}
		n, err := s.db.Urgent(ctx, "renewing slices", func() *sqldb.Statement {
			return mine(
				sqldb.Stmt(
					"UPDATE slices" + s.db.Dialect.ByPrimary + " SET lease_until_ms=",
				).NowMS(s.db.Dialect).
					Add("+").
					Int(lease.Milliseconds()),
			)
		})
		if err != nil {
			return nil, err
		}
		if int(n) == len(part) {
			continue
		}
		var rows []sliceRow
		err = s.db.Read(
			ctx,
			"reading slices",
			func(ctx context.Context, c sqlx.QueryerContext) error {
				return s.db.SelectAll(
					ctx,
					c,
					&rows,
					mine(
						sqldb.Stmt("SELECT minute,bucket,token FROM slices"+s.db.Dialect.ByPrimary),
					),
				)
			},
		)
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
func (s *Minutes) FinishSlice(ctx context.Context, sc store.SliceClaim) (bool, error) {
	n, err := s.db.Urgent(ctx, "finishing a slice", func() *sqldb.Statement {
		return ofSlice(sqldb.Stmt("UPDATE slices"+s.db.Dialect.ByPrimary+" SET done=1"), sc)
	})
	return n == 1, err
}
