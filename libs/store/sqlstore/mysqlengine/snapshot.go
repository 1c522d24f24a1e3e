package mysqlengine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

const (
	// snapshotWaitTimeoutS is how many seconds a snapshot may be idle, or not take an answer, before
	// the server ends it: the disk that a backup is written to may be busy.
	snapshotWaitTimeoutS = "300"
	// snapshotReadTime bounds the wait for an answer.
	snapshotReadTime = 10 * time.Minute
	// partitionsWaitS is how many seconds a snapshot waits for work on partitions, or for another
	// snapshot.
	partitionsWaitS = 60
)

const (
	setRepeatable  = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
	beginSnapshot  = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
	setSavepoint   = "SAVEPOINT snapshot_table"
	resetSavepoint = "ROLLBACK TO SAVEPOINT snapshot_table"
)

// Snapshot is one connection in a transaction that reads, and sees what was committed when it began.
// It locks no row. It is not safe for concurrent use.
type Snapshot struct {
	nodes *nodes
	pool  *sqlx.DB
	conn  *sqlx.Conn
}

// OpenSnapshot begins a snapshot. While it is open, nobody changes partitions: a change would wait
// for the snapshot, and every transaction behind it. This takes the named lock of that work, which
// nodes of a cluster do not share. There, a change of partitions may end the snapshot with an error.
func OpenSnapshot(ctx context.Context, cfg *Config) (_ *Snapshot, err error) {
	own := *cfg
	own.Config = cfg.Clone()
	own.ReadTimeout = max(cfg.ReadTimeout, snapshotReadTime)
	own.Params["wait_timeout"] = snapshotWaitTimeoutS
	own.Params["net_write_timeout"] = snapshotWaitTimeoutS
	s := &Snapshot{}
	if s.nodes, err = newNodes(&own); err != nil {
		return nil, err
	}
	s.pool = sqlx.NewDb(sql.OpenDB(s.nodes), "mysql")
	defer func() {
		if err != nil {
			_ = s.Close() // the first error is the cause
		}
	}()
	if s.conn, err = s.pool.Connx(ctx); err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was doing
	}
	if s.nodes.capabilities().NamedLocks {
		err := PurgeLock.Take(ctx, s.conn.Conn, partitionsWaitS)
		if errors.Is(err, ErrLockTaken) {
			return nil, fmt.Errorf("another backup is running, or work on partitions: %w", err)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, text := range []string{setRepeatable, beginSnapshot} {
		if _, err := s.conn.ExecContext(ctx, text); err != nil {
			return nil, fmt.Errorf("beginning a snapshot: %w", err)
		}
	}
	return s, nil
}

// Conn returns the connection.
func (s *Snapshot) Conn() engine.Runner { return s.conn }

// Around runs fn, and then gives back the locks on the definitions of the tables that it has read. A
// migration waits for these, and everybody behind it.
func (s *Snapshot) Around(ctx context.Context, fn func() error) error {
	if _, err := s.conn.ExecContext(ctx, setSavepoint); err != nil {
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	if err := fn(); err != nil {
		return err // the snapshot ends now
	}
	_, err := s.conn.ExecContext(ctx, resetSavepoint)
	return err //nolint:wrapcheck // the caller says what it was doing
}

// Close ends the snapshot, with its connection and its lock.
func (s *Snapshot) Close() error {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	_ = s.pool.Close() // the server ends what is left
	s.nodes.close()
	return nil
}
