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

// schemaVersion is the latest migration, which Ping asks for.
const schemaVersion = 7

// migrateUp runs the migrations of a dialect that are missing. Nothing of goose's package state is
// touched, so that two stores in one process do not meet.
func migrateUp(ctx context.Context, db *sql.DB, kind goose.Dialect, folder string) error {
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
	if _, err := p.Up(ctx); err != nil && !errors.Is(err, goose.ErrAlreadyApplied) {
		return err //nolint:wrapcheck // it names the migration; the caller adds the rest
	}
	return nil
}
