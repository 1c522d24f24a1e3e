package mysqlengine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

const (
	// urgentConns are separate from the pool: a lease renewal that waits behind batches would be
	// late.
	urgentConns = 2
	// waitTimeoutS is how many seconds a connection may be idle before the server closes it and
	// rolls back its transaction. A stalled process keeps its rows locked no longer than this.
	waitTimeoutS = "2"
	// maxIdleTime ends idle connections before the server does.
	maxIdleTime = 1500 * time.Millisecond
	// lockWaitS is how many seconds a statement waits for a row lock. After that its transaction is
	// rolled back and repeated.
	lockWaitS = "5"
	dialTime  = 5 * time.Second
	// ioTime bounds a read or write on a connection whose server has vanished.
	ioTime = 30 * time.Second
	// returnTime is how long a connection lasts. So after a failure all processes are back on the
	// first of several nodes within this time, or where the name of a single one leads by then.
	returnTime = 20 * time.Second
)

// Engine has two pools: one for most calls, one for urgent ones.
type Engine struct {
	nodes *nodes
	db    *sqlx.DB
	fast  *sqlx.DB
}

var _ engine.Engine = (*Engine)(nil)

// Open returns an engine with at most maxOpen connections, besides the urgent ones. It does not
// connect yet. It logs when it uses another one of several nodes.
func Open(cfg *Config, maxOpen int, log zerolog.Logger) (*Engine, error) {
	n, err := newNodes(cfg)
	if err != nil {
		return nil, err
	}
	n.used.log = log
	return &Engine{nodes: n, db: pool(n, maxOpen), fast: pool(n, urgentConns)}, nil
}

// Node returns which of several nodes new connections go to, or nil if there is only one.
func (e *Engine) Node() *Node { return e.nodes.used.node(e.nodes.list) }

// DB returns the pool.
func (e *Engine) DB() *sqlx.DB { return e.db }

func pool(n *nodes, conns int) *sqlx.DB {
	db := sqlx.NewDb(sql.OpenDB(n), "mysql")
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(maxIdleTime)
	db.SetConnMaxLifetime(returnTime)
	return db
}

// Transact runs fn in a transaction of its own.
func (e *Engine) Transact(ctx context.Context, fn engine.Work) error {
	tx, err := e.db.BeginTxx(ctx, nil)
	if err != nil {
		return beforeCommit(ctx, err)
	}
	if err := fn(ctx, tx); err != nil {
		_ = tx.Rollback() // the server rolls back, whatever the error is
		return beforeCommit(ctx, err)
	}
	return tx.Commit() //nolint:wrapcheck // translated by attempt
}

// beforeCommit marks the error of a connection that was lost in a transaction, or while it began.
func beforeCommit(ctx context.Context, err error) error {
	if ctx.Err() == nil &&
		(errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)) {
		return fmt.Errorf("%w: %w", engine.ErrConnectionLost, err)
	}
	return err
}

// Autocommit runs fn on a connection of the pool.
func (e *Engine) Autocommit(ctx context.Context, fn engine.Work) error {
	return fn(ctx, e.db)
}

// Urgent runs fn on a connection for leases and sessions.
func (e *Engine) Urgent(ctx context.Context, fn engine.Work) error {
	return fn(ctx, e.fast)
}

// UrgentReader returns the pool of Urgent, for what must not wait behind all other calls.
func (e *Engine) UrgentReader() sqlx.QueryerContext { return e.fast }

// Reader returns the pool.
func (e *Engine) Reader() sqlx.QueryerContext { return e.db }

// Capabilities returns what every server has that the engine was connected to. A transaction runs on
// a connection that was examined before, so it sees those of its own server.
func (e *Engine) Capabilities() engine.Capabilities { return e.nodes.capabilities() }

// Close ends all connections. Their errors only tell that the server closed idle ones before.
func (e *Engine) Close() error {
	_, _ = e.db.Close(), e.fast.Close()
	e.nodes.close()
	return nil
}
