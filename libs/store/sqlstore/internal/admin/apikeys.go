package admin

import (
	"cmp"
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Lengths of the columns of API keys.
const (
	maxKeyID   = 64
	maxKeyName = 255
	maxScope   = 16
	maxKeyHash = 64
)

type apiKeyRow struct {
	ID        string `db:"id"`
	App       string `db:"app"`
	Name      string `db:"name"`
	Scope     string `db:"scope"`
	Hash      []byte `db:"hash"`
	CreatedMS int64  `db:"created_ms"`
	RevokedMS int64  `db:"revoked_ms"`
}

//nolint:gosec // it names columns, and holds no credential
const selectAPIKeys = "SELECT k.id,a.name AS app,k.name,k.scope,k.hash,k.created_ms,k.revoked_ms FROM api_keys k JOIN apps a ON a.id=k.app_id WHERE "

//nolint:gosec // as above
const insertAPIKey = "INSERT INTO api_keys (app_id,created_ms,revoked_ms,id,name,scope,hash) VALUES ("

var apiKeys = &keyTable{
	name:  "api_keys",
	what:  "API key",
	group: "scope",
	live:  " AND revoked_ms=0",
}

func (s *Admin) selectAPIKeys(ctx context.Context, q *sqldb.Statement) ([]store.APIKey, error) {
	return selectKeys(ctx, s, "reading API keys", q, func(r *apiKeyRow) store.APIKey {
		return store.APIKey(*r)
	})
}

// APIKey returns a key by its public id.
func (s *Admin) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	keys, err := s.selectAPIKeys(ctx, sqldb.Stmt(selectAPIKeys+"k.id=").Bind(id))
	if err == nil && len(keys) == 0 {
		err = timer.NoSuch("API key", id)
	}
	if err != nil {
		return store.APIKey{}, err
	}
	return keys[0], nil
}

// APIKeys returns the keys of an app, newest first. Keys for all apps belong to the app with the
// empty name, which no API request can name.
func (s *Admin) APIKeys(ctx context.Context, app string) ([]store.APIKey, error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil || appID == 0 {
		return nil, err
	}
	return s.selectAPIKeys(
		ctx,
		sqldb.Stmt(
			selectAPIKeys+"k.app_id=",
		).Int(appID).
			Add(" AND k.revoked_ms=0 ORDER BY k.created_ms DESC,k.id DESC"),
	)
}

// AddAPIKey locks the app's row, so the second of two calls at once counts the key of the first. A
// repeated call finds its key there.
func (s *Admin) AddAPIKey(ctx context.Context, k store.APIKey) error {
	switch {
	case k.ID == "" || len(k.ID) > maxKeyID:
		return timer.Invalid("id", "a key's id has 1 to 64 bytes")
	case len(k.Scope) > maxScope:
		return timer.Invalid("scope", "a scope has at most 16 bytes")
	case len(k.Hash) == 0 || len(k.Hash) > maxKeyHash:
		return timer.Invalid("hash", "a hash has 1 to 64 bytes")
	}
	return s.addKey(
		ctx,
		apiKeys,
		k.App,
		k.ID,
		k.Scope,
		func(appID, nowMS int64) *sqldb.Statement {
			return sqldb.Stmt(insertAPIKey).
				Ints(appID, cmp.Or(k.CreatedMS, nowMS), 0).
				Add(",").Bind(k.ID).
				Add(",").Bind(sqldb.Clip(k.Name, maxKeyName)).
				Add(",").Bind(k.Scope).
				Add(",").Bind(k.Hash).
				Add(")")
		},
		func() (store.AuditEntry, error) { return store.AuditKeyAdded(&k) },
	)
}

// RevokeAPIKey revokes a key. If it is repeated, the instant of the first call stays.
func (s *Admin) RevokeAPIKey(ctx context.Context, app, id string) error {
	return s.endKey(ctx, apiKeys, app, id, func(appID, nowMS int64) *sqldb.Statement {
		return sqldb.Stmt("UPDATE api_keys SET revoked_ms=").Int(nowMS).
			Add(" WHERE id=").Bind(id).
			Add(" AND app_id=").Int(appID).
			Add(" AND revoked_ms=0")
	}, func(ctx context.Context, c sqldb.Runner, appID int64) (store.AuditEntry, error) {
		var row apiKeyRow
		err := s.db.SelectOne(ctx, c, &row,
			sqldb.Stmt(selectAPIKeys+"k.id=").Bind(id).Add(" AND k.app_id=").Int(appID))
		if err != nil {
			return store.AuditEntry{}, err
		}
		k := store.APIKey(row)
		return store.AuditKeyRevoked(&k)
	})
}
