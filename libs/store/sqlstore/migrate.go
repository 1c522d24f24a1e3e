package sqlstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

//go:embed migrations
var migrations embed.FS

// schemaVersion is the number of the latest migration, which Ping requires.
const schemaVersion = 1

// migrateUp runs the missing migrations of a dialect up to a version. It changes nothing in a
// database that has tables of another application, see requireOwnTables. It uses no package state
// of goose, so two stores in one process do not affect each other.
func migrateUp(
	ctx context.Context, db *sqlx.DB, kind goose.Dialect, d *sqldb.Dialect, version int64,
) error {
	if err := requireOwnTables(ctx, db, d, version, false); err != nil {
		return err
	}
	files, err := fs.Sub(migrations, "migrations/"+d.Name)
	if err != nil {
		return fmt.Errorf("opening the migrations: %w", err)
	}
	p, err := goose.NewProvider(
		kind,
		db.DB,
		files,
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	if kind == goose.DialectMySQL {
		if err := addZeroVersion(ctx, db); err != nil {
			return err
		}
	}
	if _, err := p.UpTo(ctx, version); err != nil && !errors.Is(err, goose.ErrAlreadyApplied) {
		return err //nolint:wrapcheck // it names the migration; the caller adds the rest
	}
	return requireOwnTables(ctx, db, d, version, true)
}

// addZeroVersion adds goose's first row to its table if that has none, and does nothing without the
// table. goose creates table and row in one transaction, but MySQL commits the table at once. If the
// process dies between the two, goose would refuse the table for ever. Two calls at once may add two
// rows, which goose reads as one.
func addZeroVersion(ctx context.Context, db *sqlx.DB) error {
	_, err := db.ExecContext(
		ctx,
		"INSERT INTO goose_db_version (version_id,is_applied) SELECT 0,1 "+
			"FROM (SELECT COUNT(*) AS n FROM goose_db_version) AS had WHERE n=0",
	)
	if err != nil && !isNoTable(err) {
		return fmt.Errorf("completing the table of migrations: %w", err)
	}
	return nil
}
