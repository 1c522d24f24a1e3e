package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// PutSettings locks the app's row. Of two calls at once, the second sees the result of the first,
// and is refused by its version or replaces it. The entry in the change log is in the same
// transaction. A repeated call finds its settings there and changes nothing.
func (s *Admin) PutSettings(
	ctx context.Context,
	name string,
	settings store.AppSettings,
	version int64,
) (app store.App, err error) {
	text, err := json.Marshal(settings)
	if err != nil {
		return store.App{}, fmt.Errorf("encoding the settings: %w", err)
	}
	ctx, _, err = s.apps.Make(ctx, []string{name})
	if err != nil {
		return store.App{}, err
	}
	err = s.db.Write(
		ctx,
		"writing the settings of an app",
		func(ctx context.Context, c sqldb.Runner) error {
			row, err := s.apps.Lock(ctx, c, name)
			if err != nil {
				return err
			}
			if row.Deleting != 0 {
				return store.AppDeleted(name)
			}
			had := row.Settings
			if len(had) == 0 {
				had = []byte("{}")
			}
			if bytes.Equal(had, text) {
				app, err = row.App()
				return err
			}
			if version != 0 && version != row.Version {
				return timer.Conflict("version", "the settings have another version by now")
			}
			nowMS, err := s.db.NowMS(ctx, c)
			if err != nil {
				return err
			}
			row.Settings, row.Version = text, row.Version+1
			q := sqldb.Stmt(
				"UPDATE apps SET settings=",
			).Bind(text).
				Add(",settings_version=").
				Int(row.Version).
				Add(" WHERE id=").
				Int(row.ID)
			if _, err := s.db.Exec(ctx, c, q); err != nil {
				return err
			}
			if app, err = row.App(); err != nil {
				return err
			}
			e := store.AuditSettingsPut(name, had, text)
			if err := s.audit.Add(ctx, c, row.ID, nowMS, e, nil); err != nil {
				return err
			}
			return s.apps.LogChange(ctx, c, row.ID, nowMS)
		},
	)
	return app, err
}
