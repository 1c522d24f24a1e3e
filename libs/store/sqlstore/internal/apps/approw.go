package apps

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// LogChange adds an entry about a whole app to the change log, as the last step before the commit: see
// timers.AddChanges.
func (s *Rows) LogChange(ctx context.Context, c sqldb.Runner, app, nowMS int64) error {
	_, err := s.db.Exec(
		ctx,
		c,
		sqldb.Stmt(
			"INSERT INTO timer_changes (timer_id,changed_ms,app_id) VALUES ",
		).Row(true, 0, nowMS, app),
	)
	return err
}

// Row is an app with its freeze and its settings.
type Row struct {
	ID       int64  `db:"id"`
	Name     string `db:"name"`
	Frozen   bool   `db:"frozen"`
	Reason   string `db:"freeze_reason"`
	FrozenMS int64  `db:"frozen_since_ms"`
	Settings []byte `db:"settings"`
	Version  int64  `db:"settings_version"`
	Deleting int64  `db:"deleting_job"`
}

const columns = "id,name,frozen,freeze_reason,frozen_since_ms,settings,settings_version,deleting_job"

// App returns the app as callers of the store see it.
func (r *Row) App() (store.App, error) {
	a := store.App{
		ID:       r.ID,
		Name:     r.Name,
		Frozen:   r.Frozen,
		Reason:   r.Reason,
		FrozenMS: r.FrozenMS,
		Version:  r.Version,
		Deleting: timer.ID(r.Deleting),
	}
	if len(r.Settings) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(r.Settings, &a.Settings); err != nil {
		return a, fmt.Errorf("reading the settings of the app %q: %w", r.Name, err)
	}
	return a, nil
}

// Select reads an app, with a clause that locks its row, or returns not_found.
func (s *Rows) Select(
	ctx context.Context,
	c sqlx.QueryerContext,
	name, lock string,
) (row Row, err error) {
	err = s.db.SelectOne(
		ctx,
		c,
		&row,
		sqldb.Stmt("SELECT "+columns+" FROM apps WHERE name=").Bind(name).Add(lock),
	)
	if errors.Is(err, sql.ErrNoRows) {
		return row, store.NoSuchApp(name)
	}
	return row, err
}

// App returns an app.
func (s *Apps) App(ctx context.Context, name string) (app store.App, err error) {
	err = s.db.Read(ctx, "reading an app", func(ctx context.Context, c sqlx.QueryerContext) error {
		row, err := s.apps.Select(ctx, c, name, "")
		if err == nil {
			app, err = row.App()
		}
		return err
	})
	return app, err
}

// ListApps reads a part of the index of names.
func (s *Apps) ListApps(
	ctx context.Context,
	after string,
	limit int,
) (all []store.App, err error) {
	err = s.db.Read(ctx, "listing apps", func(ctx context.Context, c sqlx.QueryerContext) error {
		var rows []Row
		q := sqldb.Stmt("SELECT " + columns + " FROM apps WHERE name>").Bind(after).
			Add(" ORDER BY name LIMIT ").Int(int64(limit))
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
			return err
		}
		for i := range rows {
			app, err := rows[i].App()
			if err != nil {
				return err
			}
			all = append(all, app)
		}
		return nil
	})
	return all, err
}

// Lock reads an app and locks it until the commit.
func (s *Rows) Lock(ctx context.Context, c sqldb.Runner, name string) (row Row, err error) {
	row, err = s.Select(ctx, c, name, s.db.Dialect.ForUpdate)
	if err != nil {
		return row, err
	}
	return row, s.db.Guard(ctx, c, row.ID)
}

// Share reads an app and keeps others from locking it until the commit.
func (s *Rows) Share(ctx context.Context, c sqldb.Runner, name string) (row Row, err error) {
	row, err = s.Select(ctx, c, name, s.db.Dialect.ForShare)
	if err != nil {
		return row, err
	}
	return row, s.db.GuardShared(ctx, c, []int64{row.ID})
}

// RefuseFrozen returns a conflict if the app is frozen. It locks the app's row for sharing until
// the commit, so a freeze comes before, and nothing is added, or it comes after.
func (s *Rows) RefuseFrozen(ctx context.Context, c sqldb.Runner, name string) error {
	row, err := s.Share(ctx, c, name)
	if err == nil && row.Frozen {
		err = store.FrozenConflict(name)
	}
	return err
}

var errOtherID = errors.New("it has another id than before: the server lost commits")

// Deleted returns which of the apps are being deleted. It locks their rows for sharing until
// the commit: a deletion begins before, and is seen, or after, and finds what was written. An app
// without its id is unavailable, see cache: a repeated call reads the id again.
func (s *Rows) Deleted(
	ctx context.Context,
	c sqldb.Runner,
	apps map[string]int64,
) (map[string]bool, error) {
	ids := make([]int64, 0, len(apps))
	for _, id := range apps {
		ids = append(ids, id)
	}
	deleted, found := map[string]bool{}, 0
	slices.Sort(ids)
	if err := s.db.GuardShared(ctx, c, ids); err != nil {
		return nil, err
	}
	for part := range sqldb.Batches(ids) {
		var rows []struct {
			appRow
			Deleting int64 `db:"deleting_job"`
		}
		q := sqldb.Stmt("SELECT id,name,deleting_job FROM apps WHERE id IN (").Ints(part...).
			Add(") ORDER BY id" + s.db.Dialect.ForShare)
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].Deleting != 0 {
				deleted[rows[i].Name] = true
			}
			if apps[rows[i].Name] == rows[i].ID {
				found++
			}
		}
	}
	if found < len(apps) {
		s.cache.clear()
		return nil, timer.Unavailable("creating in an app", errOtherID)
	}
	return deleted, nil
}

// RefuseDeleted returns the id of an app, or a conflict if it is being deleted, see Deleted.
func (s *Rows) RefuseDeleted(ctx context.Context, c sqldb.Runner, app string) (int64, error) {
	row, err := s.Share(ctx, c, app)
	if err == nil && row.Deleting != 0 {
		err = store.AppDeleted(app)
	}
	return row.ID, err
}

// AppsByID returns the present apps.
func (s *Apps) AppsByID(ctx context.Context, ids []int64) (apps []store.App, err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	err = s.db.Read(ctx, "reading apps", func(ctx context.Context, c sqlx.QueryerContext) error {
		for part := range sqldb.Batches(slices.Compact(ids)) {
			var rows []Row
			if err := s.db.SelectAll(
				ctx,
				c,
				&rows,
				sqldb.Stmt("SELECT "+columns+" FROM apps WHERE id IN (").Ints(part...).Add(")"),
			); err != nil {
				return err
			}
			for i := range rows {
				a, err := rows[i].App()
				if err != nil {
					return err
				}
				apps = append(apps, a)
			}
		}
		return nil
	})
	return apps, err
}
