package sqlstore

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
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

func (s *Store) selectAPIKeys(ctx context.Context, q *statement) (keys []store.APIKey, err error) {
	err = s.read(ctx, "reading API keys", func(ctx context.Context, c sqlx.QueryerContext) error {
		var rows []apiKeyRow
		err := s.selectAll(ctx, c, &rows, q)
		for _, r := range rows {
			keys = append(keys, store.APIKey(r))
		}
		return err
	})
	return keys, err
}

// APIKey returns a key by its public id.
func (s *Store) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	keys, err := s.selectAPIKeys(ctx, stmt(selectAPIKeys+"k.id=").bind(id))
	if err == nil && len(keys) == 0 {
		err = timer.NotFound("API key", id)
	}
	if err != nil {
		return store.APIKey{}, err
	}
	return keys[0], nil
}

// APIKeys returns the keys of an app, newest first. Keys for all apps belong to the app with the
// empty name, which no API request can name.
func (s *Store) APIKeys(ctx context.Context, app string) ([]store.APIKey, error) {
	appID, err := s.appID(ctx, app)
	if err != nil || appID == 0 {
		return nil, err
	}
	return s.selectAPIKeys(
		ctx,
		stmt(
			selectAPIKeys+"k.app_id=",
		).int(appID).
			add(" AND k.revoked_ms=0 ORDER BY k.created_ms DESC,k.id DESC"),
	)
}

// AddAPIKey locks the app's row, so the second of two calls at once counts the key of the first. A
// repeated call finds its key there.
func (s *Store) AddAPIKey(ctx context.Context, k store.APIKey) error {
	switch {
	case k.ID == "" || len(k.ID) > maxKeyID:
		return timer.Invalid("id", "a key's id has 1 to 64 bytes")
	case len(k.Scope) > maxScope:
		return timer.Invalid("scope", "a scope has at most 16 bytes")
	case len(k.Hash) == 0 || len(k.Hash) > maxKeyHash:
		return timer.Invalid("hash", "a hash has 1 to 64 bytes")
	}
	return s.changeApp(
		ctx,
		"adding an API key",
		k.App,
		func(ctx context.Context, c runner, appID, nowMS int64) (bool, error) {
			there, err := s.keyThere(
				ctx,
				c,
				stmt("SELECT app_id FROM api_keys WHERE id=").bind(k.ID),
				appID,
			)
			if err != nil || there {
				return false, err
			}
			err = s.room(
				ctx,
				c,
				"scope",
				stmt(
					"SELECT COUNT(*) FROM api_keys WHERE app_id=",
				).int(appID).
					add(" AND revoked_ms=0 AND scope=").
					bind(k.Scope),
			)
			if err != nil {
				return false, err
			}
			if k.CreatedMS == 0 {
				k.CreatedMS = nowMS
			}
			_, err = s.exec(
				ctx,
				c,
				stmt(
					"INSERT INTO api_keys (app_id,created_ms,revoked_ms,id,name,scope,hash) VALUES (",
				).ints(appID, k.CreatedMS, 0).
					add(",").
					bind(k.ID).
					add(",").
					bind(clip(k.Name, maxKeyName)).
					add(",").
					bind(k.Scope).
					add(",").
					bind(k.Hash).
					add(")"),
			)
			return true, err
		},
	)
}

// RevokeAPIKey revokes a key. If it is repeated, the instant of the first call stays.
func (s *Store) RevokeAPIKey(ctx context.Context, app, id string) error {
	return s.changeApp(
		ctx,
		"revoking an API key",
		app,
		func(ctx context.Context, c runner, appID, nowMS int64) (bool, error) {
			n, err := s.exec(
				ctx,
				c,
				stmt(
					"UPDATE api_keys SET revoked_ms=",
				).int(nowMS).
					add(" WHERE id=").
					bind(id).
					add(" AND app_id=").
					int(appID).
					add(" AND revoked_ms=0"),
			)
			if err != nil || n > 0 {
				return true, err
			}
			var there int
			err = s.selectOne(
				ctx,
				c,
				&there,
				stmt(
					"SELECT COUNT(*) FROM api_keys WHERE id=",
				).bind(id).
					add(" AND app_id=").
					int(appID),
			)
			if err == nil && there == 0 {
				err = timer.NotFound("API key", id)
			}
			return false, err
		},
	)
}
