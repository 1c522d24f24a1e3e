package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/mysqlengine"
)

// OpenMySQL returns a store on MySQL 8 or MariaDB 10.11. It does not connect yet, and fails only
// for a DSN that can never work.
func OpenMySQL(_ context.Context, o MySQLOptions) (*Store, error) {
	cfg, err := mysqlConfig(&o)
	if err != nil {
		return nil, err
	}
	s, _, err := openMySQL(cfg, &o)
	return s, err
}

// CheckMySQL returns an error for options with which no connection can work, such as a malformed
// DSN. It does not connect.
func CheckMySQL(o MySQLOptions) error {
	_, err := mysqlConfig(&o)
	return err
}

// mysqlConfig returns how to connect.
func mysqlConfig(o *MySQLOptions) (*mysqlengine.Config, error) {
	cfg, err := mysqlengine.ParseDSN(o.DSN)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what was being done
	}
	if o.TLS != nil {
		if err := mysqlengine.UseTLS(cfg, o.TLS); err != nil {
			return nil, err //nolint:wrapcheck // it says what was being done
		}
	}
	if o.Have != nil {
		cfg.Have = *o.Have
	}
	return cfg, nil
}

func openMySQL(cfg *mysqlengine.Config, o *MySQLOptions) (*Store, *mysqlengine.Engine, error) {
	if o.MaxOpen <= 0 {
		o.MaxOpen = DefaultMaxOpen
	}
	e, err := mysqlengine.Open(cfg, o.MaxOpen, o.Logger)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it says what was being done
	}
	s := newStore(sqldb.MySQLDialect(), e, time.Now, o.Logger)
	s.db.InjectFaults(o.Faults)
	if o.Timeout > 0 {
		s.db.Timeout = o.Timeout
	}
	s.check, s.probe = s.checkServer, e.UrgentReader()
	s.migrate = func(ctx context.Context, version int64) error {
		// The lock is around all of goose. Goose reads its table before it takes a lock of its own,
		// and MySQL commits every DDL statement by itself: the table of another process may exist
		// and still be empty.
		lock, waitS := mysqlengine.MigrateLock, mysqlengine.MigrateWaitS
		return lock.Around(ctx, e, waitS, func(ctx context.Context) (err error) {
			db, err := mysqlengine.MigrationPool(cfg)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			return migrateUp(
				ctx, sqlx.NewDb(db, "mysql"), goose.DialectMySQL, s.db.Dialect, version,
			)
		})
	}
	s.partitions.MySQL = e
	s.node = e.Node
	return s, e, nil
}
