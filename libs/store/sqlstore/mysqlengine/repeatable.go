package mysqlengine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MySQL commits every statement of a migration by itself. A migration that was cut off therefore
// starts again with some of its changes already made. A statement whose change exists already
// counts as successful. Each of our statements makes one change, or several that the server applies
// as a whole.
const (
	tableExists     = 1050
	duplicateColumn = 1060
	duplicateKey    = 1061
)

const (
	// migrationTime bounds one statement, and is as long as the lock lasts. A change of a large
	// table takes time, and giving up would not stop the server.
	migrationTime = time.Hour
	// migrationWaitTimeoutS is longer than a process stalls on an overloaded machine. The migration
	// fails if the server closes its connection between two statements.
	migrationWaitTimeoutS = "120"
)

// MigrationPool opens connections that can repeat migrations and that wait long enough for them.
//
// They are all on one node, the first that serves: a statement on another node may come before the
// last one has arrived there.
func MigrationPool(cfg *Config) (*sql.DB, error) {
	own := *cfg
	own.Config = cfg.Clone()
	own.ReadTimeout = max(cfg.ReadTimeout, migrationTime)
	own.Params["wait_timeout"] = migrationWaitTimeoutS
	n, err := newNodes(&own)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(repeatable{n}), nil
}

type repeatable struct{ *nodes }

// Close ends the goroutines of the nodes.
func (r repeatable) Close() error {
	r.close()
	return nil
}

// mysqlConn is the set of driver interfaces that database/sql looks for.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	mysqlQuerier
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// mysqlQuerier runs statements.
type mysqlQuerier interface {
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
}

func (r repeatable) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.nodes.Connect(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // database/sql looks at it
	}
	whole, ok := conn.(mysqlConn)
	if !ok {
		return nil, errors.Join(
			errors.New("unexpected driver connection type"),
			conn.Close(),
		)
	}
	return repeatableConn{whole}, nil
}

type repeatableConn struct{ mysqlConn }

func (c repeatableConn) ExecContext(
	ctx context.Context,
	query string,
	args []driver.NamedValue,
) (driver.Result, error) {
	res, err := c.mysqlConn.ExecContext(ctx, query, args)
	var e *mysql.MySQLError
	if errors.As(err, &e) &&
		(e.Number == tableExists || e.Number == duplicateColumn || e.Number == duplicateKey) {
		return driver.RowsAffected(0), nil
	}
	return res, err //nolint:wrapcheck // database/sql looks at it
}
