package wiring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
)

// Database are the settings of commands that need only the store: MySQL if a DSN is given,
// otherwise the data directory of `carillon dev`.
type Database struct {
	MySQL config.MySQL
	Data  config.Data

	set *config.Set
}

// Register registers the settings.
func (d *Database) Register(s *config.Set) {
	d.MySQL.Register(s)
	d.Data.Register(s)
	d.set = s
}

// Validate checks the settings.
func (d *Database) Validate() error {
	if d.MySQL.DSN != "" {
		return d.validateMySQL()
	}
	if _, err := os.Stat(filepath.Join(d.Data.Dir, sqlstore.SQLiteFile)); err != nil {
		return fmt.Errorf("mysql-dsn: missing, and data-dir is not one of carillon dev: %w", err)
	}
	return nil
}

// validateMySQL refuses a data directory beside the DSN. One of the two may come from the environment
// unnoticed, and a restore into the other database is hard to undo.
func (d *Database) validateMySQL() error {
	err := d.MySQL.Validate()
	if d.set.Given("data-dir") {
		err = errors.Join(err, errors.New(
			"data-dir: given together with mysql-dsn: give the one of the two whose database is meant",
		))
	}
	return err //nolint:wrapcheck // it names the setting
}

// Open opens the database, which must have the schema that this program needs. Close it after use.
func (d *Database) Open(ctx context.Context, log zerolog.Logger) (store.Store, error) {
	if d.MySQL.DSN == "" {
		st, err := sqlstore.OpenSQLite(ctx, sqlstore.SQLiteOptions{Dir: d.Data.Dir, Logger: log})
		if err != nil {
			return nil, sqliteError("opening", d.Data.Dir, err)
		}
		return st, nil
	}
	o, err := mysqlOptions(&d.MySQL, log)
	if err != nil {
		return nil, err
	}
	st, err := openMySQL(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := st.Ping(ctx); err != nil {
		_ = st.Close() // the ping's error is the cause
		return nil, fmt.Errorf("pinging the database: %w", err)
	}
	return st, nil
}

// sqliteError adds to an error of the database in a data directory which one it is, and what to do
// about a damaged file.
func sqliteError(doing, dir string, err error) error {
	err = fmt.Errorf("%s the database in %s: %w", doing, dir, err)
	if !sqlstore.IsDamaged(err) {
		return err
	}
	file := filepath.Join(dir, sqlstore.SQLiteFile)
	return fmt.Errorf(
		"%w: %s is damaged or no database: move it away, with %[2]s-wal and %[2]s-shm, and load a "+
			"backup with carillon restore, or set another data-dir",
		err, file,
	)
}

// Snapshot opens the database at one instant, beside its services. Close it after use.
func (d *Database) Snapshot(ctx context.Context, log zerolog.Logger) (*sqlstore.Snapshot, error) {
	if d.MySQL.DSN == "" {
		s, err := sqlstore.SnapshotSQLite(ctx, sqlstore.SQLiteOptions{Dir: d.Data.Dir, Logger: log})
		if err != nil {
			return nil, sqliteError("reading", d.Data.Dir, err)
		}
		return s, nil
	}
	o, err := mysqlOptions(&d.MySQL, log)
	if err != nil {
		return nil, err
	}
	return sqlstore.SnapshotMySQL(ctx, o) //nolint:wrapcheck // it says what it was doing
}

// NewDatabase are the settings of a restore: MySQL if a DSN is given, otherwise a data directory,
// which is created if missing.
type NewDatabase struct{ Database }

// Validate checks the settings.
func (d *NewDatabase) Validate() error {
	if d.MySQL.DSN != "" {
		return d.validateMySQL()
	}
	return d.Data.Validate() //nolint:wrapcheck // it names the setting
}

// Restore opens the database as the target of a restore. Close it after use.
func (d *NewDatabase) Restore(ctx context.Context, log zerolog.Logger) (*sqlstore.Restore, error) {
	if d.MySQL.DSN == "" {
		r, err := sqlstore.RestoreSQLite(ctx, sqlstore.SQLiteOptions{Dir: d.Data.Dir, Logger: log})
		if err != nil {
			return nil, sqliteError("opening", d.Data.Dir, err)
		}
		return r, nil
	}
	o, err := mysqlOptions(&d.MySQL, log)
	if err != nil {
		return nil, err
	}
	r, err := sqlstore.RestoreMySQL(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("mysql-dsn: %w", err)
	}
	return r, nil
}

// KeyringFile is the file of encryption keys that a data directory has, or gets from its first
// process. It is empty for MySQL.
func (d *Database) KeyringFile() string {
	if d.MySQL.DSN != "" {
		return ""
	}
	return filepath.Join(d.Data.Dir, keyringFile)
}
