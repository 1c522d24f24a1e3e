package wiring

import (
	"context"
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
}

// Register registers the settings.
func (d *Database) Register(s *config.Set) {
	d.MySQL.Register(s)
	d.Data.Register(s)
}

// Validate checks the settings.
func (d *Database) Validate() error {
	if d.MySQL.DSN != "" {
		return d.MySQL.Validate() //nolint:wrapcheck // it names the setting
	}
	if _, err := os.Stat(filepath.Join(d.Data.Dir, keyringFile)); err != nil {
		return fmt.Errorf("mysql-dsn: missing, and data-dir is not one of carillon dev: %w", err)
	}
	return nil
}

// Open opens the database, which must have the schema that this program needs. Close it after use.
func (d *Database) Open(ctx context.Context, log zerolog.Logger) (store.Store, error) {
	if d.MySQL.DSN == "" {
		st, err := sqlstore.OpenSQLite(ctx, sqlstore.SQLiteOptions{Dir: d.Data.Dir, Logger: log})
		if err != nil {
			return nil, fmt.Errorf("opening the database in %s: %w", d.Data.Dir, err)
		}
		return st, nil
	}
	st, err := openMySQL(ctx, &d.MySQL, log)
	if err != nil {
		return nil, err
	}
	if err := st.Ping(ctx); err != nil {
		_ = st.Close() // the ping's error is the cause
		return nil, fmt.Errorf("pinging the database: %w", err)
	}
	return st, nil
}
