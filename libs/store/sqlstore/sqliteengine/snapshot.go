package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// Snapshot is one connection in a transaction that reads, beside the process that has the directory
// locked. While it is open, that process writes on, and its write-ahead log grows.
type Snapshot struct {
	pool *sqlx.DB
	conn *sqlx.Conn
}

// OpenSnapshot begins a snapshot of the database in a data directory. It takes no lock on the
// directory.
func OpenSnapshot(ctx context.Context, dir string) (_ *Snapshot, err error) {
	file, err := filepath.Abs(filepath.Join(dir, File))
	if err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("finding the database: %w", err)
	}
	dsn := url.URL{Scheme: "file", Path: file, OmitHost: true, RawQuery: url.Values{
		"mode":    {"ro"},
		"_pragma": {"busy_timeout(5000)", "query_only(1)", "cache_size(-32768)"},
	}.Encode()}
	s := &Snapshot{}
	if s.pool, err = sqlx.Open("sqlite", dsn.String()); err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.conn, err = s.pool.Connx(ctx); err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	if _, err := s.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return nil, fmt.Errorf("beginning a snapshot: %w", err)
	}
	// The first read decides which commits the transaction sees.
	var tables int
	if err := s.conn.GetContext(ctx, &tables, "SELECT COUNT(*) FROM sqlite_master"); err != nil {
		return nil, fmt.Errorf("beginning a snapshot: %w", err)
	}
	return s, nil
}

// Conn returns the connection.
func (s *Snapshot) Conn() engine.Runner { return s.conn }

// Around runs fn.
func (*Snapshot) Around(_ context.Context, fn func() error) error { return fn() }

// Close ends the snapshot.
func (s *Snapshot) Close() error {
	var err error
	if s.conn != nil {
		err = s.conn.Close()
	}
	return errors.Join(err, s.pool.Close())
}
