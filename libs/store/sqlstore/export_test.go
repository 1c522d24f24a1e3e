package sqlstore

import (
	"context"
	"database/sql"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Watch calls f with the text of every statement from now on. It is to be called before the store
// is used.
func (s *Store) Watch(f func(text string)) { s.onStatement = f }

// SetIDs makes the store take its timer ids from now: two stores with a clock that stands make the
// same ids.
func (s *Store) SetIDs(now func() time.Time) { s.ids = timer.NewIDs(now) }

// Trim is what Keep does to outcomes and attempts, at an instant of the test's.
func (s *Store) Trim(ctx context.Context, nowMS, boundMS int64) error {
	return s.purgePartitions(ctx, nowMS, boundMS)
}

// SchemaVersion is the latest migration.
const SchemaVersion int64 = schemaVersion

// Migrations are the files of the migrations.
func Migrations() fs.FS { return migrations }

// DueSweeps is how many sweeps have come for a fire so far past its run.
func DueSweeps(past time.Duration) int32 { return dueSweeps(past.Milliseconds()) }

// OtherStatements are those that no watcher sees: they are sent below the store.
func OtherStatements() []string {
	return []string{takeLock, releaseLock, databaseName, setIsolation}
}

// MigrateLock is the name of the lock of migrations in a database.
func MigrateLock(database string) string { return migrateLock.of(database) }

// MigrateTo brings the schema up to a version: that of a release before.
func (s *Store) MigrateTo(ctx context.Context, version int64) error {
	files, err := fs.Sub(migrations, "migrations/"+s.dialect.name)
	if err != nil {
		return err
	}
	kind, db := goose.DialectSQLite3, (*sql.DB)(nil)
	switch e := s.engine.(type) {
	case *mysqlEngine:
		kind, db = goose.DialectMySQL, e.db.DB
	case *sqliteEngine:
		db = e.writes.DB
	}
	p, err := goose.NewProvider(
		kind,
		db,
		files,
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)
	if err != nil {
		return err
	}
	_, err = p.UpTo(ctx, version)
	return err
}

// Exec runs a statement of a release before, and returns how many rows it matched.
func (s *Store) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	return s.alone(
		ctx,
		"testing",
		func() *statement { return &statement{text: []byte(text), args: args} },
	)
}

// MigrationPool opens the connections of migrations.
func MigrationPool(dsn string) (*sql.DB, error) {
	cfg, err := mysqlConfig(dsn)
	if err != nil {
		return nil, err
	}
	return migrationPool(cfg)
}

// TranslateMySQL gives an error of MySQL's its code.
func TranslateMySQL(what string, err error) error { return mysqlDialect().translate(what, err) }
