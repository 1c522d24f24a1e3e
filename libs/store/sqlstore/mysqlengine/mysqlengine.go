// Package mysqlengine runs the store's statements on MySQL 8 or MariaDB 10.11.
package mysqlengine

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// urgentConns are separate from the pool: a lease renewal that waits behind batches would be
	// late.
	urgentConns = 2
	// waitTimeoutS is how many seconds a connection may be idle before the server closes it and
	// rolls back its transaction. A stalled process keeps its rows locked no longer than this.
	waitTimeoutS = "2"
	// maxIdleTime closes idle connections before the server does.
	maxIdleTime = 1500 * time.Millisecond
	// lockWaitS is how many seconds a statement waits for a row lock. After that its transaction is
	// rolled back and repeated.
	lockWaitS = "5"
	dialTime  = 5 * time.Second
	// ioTime bounds a read or write on a connection whose server has vanished.
	ioTime = 30 * time.Second
)

// Engine has two pools: one for most calls, one for urgent ones.
type Engine struct {
	db   *sqlx.DB
	fast *sqlx.DB
}

var _ engine.Engine = (*Engine)(nil)

// Open returns an engine with at most maxOpen connections, besides the urgent ones. It does not
// connect yet.
func Open(cfg *mysql.Config, maxOpen int) (*Engine, error) {
	e := &Engine{}
	var err error
	if e.db, err = pool(cfg, maxOpen); err != nil {
		return nil, err
	}
	if e.fast, err = pool(cfg, urgentConns); err != nil {
		return nil, errors.Join(err, e.db.Close())
	}
	return e, nil
}

// DB returns the pool.
func (e *Engine) DB() *sqlx.DB { return e.db }

// ParseDSN parses a DSN and sets what the store depends on. Matched rows are counted, not
// changed ones. The driver interpolates parameters, which saves a round trip. Statements are
// strict. Times are UTC.
func ParseDSN(dsn string) (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, timer.Invalid("dsn", err.Error())
	}
	if cfg.DBName == "" {
		return nil, timer.Invalid(
			"dsn",
			"it names no database: user:password@tcp(host:3306)/database",
		)
	}
	cfg.ClientFoundRows = true
	cfg.InterpolateParams = true
	cfg.MultiStatements = false
	cfg.Collation = ""
	if cfg.Timeout == 0 {
		cfg.Timeout = dialTime
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = ioTime
	}
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = ioTime
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["sql_mode"] = "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
	cfg.Params["time_zone"] = "'+00:00'"
	cfg.Params["innodb_lock_wait_timeout"] = lockWaitS
	cfg.Params["wait_timeout"] = waitTimeoutS
	// What the driver would log about closed connections is in the error, too.
	cfg.Logger = &mysql.NopLogger{}
	return cfg, nil
}

// UseTLS makes every new connection use the configuration that latest returns then.
func UseTLS(cfg *mysql.Config, latest func() *tls.Config) error {
	if cfg.TLSConfig != "" {
		return timer.Invalid("dsn", "tls= in it contradicts mysql-tls: remove it")
	}
	host, _, err := net.SplitHostPort(cfg.Addr)
	if cfg.Net != "tcp" || err != nil {
		return timer.Invalid("dsn", "mysql-tls needs tcp(host:port)")
	}
	err = cfg.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error {
		c.TLS = latest()
		c.TLS.ServerName = host
		return nil
	}))
	if err != nil {
		return fmt.Errorf("using TLS: %w", err)
	}
	return nil
}

func pool(cfg *mysql.Config, conns int) (*sqlx.DB, error) {
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, timer.Invalid("dsn", err.Error())
	}
	db := sqlx.NewDb(sql.OpenDB(readCommitted{c}), "mysql")
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(maxIdleTime)
	return db, nil
}

const setIsolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"

// readCommitted sets the isolation level of every new connection. It is a separate statement
// because the two servers have different names for the variable.
type readCommitted struct{ driver.Connector }

func (c readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // database/sql looks at it
	}
	ex, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(
			errors.New("the driver connection cannot execute statements"),
			conn.Close(),
		)
	}
	if _, err := ex.ExecContext(ctx, setIsolation, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("setting the isolation level: %w", err), conn.Close())
	}
	return conn, nil
}

// Transact runs fn in a transaction of its own.
func (e *Engine) Transact(ctx context.Context, fn engine.Work) error {
	tx, err := e.db.BeginTxx(ctx, nil)
	if err != nil {
		return err //nolint:wrapcheck // translated by attempt
	}
	if err := fn(ctx, tx); err != nil {
		_ = tx.Rollback() // the server rolls back, whatever the error is
		if ctx.Err() == nil &&
			(errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)) {
			return fmt.Errorf("%w: %w", engine.ErrConnectionLost, err)
		}
		return err
	}
	return tx.Commit() //nolint:wrapcheck // as above
}

// Autocommit runs fn on a connection of the pool.
func (e *Engine) Autocommit(ctx context.Context, fn engine.Work) error {
	return fn(ctx, e.db)
}

// Urgent runs fn on a connection for leases and sessions.
func (e *Engine) Urgent(ctx context.Context, fn engine.Work) error {
	return fn(ctx, e.fast)
}

// Reader returns the pool.
func (e *Engine) Reader() sqlx.QueryerContext { return e.db }

// Close ends all connections. Their errors only tell that the server closed idle ones before.
func (e *Engine) Close() error {
	_, _ = e.db.Close(), e.fast.Close()
	return nil
}
