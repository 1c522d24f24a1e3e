package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

const (
	sqliteFile  = "carillon.db"
	sqliteReads = 4 // connections
)

// sqliteEngine has one connection that writes, behind a queue, and a few that only read. With WAL
// they do not wait for each other.
type sqliteEngine struct {
	writes *sqlx.DB
	reads  *sqlx.DB
	writer *writer
	lock   *dirLock
	remove string // directory that Close removes
}

// OpenSQLite opens or creates the database in a data directory. It fails if another process has the
// directory locked. It ends every open session: their process has ended, since it had the lock.
func OpenSQLite(ctx context.Context, o SQLiteOptions) (*Store, error) {
	e := &sqliteEngine{}
	if o.Now == nil {
		o.Now = time.Now
	}
	sync := "FULL"
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "carillon-store-")
		if err != nil {
			return nil, fmt.Errorf("making a temporary data directory: %w", err)
		}
		o.Dir, e.remove, sync = dir, dir, "OFF"
	}
	if err := e.open(ctx, o.Dir, sync); err != nil {
		return nil, errors.Join(err, e.close())
	}
	d := sqliteDialect(func() int64 { return o.Now().UnixMilli() })
	s := newStore(d, e, o.Now, o.Logger)
	s.migrate = func(ctx context.Context) error {
		return migrateUp(ctx, e.writes.DB, goose.DialectSQLite3, d.name)
	}
	s.purgePartitions = s.deleteHistory
	if err := s.checkLater(ctx, e.reads); err != nil { // before any write
		return nil, errors.Join(err, e.close())
	}
	if err := s.endAllSessions(ctx); err != nil {
		return nil, errors.Join(err, e.close())
	}
	s.maxEditFires = cmp.Or(o.MaxEditFires, DefaultMaxEditFires)
	s.faults = newFaults(o.Faults) // after opening, which must not fail
	return s, nil
}

func (e *sqliteEngine) open(ctx context.Context, dir, sync string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	e.lock = lock
	file, err := filepath.Abs(filepath.Join(dir, sqliteFile))
	if err != nil {
		return fmt.Errorf("finding the data directory: %w", err)
	}
	if e.writes, err = openFile(ctx, file, sync, 1, "foreign_keys(0)"); err != nil {
		return err
	}
	if e.reads, err = openFile(ctx, file, sync, sqliteReads, "query_only(1)"); err != nil {
		return err
	}
	e.writer = startWriter(e.writes)
	return nil
}

// openFile opens a pool whose connections stay open, because each has its own page cache.
func openFile(ctx context.Context, file, sync string, conns int, pragma string) (*sqlx.DB, error) {
	dsn := url.URL{Scheme: "file", Path: file, OmitHost: true, RawQuery: url.Values{"_pragma": {
		"busy_timeout(5000)",
		"journal_mode(WAL)",
		"synchronous(" + sync + ")",
		"cache_size(-32768)",
		"temp_store(MEMORY)",
		"wal_autocheckpoint(4000)",
		pragma,
	}}.Encode()}
	db, err := sqlx.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", file, err), db.Close())
	}
	return db, nil
}

func (e *sqliteEngine) transact(ctx context.Context, fn func(context.Context, runner) error) error {
	return e.writer.do(ctx, fn)
}

func (e *sqliteEngine) autocommit(
	ctx context.Context,
	fn func(context.Context, runner) error,
) error {
	return e.writer.do(ctx, fn)
}

func (e *sqliteEngine) urgent(ctx context.Context, fn func(context.Context, runner) error) error {
	return e.writer.do(ctx, fn)
}

func (e *sqliteEngine) reader() sqlx.QueryerContext { return e.reads }

// close closes everything in reverse order. The directory lock is last: until then no other process
// may write.
func (e *sqliteEngine) close() error {
	var errs []error
	if e.writer != nil {
		e.writer.stop()
	}
	if e.reads != nil {
		errs = append(errs, e.reads.Close())
	}
	if e.writes != nil {
		errs = append(errs, e.writes.Close())
	}
	if e.lock != nil {
		errs = append(errs, e.lock.release())
	}
	if e.remove != "" {
		errs = append(errs, os.RemoveAll(e.remove))
	}
	return errors.Join(errs...)
}
