package sqlstore

import (
	"cmp"
	"context"

	"github.com/carillon-timer/carillon/libs/store"
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

func (s *Store) selectSigningKeys(ctx context.Context, q *statement) ([]store.SigningKey, error) {
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
func (s *Store) SigningKeys(ctx context.Context, app string) ([]store.SigningKey, error) {
	appID, err := s.appID(ctx, app)
	if err != nil || appID == 0 {
		return nil, err
	}
	return s.selectSigningKeys(
		ctx,
		stmt(selectSigningKeys+"k.app_id=").int(appID).add(" ORDER BY k.created_ms DESC,k.id DESC"),
	)
}

// AllSigningKeys scans the keys of all apps along the primary key.
func (s *Store) AllSigningKeys(
	ctx context.Context,
	after timer.ID,
	limit int,
) ([]store.SigningKey, error) {
	return s.selectSigningKeys(
		ctx,
		stmt(
			selectSigningKeys+"k.id>",
		).int(int64(after)).
			add(" ORDER BY k.id LIMIT ").
			int(int64(limit)),
	)
}

// AddSigningKey locks the app's row, so the second of two calls at once counts the key of the
// first. A repeated call finds its key there.
func (s *Store) AddSigningKey(ctx context.Context, app string, k store.SigningKey) error {
	return s.addKey(
		ctx,
		signingKeys,
		app,
		k.ID,
		k.Kind,
		func(appID, nowMS int64) *statement {
			return stmt(insertSigningKey).
				ints(int64(k.ID), appID, cmp.Or(k.CreatedMS, nowMS)).
				add(",").bind(k.Kind).
				add(",").bind(string(k.Secret)).
				add(",").bind(k.Public).
				add(")")
		},
		func() (store.AuditEntry, error) { return store.AuditSigningKeyAdded(&k) },
	)
}

// RetireSigningKey deletes the row. Of two calls at once, one finds it. Repeated after an unknown
// result, the call may return not_found.
func (s *Store) RetireSigningKey(ctx context.Context, app string, id timer.ID) error {
	return s.endKey(ctx, signingKeys, app, id, func(appID, _ int64) *statement {
		return stmt("DELETE FROM signing_keys WHERE id=").int(int64(id)).
			add(" AND app_id=").int(appID)
	}, func(ctx context.Context, c runner, appID int64) (store.AuditEntry, error) {
		var row signingKeyRow
		err := s.selectOne(ctx, c, &row,
			stmt(selectSigningKeys+"k.id=").int(int64(id)).add(" AND k.app_id=").int(appID))
		if err != nil {
			return store.AuditEntry{}, err
		}
		k := store.SigningKey{ID: id, Kind: row.Kind, Public: row.Public}
		return store.AuditSigningKeyRetired(&k)
	})
}

// ResealSigningKey is one statement. Two calls at once write secrets with the same meaning. No
// process has to be told: the old text can be decrypted as long as its key is in the keyring.
func (s *Store) ResealSigningKey(ctx context.Context, k store.SigningKey) error {
	n, err := s.autocommit(ctx, "re-encrypting a signing key", func() *statement {
		return stmt("UPDATE signing_keys SET secret=").bind(string(k.Secret)).
			add(" WHERE id=").int(int64(k.ID))
	})
	if err == nil && n == 0 {
		return timer.NotFound("signing key", k.ID)
	}
	return err
}
