package sqldb

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
)

// Now returns the store's clock, to the millisecond.
func (s *DB) Now(ctx context.Context) (now time.Time, err error) {
	err = s.Read(ctx, "reading the clock", func(ctx context.Context, c sqlx.QueryerContext) error {
		ms, err := s.NowMS(ctx, c)
		now = time.UnixMilli(ms)
		return err
	})
	return now, err
}

// NowMS reads the store's clock in a transaction.
func (s *DB) NowMS(ctx context.Context, c sqlx.QueryerContext) (ms int64, err error) {
	err = s.SelectOne(ctx, c, &ms, Stmt("SELECT ").NowMS(s.Dialect))
	return ms, err
}
