package mysqlengine

import (
	"context"
	"crypto/md5" //nolint:gosec // makes a name short
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// Lock is a lock by MySQL's GET_LOCK. It belongs to a connection and ends with it, so a killed
// process leaves no lock behind. Names are shared by all databases of a server. The name therefore
// contains a hash of the database's name, which is short enough to fit.
type Lock string

// The named locks.
const (
	MigrateLock Lock = "migrate"
	PurgeLock   Lock = "keep"
)

// ErrLockTaken means that another connection has the lock.
var ErrLockTaken = errors.New("another process has the lock")

// MigrateWaitS is how many seconds a process waits for the migrations of another.
const MigrateWaitS = 300

// Take waits for up to the given seconds for the lock. It asks again each second: an answer that
// comes later than the read timeout would be taken for a lost connection.
func (l Lock) Take(ctx context.Context, conn *sql.Conn, seconds int) error {
	name, err := l.name(ctx, conn)
	if err != nil {
		return fmt.Errorf("taking the lock %s: %w", string(l), err)
	}
	for {
		var got sql.NullInt64
		row := conn.QueryRowContext(ctx, takeLock, name, min(seconds, 1))
		if err := row.Scan(&got); err != nil {
			return fmt.Errorf("taking the lock %s: %w", string(l), err)
		}
		if got.Int64 == 1 {
			return nil
		}
		if seconds--; seconds <= 0 {
			return fmt.Errorf("taking the lock %s: %w", string(l), ErrLockTaken)
		}
	}
}

// Release releases the lock. It uses a context of its own: a pooled connection must not keep the
// lock after the caller's context has ended.
func (l Lock) Release(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.DefaultTimeout)
	defer cancel()
	name, err := l.name(ctx, conn)
	if err != nil {
		return fmt.Errorf("releasing the lock %s: %w", string(l), err)
	}
	var released sql.NullInt64
	if err := conn.QueryRowContext(ctx, releaseLock, name).Scan(&released); err != nil {
		return fmt.Errorf("releasing the lock %s: %w", string(l), err)
	}
	return nil
}

const (
	takeLock     = "SELECT GET_LOCK(?, ?)"
	releaseLock  = "SELECT RELEASE_LOCK(?)"
	databaseName = "SELECT DATABASE()"
)

// Statements returns the statements that the engine sends by itself.
func Statements() []string {
	return append(
		[]string{
			takeLock, releaseLock, databaseName,
			setIsolation, readSettings, setNoSnapshots, setNoConversion, readStatus, setLatestReads,
			setRepeatable, beginSnapshot, setSavepoint, resetSavepoint,
		},
		tableLockStatements...,
	)
}

// name returns the lock's name in the connection's database.
func (l Lock) name(ctx context.Context, conn *sql.Conn) (string, error) {
	var database string
	if err := conn.QueryRowContext(ctx, databaseName).Scan(&database); err != nil {
		return "", fmt.Errorf("asking for the database's name: %w", err)
	}
	return l.Of(database), nil
}

// Of computes the name here, since MySQL 9.6 and later have no MD5(). The result must never change:
// two releases that run at once have to take the same lock.
func (l Lock) Of(database string) string {
	short := md5.Sum([]byte(database)) //nolint:gosec // as above
	return "carillon-" + string(l) + "-" + hex.EncodeToString(short[:])
}

// Around runs fn while a connection of its own has the lock. Without named locks it takes the lock
// in a table: see tableLock.
func (l Lock) Around(
	ctx context.Context, e *Engine, waitS int, fn func(ctx context.Context) error,
) error {
	conn, err := e.DB().Conn(ctx)
	if err != nil {
		return fmt.Errorf("connecting for the lock %s: %w", string(l), err)
	}
	// The connection is idle while fn works on others, with a longer timeout than theirs. It
	// therefore does not go back to the pool.
	defer func() {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	}()
	if !e.Capabilities().NamedLocks {
		return aroundTableLock(ctx, e.DB().DB, string(l), waitS, fn)
	}
	if _, err := conn.ExecContext(ctx, "SET SESSION wait_timeout=3600"); err != nil {
		return fmt.Errorf("connecting for the lock %s: %w", string(l), err)
	}
	if err := l.Take(ctx, conn, waitS); err != nil {
		return err
	}
	return errors.Join(fn(ctx), l.Release(ctx, conn))
}
