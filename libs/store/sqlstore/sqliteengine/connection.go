package sqliteengine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// maxKept limits how many prepared statements a connection keeps, and so their memory: some
// kilobytes each.
const maxKept = 256

// connector opens connections that keep prepared statements.
type connector struct{ driver.Connector }

// Connect opens a connection.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // database/sql looks at errors of a driver
	}
	d, ok := conn.(driverConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the driver has connections of %T", conn), conn.Close())
	}
	return keepStatements(d, maxKept)
}

// driverConn is what the driver's connections can do.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// connection keeps the statements that it has prepared, except those that engine.Once marks: SQLite
// spends as much time on the text of a small statement as on its rows. database/sql lets one
// goroutine use it at a time.
type connection struct {
	driverConn

	kept *simplelru.LRU[string, *statement]
}

// statement is a prepared statement.
type statement struct {
	preparedStmt

	reading bool // rows of it are open, which another run would end
	dropped bool // its rows close it
}

type preparedStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func keepStatements(conn driverConn, limit int) (*connection, error) {
	kept, err := simplelru.NewLRU(limit, func(_ string, st *statement) { st.drop() })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keeping statements: %w", err), conn.Close())
	}
	return &connection{driverConn: conn, kept: kept}, nil
}

// ExecContext executes a statement.
func (c *connection) ExecContext(
	ctx context.Context, text string, args []driver.NamedValue,
) (driver.Result, error) {
	st, kept, err := c.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	if !kept {
		return c.driverConn.ExecContext(ctx, text, args) //nolint:wrapcheck // as Connect
	}
	return st.ExecContext(ctx, args) //nolint:wrapcheck // as Connect
}

// QueryContext runs a query.
func (c *connection) QueryContext(
	ctx context.Context, text string, args []driver.NamedValue,
) (driver.Rows, error) {
	st, kept, err := c.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	if !kept {
		return c.driverConn.QueryContext(ctx, text, args) //nolint:wrapcheck // as Connect
	}
	r, err := st.QueryContext(ctx, args)
	if err != nil {
		return nil, err //nolint:wrapcheck // as Connect
	}
	st.reading = true
	return &rows{Rows: r, of: st}, nil
}

// statement returns the prepared statement of a text, and false if none is to be used.
func (c *connection) statement(
	ctx context.Context, text string,
) (st *statement, kept bool, err error) {
	if engine.IsOnce(ctx) {
		return nil, false, nil
	}
	if st, ok := c.kept.Get(text); ok {
		return st, !st.reading, nil
	}
	made, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, false, err //nolint:wrapcheck // as Connect
	}
	p, ok := made.(preparedStmt)
	if !ok {
		err := fmt.Errorf("the driver has statements of %T", made)
		return nil, false, errors.Join(err, made.Close())
	}
	st = &statement{preparedStmt: p}
	c.kept.Add(text, st)
	return st, true, nil
}

// Close ends the statements and the connection.
func (c *connection) Close() error {
	c.kept.Purge()
	return c.driverConn.Close() //nolint:wrapcheck // as Connect
}

// drop ends the statement, or lets its rows do so.
func (s *statement) drop() {
	if s.dropped = true; !s.reading {
		_ = s.Close() // nothing depends on it, and the connection shows its own faults
	}
}

// rows are the rows of a prepared statement.
type rows struct {
	driver.Rows

	of *statement
}

// Close ends the reading.
func (r *rows) Close() error {
	err := r.Rows.Close()
	if !r.of.reading {
		return err //nolint:wrapcheck // as Connect
	}
	if r.of.reading = false; r.of.dropped {
		err = errors.Join(err, r.of.Close())
	}
	return err //nolint:wrapcheck // as Connect
}
