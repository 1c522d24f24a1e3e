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

// Database is the settings of commands that need the store alone: MySQL where there is a DSN, else
// the data directory of `carillon dev`.
type Database struct {
	MySQL config.MySQL
	Data  config.Data
}

// Register names them.
func (d *Database) Register(s *config.Set) {
	d.MySQL.Register(s)
	d.Data.Register(s)
}

// Validate checks them.
func (d *Database) Validate() error {
	if d.MySQL.DSN != "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(d.Data.Dir, keyringFile)); err != nil {
		return fmt.Errorf("mysql-dsn: missing, and data-dir is none of carillon dev: %w", err)
	}
	return nil
}

// Open opens the database, which must have the schema that this program needs. Close it.
func (d *Database) Open(ctx context.Context, log zerolog.Logger) (store.Store, error) {
	if d.MySQL.DSN == "" {
		st, err := sqlstore.OpenSQLite(ctx, sqlstore.SQLiteOptions{Dir: d.Data.Dir, Logger: log})
		if err != nil {
			return nil, fmt.Errorf("opening the database in %s: %w", d.Data.Dir, err)
		}
		return st, nil
	}
	st, err := sqlstore.OpenMySQL(
		ctx,
		sqlstore.MySQLOptions{DSN: d.MySQL.DSN.Reveal(), Logger: log},
	)
	if err != nil {
		return nil, fmt.Errorf("mysql-dsn: %w", err)
	}
	if err := st.Ping(ctx); err != nil {
		_ = st.Close() // the error that counts is the ping's
		return nil, fmt.Errorf("asking the database: %w", err)
	}
	return st, nil
}
