package sqlstore

import (
	"context"
	"math/rand/v2"
)

// PutIfAbsent inserts without overwriting and reads what is there: of any number of calls at once
// the first insert wins, and all read it.
func (s *Store) PutIfAbsent(
	ctx context.Context,
	app, key string,
	value int64,
) (kept int64, err error) {
	apps, err := s.makeApps(ctx, []string{app})
	if err != nil {
		return 0, err
	}
	err = s.write(ctx, "keeping an idempotency key", func(ctx context.Context, c runner) error {
		nowMS, err := s.nowMS(ctx, c)
		if err != nil {
			return err
		}
		q := stmt(
			"INSERT INTO idempotency (app_id,idem_key,hash,timer_id,maker,at_ms) VALUES (",
		).int(apps[app]).
			add(",").
			bind(key).
			add(",").

			// the maker is a mark.
			bind([]byte{}).
			add(",").
			ints(value, rand.Int64(), nowMS).
			add(")").
			add(s.dialect.nothing("app_id"))
		if _, err := s.exec(ctx, c, q); err != nil {
			return err
		}
		q = stmt(
			"SELECT timer_id FROM idempotency WHERE app_id=",
		).int(apps[app]).
			add(" AND idem_key=").
			bind(key)
		return s.selectOne(ctx, c, &kept, q)
	})
	return kept, err
}
