package sqliteengine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"

	"github.com/carillon-timer/carillon/libs/store/dirlock"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// File is the name of the database in a data directory.
const File = "carillon.db"

// Connections. The writer keeps one of those that write; the other one is for migrations.
const (
	sqliteWrites = 2
	sqliteReads  = 4
)

// maxLog is to how many bytes the write-ahead log is cut when it begins anew. It has about 16 MB, but
// while a backup or a long read is open, it grows.
const maxLog = 64 << 20

// Engine has one connection that writes, behind a queue, and a few that only read. With WAL
// they do not wait for each other.
type Engine struct {
	writes *sqlx.DB
	reads  *sqlx.DB
	writer *writer
	lock   *dirlock.Lock
	remove string // directory that Close removes
}

var _ engine.Engine = (*Engine)(nil)

// Open opens or creates the database in a data directory. It fails if another process has the
// directory locked. Without a directory it makes a temporary one without fsync, which Close removes.
func Open(ctx context.Context, dir string) (*Engine, error) {
	e, sync := &Engine{}, "FULL"
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "carillon-store-"); err != nil {
			return nil, fmt.Errorf("making a temporary data directory: %w", err)
		}
		e.remove, sync = dir, "OFF"
	}
	if err := e.open(ctx, dir, sync); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// DB returns connections that write, for migrations.
func (e *Engine) DB() *sqlx.DB { return e.writes }

func (e *Engine) open(ctx context.Context, dir, sync string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	lock, err := dirlock.Take(dir)
	if err != nil {
		return err
	}
	e.lock = lock
	file, err := filepath.Abs(filepath.Join(dir, File))
	if err != nil {
		return fmt.Errorf("finding the data directory: %w", err)
	}
	// SQLite would let everybody read a new file. The files beside it get its mode.
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	if e.writes, err = openFile(ctx, file, sync, sqliteWrites, "foreign_keys(0)"); err != nil {
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
		"journal_size_limit(" + strconv.Itoa(maxLog) + ")",
		pragma,
	}}.Encode()}
	c, err := sqlite.NewConnector(dsn.String())
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	db := sqlx.NewDb(sql.OpenDB(connector{c}), "sqlite")
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", file, err), db.Close())
	}
	return db, nil
}

// Transact runs fn in the next group.
func (e *Engine) Transact(ctx context.Context, fn engine.Work) error {
	return e.writer.do(ctx, e.writer.jobs, fn)
}

// Autocommit runs fn in the next group.
func (e *Engine) Autocommit(ctx context.Context, fn engine.Work) error {
	return e.writer.do(ctx, e.writer.jobs, fn)
}

// Urgent runs fn in the present group, or first in the next one.
func (e *Engine) Urgent(ctx context.Context, fn engine.Work) error {
	return e.writer.do(ctx, e.writer.urgent, fn)
}

// Reader returns the connections that only read.
func (e *Engine) Reader() sqlx.QueryerContext { return e.reads }

// Capabilities are those of a single server.
func (e *Engine) Capabilities() engine.Capabilities { return engine.All() }

// Close closes everything in reverse order. The directory lock is last: until then no other process
// may write.
func (e *Engine) Close() error {
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
		errs = append(errs, e.lock.Release())
	}
	if e.remove != "" {
		errs = append(errs, os.RemoveAll(e.remove))
	}
	return errors.Join(errs...)
}
