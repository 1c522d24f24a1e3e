package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxLiveKeys is how many keys of a kind or scope an app may have: the one in use and its
// replacement.
const maxLiveKeys = 2

type signingKeyRow struct {
	ID        int64  `db:"id"`
	App       string `db:"app"`
	Kind      string `db:"kind"`
	Secret    string `db:"secret"`
	Public    string `db:"public"`
	CreatedMS int64  `db:"created_ms"`
}

const selectSigningKeys = "SELECT k.id,a.name AS app,k.kind,k.secret,k.public,k.created_ms FROM signing_keys k JOIN apps a ON a.id=k.app_id WHERE "

func (s *Store) selectSigningKeys(
	ctx context.Context,
	q *statement,
) (keys []store.SigningKey, err error) {
	err = s.read(
		ctx,
		"reading signing keys",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var rows []signingKeyRow
			err := s.selectAll(ctx, c, &rows, q)
			for _, r := range rows {
				keys = append(keys, store.SigningKey{
					ID: timer.ID(
						r.ID,
					),
					App:       r.App,
					Kind:      r.Kind,
					Secret:    timer.Sealed(r.Secret),
					Public:    r.Public,
					CreatedMS: r.CreatedMS,
				})
			}
			return err
		},
	)
	return keys, err
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
	return s.changeApp(
		ctx,
		"adding a signing key",
		app,
		func(ctx context.Context, c runner, appID, nowMS int64) (bool, error) {
			there, err := s.keyThere(
				ctx,
				c,
				stmt("SELECT app_id FROM signing_keys WHERE id=").int(int64(k.ID)),
				appID,
			)
			if err != nil || there {
				return false, err
			}
			err = s.room(
				ctx,
				c,
				"kind",
				stmt(
					"SELECT COUNT(*) FROM signing_keys WHERE app_id=",
				).int(appID).
					add(" AND kind=").
					bind(k.Kind),
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
				stmt("INSERT INTO signing_keys (id,app_id,created_ms,kind,secret,public) VALUES (").
					ints(int64(k.ID), appID, k.CreatedMS).
					add(",").
					bind(k.Kind).add(",").bind(string(k.Secret)).add(",").bind(k.Public).add(")"),
			)
			return true, err
		},
	)
}

// RetireSigningKey deletes the row. Of two calls at once, one finds it. Repeated after an unknown
// result, the call may return not_found.
func (s *Store) RetireSigningKey(ctx context.Context, app string, id timer.ID) error {
	return s.changeApp(
		ctx,
		"retiring a signing key",
		app,
		func(ctx context.Context, c runner, appID, _ int64) (bool, error) {
			n, err := s.exec(
				ctx,
				c,
				stmt(
					"DELETE FROM signing_keys WHERE id=",
				).int(int64(id)).
					add(" AND app_id=").
					int(appID),
			)
			if err == nil && n == 0 {
				err = timer.NotFound("signing key", id)
			}
			return true, err
		},
	)
}

// ResealSigningKey is one statement. Two calls at once write secrets with the same meaning. No
// process has to be told: the old text can be decrypted as long as its key is in the keyring.
func (s *Store) ResealSigningKey(ctx context.Context, k store.SigningKey) error {
	n, err := s.autocommit(ctx, "re-encrypting a signing key", func() *statement {
		return stmt(
			"UPDATE signing_keys SET secret=",
		).bind(string(k.Secret)).
			add(" WHERE id=").
			int(int64(k.ID))
	})
	if err == nil && n == 0 {
		return timer.NotFound("signing key", k.ID)
	}
	return err
}

// changeApp runs fn with the app's row locked, and logs a change if fn returns true. It inserts the
// app if it is missing.
func (s *Store) changeApp(
	ctx context.Context,
	what, app string,
	fn func(ctx context.Context, c runner, appID, nowMS int64) (changed bool, err error),
) error {
	if _, err := s.makeApps(ctx, []string{app}); err != nil {
		return err
	}
	return s.write(ctx, what, func(ctx context.Context, c runner) error {
		row, err := s.selectApp(ctx, c, app, s.dialect.forUpdate)
		if err != nil {
			return err
		}
		nowMS, err := s.nowMS(ctx, c)
		if err != nil {
			return err
		}
		changed, err := fn(ctx, c, row.ID, nowMS)
		if err != nil || !changed {
			return err
		}
		return s.logApp(ctx, c, row.ID, nowMS)
	})
}

// keyThere reports whether a key exists already. A key of another app is a conflict.
func (s *Store) keyThere(ctx context.Context, c runner, q *statement, appID int64) (bool, error) {
	var owner int64
	err := s.selectOne(ctx, c, &owner, q)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err == nil && owner != appID:
		return false, timer.Conflict("id", "this key id is taken")
	}
	return true, err
}

// room returns a conflict if the count has reached its limit.
func (s *Store) room(ctx context.Context, c runner, field string, count *statement) error {
	var n int
	err := s.selectOne(ctx, c, &n, count)
	if err == nil && n >= maxLiveKeys {
		return timer.Conflict(field, "two of them exist already: retire one first")
	}
	return err
}
