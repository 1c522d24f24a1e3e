package mysqlengine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
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
func MigrationPool(cfg *mysql.Config) (*sql.DB, error) {
	cfg = cfg.Clone()
	cfg.ReadTimeout = max(cfg.ReadTimeout, migrationTime)
	cfg.Params["wait_timeout"] = migrationWaitTimeoutS
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("opening connections for migrations: %w", err)
	}
	return sql.OpenDB(repeatable{readCommitted{c}}), nil
}

type repeatable struct{ driver.Connector }

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
	conn, err := r.Connector.Connect(ctx)
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
