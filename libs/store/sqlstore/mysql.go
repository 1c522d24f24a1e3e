package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

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

// mysqlEngine has two pools: one for most calls, one for urgent ones.
type mysqlEngine struct {
	db   *sqlx.DB
	fast *sqlx.DB
}

// OpenMySQL returns a store on MySQL 8 or MariaDB 10.11. It does not connect yet, and fails only
// for a DSN that can never work.
func OpenMySQL(_ context.Context, o MySQLOptions) (*Store, error) {
	cfg, err := mysqlConfig(o.DSN)
	if err != nil {
		return nil, err
	}
	if o.MaxOpen <= 0 {
		o.MaxOpen = DefaultMaxOpen
	}
	e := &mysqlEngine{}
	if e.db, err = mysqlPool(cfg, o.MaxOpen); err != nil {
		return nil, err
	}
	if e.fast, err = mysqlPool(cfg, urgentConns); err != nil {
		return nil, errors.Join(err, e.db.Close())
	}
	s := newStore(mysqlDialect(), e, time.Now, o.Logger)
	s.faults = newFaults(o.Faults)
	if o.Timeout > 0 {
		s.timeout = o.Timeout
	}
	s.check = s.checkServer
	s.migrate = func(ctx context.Context) error {
		// The lock is around all of goose. Goose reads its table before it takes a lock of its own,
		// and MySQL commits every DDL statement by itself: the table of another process may exist
		// and still be empty.
		return migrateLock.around(ctx, e.db.DB, migrateWaitS, func() (err error) {
			db, err := migrationPool(cfg)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			return migrateUp(ctx, db, goose.DialectMySQL, s.dialect.name)
		})
	}
	s.purgePartitions = func(ctx context.Context, nowMS, boundMS int64) error {
		return s.maintainPartitions(ctx, e.db, nowMS, boundMS)
	}
	return s, nil
}

// mysqlConfig parses a DSN and sets what the store depends on. Matched rows are counted, not
// changed ones. The driver interpolates parameters, which saves a round trip. Statements are
// strict. Times are UTC.
func mysqlConfig(dsn string) (*mysql.Config, error) {
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

func mysqlPool(cfg *mysql.Config, conns int) (*sqlx.DB, error) {
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

func (e *mysqlEngine) transact(ctx context.Context, fn func(context.Context, runner) error) error {
	tx, err := e.db.BeginTxx(ctx, nil)
	if err != nil {
		return err //nolint:wrapcheck // translated by attempt
	}
	if err := fn(ctx, tx); err != nil {
		_ = tx.Rollback() // the server rolls back, whatever the error is
		if ctx.Err() == nil &&
			(errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)) {
			return fmt.Errorf("%w: %w", errConnectionLost, err)
		}
		return err
	}
	return tx.Commit() //nolint:wrapcheck // as above
}

func (e *mysqlEngine) autocommit(
	ctx context.Context,
	fn func(context.Context, runner) error,
) error {
	return fn(ctx, e.db)
}

func (e *mysqlEngine) urgent(ctx context.Context, fn func(context.Context, runner) error) error {
	return fn(ctx, e.fast)
}

func (e *mysqlEngine) reader() sqlx.QueryerContext { return e.db }

// close ends all connections. Their errors only tell that the server closed idle ones before.
func (e *mysqlEngine) close() error {
	_, _ = e.db.Close(), e.fast.Close()
	return nil
}
