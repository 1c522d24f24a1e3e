package sqlstore

import (
	"context"
	"math/rand/v2"
)

// PutIfAbsent inserts without overwriting, then reads the row. Of any number of calls at once, the
// first insert wins and all read its value.
func (s *Store) PutIfAbsent(
	ctx context.Context,
	app, key string,
	value int64,
) (kept int64, err error) {
	ctx, apps, err := s.makeApps(ctx, []string{app})
	if err != nil {
		return 0, err
	}
	err = s.write(ctx, "storing an idempotency key", func(ctx context.Context, c runner) error {
		nowMS, err := s.nowMS(ctx, c)
		if err != nil {
			return err
		}
		q := stmt(
			"INSERT INTO idempotency_keys (app_id,idempotency_key,request_hash,value,creation_token,created_ms) VALUES (",
		).int(apps[app]).
			add(",").
			bind(key).
			add(",").

			// The creation token is a random number.
			bind([]byte{}).
			add(",").
			ints(value, rand.Int64(), nowMS).
			add(")").
			add(s.dialect.onConflictNothing("app_id"))
		if _, err := s.exec(ctx, c, q); err != nil {
			return err
		}
		q = stmt(
			"SELECT value FROM idempotency_keys WHERE app_id=",
		).int(apps[app]).
			add(" AND idempotency_key=").
			bind(key)
		return s.selectOne(ctx, c, &kept, q)
	})
	return kept, err
}
