package sqliteengine

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// maxPrepared limits how many prepared statements a connection keeps, and so their memory.
const maxPrepared = 64

// connection is a connection with its prepared statements. One goroutine uses it at a time.
type connection struct {
	*sqlx.Conn

	prepared map[string]*sql.Stmt
}

var _ engine.Preparer = (*connection)(nil)

// ExecPrepared executes a statement. It prepares a text the first time.
func (c *connection) ExecPrepared(
	ctx context.Context,
	text string,
	args ...any,
) (sql.Result, error) {
	st := c.prepared[text]
	if st == nil {
		if len(c.prepared) == maxPrepared { // not in practice: the program has fewer texts
			c.forget()
		}
		var err error
		if st, err = c.PrepareContext(ctx, text); err != nil {
			return nil, fmt.Errorf("preparing a statement: %w", err)
		}
		if c.prepared == nil {
			c.prepared = make(map[string]*sql.Stmt)
		}
		c.prepared[text] = st
	}
	return st.ExecContext(ctx, args...) //nolint:wrapcheck // as ExecContext
}

// Close ends the prepared statements and returns the connection to its pool.
func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close() //nolint:wrapcheck // the caller says what it was doing
}

func (c *connection) forget() {
	for _, st := range c.prepared {
		_ = st.Close()
	}
	c.prepared = nil
}
