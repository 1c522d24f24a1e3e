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
	// urgentConns are kept apart from the pool: a lease that waits behind batches would run out.
	urgentConns = 2
	// silenceS is after how many seconds the server closes a connection that sends nothing, and
	// rolls its transaction back: a process that is frozen in the middle of one keeps its rows
	// locked no longer than that.
	silenceS = "2"
	// idleTime closes connections that are not needed, before the server does.
	idleTime = 1500 * time.Millisecond
	// lockWaitS is how many seconds a statement waits for a row: then its transaction is rolled
	// back and repeated.
	lockWaitS = "5"
	dialTime  = 5 * time.Second
	// ioTime ends a read or write on a connection whose server went away without a word.
	ioTime = 30 * time.Second
)

// mysqlEngine is two pools: one for the work, one for what must not wait.
type mysqlEngine struct {
	db   *sqlx.DB
	fast *sqlx.DB
}

// OpenMySQL makes a store on MySQL 8 or MariaDB 10.11. It connects to nothing yet, and fails only
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
		// The lock is around all of goose, which looks at its table before it would take a lock of
		// its own: another process may have made that table and not yet filled it, since MySQL
		// commits every DDL by itself.
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
		return s.trimPartitions(ctx, e.db, nowMS, boundMS)
	}
	return s, nil
}

// mysqlConfig reads a DSN and sets what the store depends on: matched rows are counted, not changed
// ones; parameters are put in by the driver, which saves the round trip of preparing; statements
// are strict; times are UTC.
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
	cfg.Params["wait_timeout"] = silenceS
	// what it would say of connections that were closed, the error says too.
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
	db.SetConnMaxIdleTime(idleTime)
	return db, nil
}

const setIsolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"

// readCommitted sets the isolation of every new connection. It is a statement of its own, for the
// two servers name the variable differently.
type readCommitted struct{ driver.Connector }

func (c readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // database/sql looks at it
	}
	ex, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the driver cannot execute"), conn.Close())
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
		_ = tx.Rollback() // whatever it says, the server rolls back
		if ctx.Err() == nil &&
			(errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)) {
			return fmt.Errorf("%w: %w", errConnectionLost, err)
		}
		return err
	}
	return tx.Commit() //nolint:wrapcheck // as above
}

func (e *mysqlEngine) alone(ctx context.Context, fn func(context.Context, runner) error) error {
	return fn(ctx, e.db)
}

func (e *mysqlEngine) urgent(ctx context.Context, fn func(context.Context, runner) error) error {
	return fn(ctx, e.fast)
}

func (e *mysqlEngine) reader() sqlx.QueryerContext { return e.db }

// close ends all connections. An error could only say of one that the server ended it before, for
// its silence.
func (e *mysqlEngine) close() error {
	_, _ = e.db.Close(), e.fast.Close()
	return nil
}
