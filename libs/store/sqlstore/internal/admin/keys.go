package admin

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxLiveKeys is how many keys of a kind or scope an app may have: the one in use and its
// replacement.
const maxLiveKeys = 2

// keyTable describes one of the two tables of keys.
type keyTable struct {
	name, what string
	group      string // column by which the live keys are limited
	live       string // condition of live keys
}

// selectKeys reads keys as rows and converts them.
func selectKeys[R, K any](
	ctx context.Context,
	s *Admin,
	what string,
	q *sqldb.Statement,
	convert func(r *R) K,
) (keys []K, err error) {
	err = s.db.Read(ctx, what, func(ctx context.Context, c sqlx.QueryerContext) error {
		var rows []R
		err := s.db.SelectAll(ctx, c, &rows, q)
		for i := range rows {
			keys = append(keys, convert(&rows[i]))
		}
		return err
	})
	return keys, err
}

// addKey adds a key. It locks the app's row, so the second of two calls at once counts the key of
// the first. A repeated call finds its key there.
func (s *Admin) addKey(
	ctx context.Context,
	t *keyTable,
	app string,
	id any,
	group string,
	insert func(appID, nowMS int64) *sqldb.Statement,
	entry func() (store.AuditEntry, error),
) error {
	ctx, _, err := s.apps.Make(ctx, []string{app})
	if err != nil {
		return err
	}
	return s.changeApp(
		ctx,
		"adding the "+t.what,
		app,
		func(ctx context.Context, c sqldb.Runner, row *apps.Row, nowMS int64) (bool, error) {
			if row.Deleting != 0 {
				return false, store.AppDeleted(app)
			}
			appID := row.ID
			var owner int64
			err := s.db.SelectOne(ctx, c, &owner,
				sqldb.Stmt("SELECT app_id FROM "+t.name+" WHERE id=").Bind(id))
			switch {
			case err == nil && owner != appID:
				return false, timer.Conflict("id", "this key id is taken")
			case !errors.Is(err, sql.ErrNoRows):
				return false, err
			}
			var n int
			err = s.db.SelectOne(
				ctx,
				c,
				&n,
				sqldb.Stmt("SELECT COUNT(*) FROM "+t.name+" WHERE app_id=").
					Int(appID).Add(t.live+" AND "+t.group+"=").Bind(group),
			)
			if err == nil && n >= maxLiveKeys {
				err = timer.Conflict(
					t.group,
					"two keys of this "+t.group+" exist already: remove one first",
				)
			}
			if err != nil {
				return false, err
			}
			if _, err = s.db.Exec(ctx, c, insert(appID, nowMS)); err != nil {
				return false, err
			}
			e, err := entry()
			return true, s.audit.Add(ctx, c, appID, nowMS, e, err)
		},
	)
}

// endKey ends a key of an app. A key that has ended already, and still has its row, changes
// nothing. An unknown app has no keys, and is not inserted. entry reads the key for the audit
// trail, before the key ends.
func (s *Admin) endKey(
	ctx context.Context,
	t *keyTable,
	app string,
	id any,
	end func(appID, nowMS int64) *sqldb.Statement,
	entry func(ctx context.Context, c sqldb.Runner, appID int64) (store.AuditEntry, error),
) error {
	found := false
	err := s.changeApp(
		ctx,
		"ending the "+t.what,
		app,
		func(ctx context.Context, c sqldb.Runner, row *apps.Row, nowMS int64) (bool, error) {
			found = true
			appID := row.ID
			e, entryErr := entry(ctx, c, appID)
			if entryErr != nil && !errors.Is(entryErr, sql.ErrNoRows) {
				return false, entryErr // the transaction may be rolled back, and the next statement its own
			}
			n, err := s.db.Exec(ctx, c, end(appID, nowMS))
			if err != nil {
				return false, err
			}
			if n > 0 {
				return true, s.audit.Add(ctx, c, appID, nowMS, e, entryErr)
			}
			err = s.db.SelectOne(
				ctx,
				c,
				&n,
				sqldb.Stmt("SELECT COUNT(*) FROM "+t.name+" WHERE id=").
					Bind(id).Add(" AND app_id=").Int(appID),
			)
			if err == nil && n == 0 {
				err = timer.NotFound(t.what, id)
			}
			return false, err
		},
	)
	if !found && timer.CodeOf(err) == timer.CodeNotFound {
		return timer.NotFound(t.what, id)
	}
	return err
}

// changeApp runs fn with the app's row locked, and logs a change if fn returns true. It returns
// not_found if the app is missing.
func (s *Admin) changeApp(
	ctx context.Context,
	what, app string,
	fn func(ctx context.Context, c sqldb.Runner, row *apps.Row, nowMS int64) (changed bool, err error),
) error {
	return s.db.Write(ctx, what, func(ctx context.Context, c sqldb.Runner) error {
		row, err := s.apps.Lock(ctx, c, app)
		if err != nil {
			return err
		}
		nowMS, err := s.db.NowMS(ctx, c)
		if err != nil {
			return err
		}
		changed, err := fn(ctx, c, &row, nowMS)
		if err != nil || !changed {
			return err
		}
		return s.apps.LogChange(ctx, c, row.ID, nowMS)
	})
}
