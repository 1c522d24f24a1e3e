package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MySQL commits every statement of a migration by itself, so that one which was cut off halfway
// begins again with what is done already. What a statement would add and is there, counts as added:
// each of ours adds one thing, or several in one statement, which the server does as a whole or not
// at all.
const (
	tableExists     = 1050
	duplicateColumn = 1060
	duplicateKey    = 1061
)

const (
	// migrationTime bounds one statement, as long as the lock lasts: changing a table of many rows
	// takes its time, and giving up would not end it.
	migrationTime = time.Hour
	// migrationSilenceS is longer than a process stands still on a machine that is out of breath: a
	// connection that the server closes between two statements is a migration that failed.
	migrationSilenceS = "120"
)

// migrationPool opens connections on which migrations can be repeated, and which are not given up.
func migrationPool(cfg *mysql.Config) (*sql.DB, error) {
	cfg = cfg.Clone()
	cfg.ReadTimeout = max(cfg.ReadTimeout, migrationTime)
	cfg.Params["wait_timeout"] = migrationSilenceS
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("opening connections for migrations: %w", err)
	}
	return sql.OpenDB(repeatable{readCommitted{c}}), nil
}

type repeatable struct{ driver.Connector }

// mysqlConn is what the driver's connections can do, and what database/sql looks for.
type mysqlConn interface { //nolint:interfacebloat // the driver's, not ours
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

func (r repeatable) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // database/sql looks at it
	}
	whole, ok := conn.(mysqlConn)
	if !ok {
		return nil, errors.Join(
			errors.New("the driver's connection is not what it was"),
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
