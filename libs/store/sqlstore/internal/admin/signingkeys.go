package admin

import (
	"cmp"
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

type signingKeyRow struct {
	ID        int64  `db:"id"`
	App       string `db:"app"`
	Kind      string `db:"kind"`
	Secret    string `db:"secret"`
	Public    string `db:"public"`
	CreatedMS int64  `db:"created_ms"`
}

const selectSigningKeys = "SELECT k.id,a.name AS app,k.kind,k.secret,k.public,k.created_ms FROM signing_keys k JOIN apps a ON a.id=k.app_id WHERE "

const insertSigningKey = "INSERT INTO signing_keys (id,app_id,created_ms,kind,secret,public) VALUES ("

var signingKeys = &keyTable{name: "signing_keys", what: "signing key", group: "kind"}

func (s *Admin) selectSigningKeys(
	ctx context.Context,
	q *sqldb.Statement,
) ([]store.SigningKey, error) {
	return selectKeys(ctx, s, "reading signing keys", q, func(r *signingKeyRow) store.SigningKey {
		return store.SigningKey{
			ID:        timer.ID(r.ID),
			App:       r.App,
			Kind:      r.Kind,
			Secret:    timer.Sealed(r.Secret),
			Public:    r.Public,
			CreatedMS: r.CreatedMS,
		}
	})
}

// SigningKeys returns an app's keys, newest first.
func (s *Admin) SigningKeys(ctx context.Context, app string) ([]store.SigningKey, error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil || appID == 0 {
		return nil, err
	}
	return s.selectSigningKeys(
		ctx,
		sqldb.Stmt(selectSigningKeys+"k.app_id=").
			Int(appID).
			Add(" ORDER BY k.created_ms DESC,k.id DESC"),
	)
}

// AllSigningKeys scans the keys of all apps along the primary key.
func (s *Admin) AllSigningKeys(
	ctx context.Context,
	after timer.ID,
	limit int,
) ([]store.SigningKey, error) {
	return s.selectSigningKeys(
		ctx,
		sqldb.Stmt(
			selectSigningKeys+"k.id>",
		).Int(int64(after)).
			Add(" ORDER BY k.id LIMIT ").
			Int(int64(limit)),
	)
}

// AddSigningKey locks the app's row, so the second of two calls at once counts the key of the
// first. A repeated call finds its key there.
func (s *Admin) AddSigningKey(ctx context.Context, app string, k store.SigningKey) error {
	return s.addKey(
		ctx,
		signingKeys,
		app,
		k.ID,
		k.Kind,
		func(appID, nowMS int64) *sqldb.Statement {
			return sqldb.Stmt(insertSigningKey).
				Ints(int64(k.ID), appID, cmp.Or(k.CreatedMS, nowMS)).
				Add(",").Bind(k.Kind).
				Add(",").Bind(string(k.Secret)).
				Add(",").Bind(k.Public).
				Add(")")
		},
		func() (store.AuditEntry, error) { return store.AuditSigningKeyAdded(&k) },
	)
}

// RetireSigningKey deletes the row. Of two calls at once, one finds it. Repeated after an unknown
// result, the call may return not_found.
func (s *Admin) RetireSigningKey(ctx context.Context, app string, id timer.ID) error {
	return s.endKey(ctx, signingKeys, app, id, func(appID, _ int64) *sqldb.Statement {
		return sqldb.Stmt("DELETE FROM signing_keys WHERE id=").Int(int64(id)).
			Add(" AND app_id=").Int(appID)
	}, func(ctx context.Context, c sqldb.Runner, appID int64) (store.AuditEntry, error) {
		var row signingKeyRow
		err := s.db.SelectOne(ctx, c, &row,
			sqldb.Stmt(selectSigningKeys+"k.id=").Int(int64(id)).Add(" AND k.app_id=").Int(appID))
		if err != nil {
			return store.AuditEntry{}, err
		}
		k := store.SigningKey{ID: id, Kind: row.Kind, Public: row.Public}
		return store.AuditSigningKeyRetired(&k)
	})
}

// ResealSigningKey is one statement. Two calls at once write secrets with the same meaning. No
// process has to be told: the old text can be decrypted as long as its key is in the keyring.
func (s *Admin) ResealSigningKey(ctx context.Context, k store.SigningKey) error {
	n, err := s.db.Autocommit(ctx, "re-encrypting a signing key", func() *sqldb.Statement {
		return sqldb.Stmt("UPDATE signing_keys SET secret=").Bind(string(k.Secret)).
			Add(" WHERE id=").Int(int64(k.ID))
	})
	if err == nil && n == 0 {
		return timer.NotFound("signing key", k.ID)
	}
	return err
}
