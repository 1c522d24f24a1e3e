package sqlstore

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
)

// Now returns the store's clock, to the millisecond.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.read(ctx, "reading the clock", func(ctx context.Context, c sqlx.QueryerContext) error {
		ms, err := s.nowMS(ctx, c)
		now = time.UnixMilli(ms)
		return err
	})
	return now, err
}

// nowMS reads the store's clock in a transaction.
func (s *Store) nowMS(ctx context.Context, c sqlx.QueryerContext) (ms int64, err error) {
	err = s.selectOne(ctx, c, &ms, stmt("SELECT ").nowMS(s.dialect))
	return ms, err
}
