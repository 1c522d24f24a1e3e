package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/sqliteengine"
)

// OpenSQLite opens or creates the database in a data directory. It fails if another process has the
// directory locked. It ends every open session: their process has ended, since it had the lock.
func OpenSQLite(ctx context.Context, o SQLiteOptions) (*Store, error) {
	s, err := openSQLite(ctx, &o)
	if err != nil {
		return nil, err
	}
	reader := s.db.Engine.Reader()
	if err := s.checkLater(ctx, reader); err != nil { // before any write
		return nil, errors.Join(err, s.Close())
	}
	if err := requireOwnTables(ctx, reader, s.db.Dialect, schemaVersion, false); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.sessions.EndAll(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.scheduling.MaxEditFires = cmp.Or(o.MaxEditFires, DefaultMaxEditFires)
	s.db.InjectFaults(o.Faults) // after opening, which must not fail
	return s, nil
}

// IsDamaged reports whether an error of SQLite means that the file is no database, or a damaged one.
func IsDamaged(err error) bool { return sqliteengine.IsDamaged(err) }

// openSQLite opens or creates the database, and looks at nothing in it.
func openSQLite(ctx context.Context, o *SQLiteOptions) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	e, err := sqliteengine.Open(ctx, o.Dir)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what was being done
	}
	d := sqldb.SQLiteDialect(func() int64 { return o.Now().UnixMilli() })
	s := newStore(d, e, o.Now, o.Logger)
	s.migrate = func(ctx context.Context, version int64) error {
		return migrateUp(ctx, e.DB(), goose.DialectSQLite3, d, version)
	}
	return s, nil
}
