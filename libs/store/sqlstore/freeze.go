package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// fullApp is an app with its freeze and its settings.
type fullApp struct {
	ID       int64  `db:"id"`
	Name     string `db:"name"`
	Frozen   bool   `db:"frozen"`
	Reason   string `db:"freeze_reason"`
	FrozenMS int64  `db:"frozen_since_ms"`
	Settings []byte `db:"settings"`
	Version  int64  `db:"settings_version"`
	Deleting int64  `db:"deleting_job"`
}

const appColumns = "id,name,frozen,freeze_reason,frozen_since_ms,settings,settings_version,deleting_job"

func (r *fullApp) app() (store.App, error) {
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

func (s *Store) selectApp(
	ctx context.Context,
	c sqlx.QueryerContext,
	name, lock string,
) (row fullApp, err error) {
	err = s.selectOne(
		ctx,
		c,
		&row,
		stmt("SELECT "+appColumns+" FROM apps WHERE name=").bind(name).add(lock),
	)
	if errors.Is(err, sql.ErrNoRows) {
		return row, &timer.Error{Code: timer.CodeNotFound, Msg: "no such app"}
	}
	return row, err
}

// App returns an app.
func (s *Store) App(ctx context.Context, name string) (app store.App, err error) {
	err = s.read(ctx, "reading an app", func(ctx context.Context, c sqlx.QueryerContext) error {
		row, err := s.selectApp(ctx, c, name, "")
		if err == nil {
			app, err = row.app()
		}
		return err
	})
	return app, err
}

// ListApps reads a part of the index of names.
func (s *Store) ListApps(
	ctx context.Context,
	after string,
	limit int,
) (all []store.App, err error) {
	err = s.read(ctx, "listing apps", func(ctx context.Context, c sqlx.QueryerContext) error {
		var rows []fullApp
		q := stmt("SELECT " + appColumns + " FROM apps WHERE name>").bind(after).
			add(" ORDER BY name LIMIT ").int(int64(limit))
		if err := s.selectAll(ctx, c, &rows, q); err != nil {
			return err
		}
		for i := range rows {
			app, err := rows[i].app()
			if err != nil {
				return err
			}
			all = append(all, app)
		}
		return nil
	})
	return all, err
}

// SetFrozen locks the app's row, so of two calls at once the second sees the result of the first.
// It adds one entry about the app to the change log, in the same transaction. Repeating a call
// changes nothing more. A change of the reason alone is written and not logged.
func (s *Store) SetFrozen(
	ctx context.Context,
	name string,
	frozen bool,
	reason string,
) (app store.App, err error) {
	ctx, _, err = s.makeApps(ctx, []string{name})
	if err != nil {
		return store.App{}, err
	}
	if reason = clip(reason, timer.MaxReasonLen); !frozen {
		reason = ""
	}
	err = s.write(ctx, "freezing an app", func(ctx context.Context, c runner) error {
		row, err := s.lockApp(ctx, c, name)
		if err != nil {
			return err
		}
		if row.Deleting != 0 {
			return store.AppDeleted(name)
		}
		if row.Frozen == frozen && row.Reason == reason {
			app, err = row.app()
			return err
		}
		nowMS, err := s.nowMS(ctx, c)
		if err != nil {
			return err
		}
		changed := row.Frozen != frozen
		was := store.AppAudit{Frozen: row.Frozen, Reason: row.Reason}
		if row.Frozen, row.Reason = frozen, reason; changed {
			row.FrozenMS = nowMS * flag(frozen)
		}
		q := stmt("UPDATE apps SET frozen=").int(flag(frozen)).add(",freeze_reason=").bind(reason).
			add(",frozen_since_ms=").int(row.FrozenMS).add(" WHERE id=").int(row.ID)
		if _, err := s.exec(ctx, c, q); err != nil {
			return err
		}
		is := store.AppAudit{Frozen: frozen, Reason: reason}
		e, err := store.AuditFreezeSet(name, was, is)
		if err := s.auditOne(ctx, c, row.ID, nowMS, e, err); err != nil {
			return err
		}
		if app, err = row.app(); err != nil || !changed {
			return err
		}
		return s.logApp(ctx, c, row.ID, nowMS)
	})
	return app, err
}
