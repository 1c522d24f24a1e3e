package scheduling

import (
	"bytes"
	"context"
	"math/rand/v2"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// PutIfAbsent inserts without overwriting, then reads the row. Of any number of calls at once, the
// first insert wins and all read its hash and value.
func (s *Scheduling) PutIfAbsent(
	ctx context.Context,
	app, key string,
	hash []byte,
	value int64,
) (kept int64, err error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil {
		return 0, err
	}
	if appID == 0 {
		return 0, store.NoSuchApp(app)
	}
	if hash == nil {
		hash = []byte{} // the column is NOT NULL
	}
	var row struct {
		Hash  []byte `db:"request_hash"`
		Value int64  `db:"value"`
	}
	err = s.db.Write(
		ctx,
		"storing an idempotency key",
		func(ctx context.Context, c sqldb.Runner) error {
			nowMS, err := s.db.NowMS(ctx, c)
			if err != nil {
				return err
			}
			q := sqldb.Stmt(
				"INSERT INTO idempotency_keys (app_id,idempotency_key,request_hash,value,creation_token,created_ms) VALUES (",
			).Int(appID).
				Add(",").
				Bind(key).
				Add(",").
				Bind(hash).
				Add(",").
				// The creation token is a random number.
				Ints(value, rand.Int64(), nowMS).
				Add(")").
				Add(s.db.Dialect.OnConflictNothing("app_id"))
			if _, err := s.db.Exec(ctx, c, q); err != nil {
				return err
			}
			q = sqldb.Stmt(
				"SELECT request_hash,value FROM idempotency_keys WHERE app_id=",
			).Int(appID).
				Add(" AND idempotency_key=").
				Bind(key)
			if err := s.db.SelectOne(ctx, c, &row, q); err != nil {
				return err
			}
			if !bytes.Equal(row.Hash, hash) {
				return store.KeyTaken()
			}
			return nil
		},
	)
	return row.Value, err
}
