package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// schemaVersion is the number of the latest migration, which Ping requires.
const schemaVersion = 1

// migrateUp runs the missing migrations of a dialect up to a version. It uses no package state of
// goose, so two stores in one process do not affect each other.
func migrateUp(
	ctx context.Context, db *sql.DB, kind goose.Dialect, folder string, version int64,
) error {
	files, err := fs.Sub(migrations, "migrations/"+folder)
	if err != nil {
		return fmt.Errorf("opening the migrations: %w", err)
	}
	p, err := goose.NewProvider(
		kind,
		db,
		files,
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	if _, err := p.UpTo(ctx, version); err != nil && !errors.Is(err, goose.ErrAlreadyApplied) {
		return err //nolint:wrapcheck // it names the migration; the caller adds the rest
	}
	return nil
}
