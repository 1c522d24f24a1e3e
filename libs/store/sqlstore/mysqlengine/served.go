package mysqlengine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// ErrNotServing means that a node answers, but must not be used: it is read-only, or has not all
// data of its cluster.
var ErrNotServing = errors.New("the node does not serve")

// errTransfers is ErrNotServing of a node that still commits in its cluster: the donor of a node
// that joins.
var errTransfers = fmt.Errorf("%w, as it provides or receives data", ErrNotServing)

const (
	setIsolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	readSettings = "SHOW VARIABLES WHERE Variable_name IN " +
		"('wsrep_on','wsrep_provider','read_only','innodb_snapshot_isolation'," +
		"'in_predicate_conversion_threshold')"
	// setNoSnapshots switches off what MariaDB has on since 11.6: with it, a statement that reads
	// sessions and locks fires fails (1020) if another changed a fire meanwhile. At READ COMMITTED it
	// is to lock the row as it is now. Claims that meet would fail by the dozen.
	setNoSnapshots = "SET SESSION innodb_snapshot_isolation=OFF"
	// setNoConversion makes MariaDB read the keys of a long IN list by ranges of the index that the
	// statement is pinned to. By default it writes a list of 1,000 values, such as 334 keys of fires,
	// to a temporary table, and joins that in an order of its own.
	setNoConversion = "SET SESSION in_predicate_conversion_threshold=0"
	readStatus      = "SHOW STATUS WHERE Variable_name IN " +
		"('wsrep_ready','wsrep_local_state','wsrep_cluster_status')"
	// setLatestReads makes each read and each statement that writes wait until the node has applied
	// everything that was committed before, on any node. In a transaction, BEGIN waits.
	setLatestReads = "SET SESSION wsrep_sync_wait=7"
)

// prepare sets the isolation level of a connection, which is a separate statement because the two
// servers have different names for the variable. It returns what the server can do, or
// ErrNotServing. A read-only server is refused if there are others to try. A connection for which it
// returns errTransfers is prepared, too.
func prepare(
	ctx context.Context, conn mysqlConn, have engine.Capabilities, several bool,
) (engine.Capabilities, error) {
	if err := set(ctx, conn, setIsolation); err != nil {
		return have, err
	}
	settings, err := pairs(ctx, conn, readSettings)
	if err != nil {
		return have, fmt.Errorf("reading the server's settings: %w", err)
	}
	if settings["innodb_snapshot_isolation"] == "ON" {
		if err := set(ctx, conn, setNoSnapshots); err != nil {
			return have, err
		}
	}
	if v := settings["in_predicate_conversion_threshold"]; v != "" && v != "0" {
		if err := set(ctx, conn, setNoConversion); err != nil {
			return have, err
		}
	}
	// MariaDB has values other than ON, all of which refuse writes.
	if v := settings["read_only"]; several && v != "OFF" {
		return have, fmt.Errorf("%w: read_only is %s", ErrNotServing, v)
	}
	provider := settings["wsrep_provider"]
	if settings["wsrep_on"] != "ON" || provider == "" || strings.EqualFold(provider, "none") {
		return have, nil
	}
	status, err := pairs(ctx, conn, readStatus)
	if err != nil {
		return have, fmt.Errorf("reading the node's status: %w", err)
	}
	have = have.And(engine.Capabilities{SkipLocked: true})
	err = checkSynced(status)
	if err != nil && !errors.Is(err, errTransfers) {
		return have, err
	}
	if err := set(ctx, conn, setLatestReads); err != nil {
		return have, err
	}
	return have, err
}

// Values of wsrep_local_state: a node that has all data of its cluster, a donor, and a node that then
// applies what others have committed meanwhile.
const (
	synced = "4"
	donor  = "2"
	joined = "3"
)

// checkSynced refuses a Galera node that is in a minority, receives its data or provides it to
// another node.
func checkSynced(status map[string]string) error {
	ready, state, cluster := status["wsrep_ready"], status["wsrep_local_state"],
		status["wsrep_cluster_status"]
	err := ErrNotServing
	switch {
	case ready != "ON" || cluster != "Primary":
	case state == synced:
		return nil
	case state == donor || state == joined:
		err = errTransfers
	}
	return fmt.Errorf(
		"%w: wsrep_ready is %s, wsrep_local_state is %s, wsrep_cluster_status is %s",
		err, ready, state, cluster,
	)
}

func set(ctx context.Context, conn mysqlConn, statement string) error {
	if _, err := conn.ExecContext(ctx, statement, nil); err != nil {
		return fmt.Errorf("preparing a connection: %w", err)
	}
	return nil
}

// pairs returns the rows of a statement that has names and values.
func pairs(ctx context.Context, conn mysqlConn, statement string) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, statement, nil)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was doing
	}
	out := map[string]string{}
	row := make([]driver.Value, len(rows.Columns()))
	for {
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			return out, rows.Close() //nolint:wrapcheck // as above
		}
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		out[text(row[0])] = text(row[1])
	}
}

func text(v driver.Value) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

// servedConn ends with the first statement that its node refuses because it has left the cluster, or
// has ended the connection. The node has not run the statement, so database/sql and the store may
// repeat it elsewhere, unless it was a COMMIT. It also ends when it is retired, after the statement or
// transaction that it runs.
type servedConn struct {
	mysqlConn

	node   *node     // nil if there is only one
	number int       // of the node's connections
	broken bool      // it must not go back to the pool
	idle   time.Time // since when it was in the pool, when it was there last
}

const (
	notPrepared = 1047 // a node outside of its cluster runs no statements
	// wasIdle is MySQL's answer on a connection that was idle for longer than wait_timeout, for
	// example in a transaction of a process that stalled. MariaDB only ends the connection.
	wasIdle = 4031
)

func (c *servedConn) check(err error) error {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if ok && (e.Number == notPrepared || e.Number == wasIdle) {
		c.broken = true
		return driver.ErrBadConn
	}
	return c.named(err)
}

// named adds the node's address to the error of a lost connection, which the driver leaves out.
func (c *servedConn) named(err error) error {
	if c.node != nil && errors.Is(err, mysql.ErrInvalidConn) {
		return fmt.Errorf("node %s: %w", c.node.addr, err)
	}
	return err
}

func (c *servedConn) ExecContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Result, error) {
	res, err := c.mysqlConn.ExecContext(ctx, query, args)
	return res, c.check(err)
}

func (c *servedConn) QueryContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Rows, error) {
	rows, err := c.mysqlConn.QueryContext(ctx, query, args)
	return rows, c.check(err)
}

func (c *servedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if _, err := c.mysqlConn.BeginTx(ctx, opts); err != nil {
		return nil, c.check(err)
	}
	return servedTx{c, ctx}, nil
}

// servedTx ends its transaction by the deadline of the context that began it. The driver's own Commit
// has no context: it would wait for a silent server until the time limit of reads, which is far longer.
// A caller that leaves does not end a commit: nobody would know its result. It also names its node if
// the connection is lost.
type servedTx struct {
	conn *servedConn
	ctx  context.Context //nolint:containedctx // driver.Tx takes none
}

func (t servedTx) Commit() error   { return t.end("COMMIT") }
func (t servedTx) Rollback() error { return t.end("ROLLBACK") }

// end closes the connection if the server did not answer: the transaction may still be open, and the
// server rolls it back.
func (t servedTx) end(statement string) error {
	ctx := context.WithoutCancel(t.ctx)
	if at, ok := t.ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at)
		defer cancel()
	}
	_, err := t.conn.mysqlConn.ExecContext(ctx, statement, nil)
	if _, answered := errors.AsType[*mysql.MySQLError](err); err != nil && !answered {
		t.conn.broken = true
	}
	return t.conn.check(err)
}

func (c *servedConn) retired() bool { return c.node != nil && c.node.isRetired(c.number) }

// ResetSession refuses a connection of the pool that is to run nothing new, or that its server may
// be closing. The pool then opens another one. The pool itself closes idle connections only once a
// second, so it may return one at the instant at which the server closes it: the statement would be
// lost.
func (c *servedConn) ResetSession(ctx context.Context) error {
	if c.retired() || time.Since(c.idle) > maxIdleTime {
		return driver.ErrBadConn
	}
	return c.mysqlConn.ResetSession(ctx) //nolint:wrapcheck // database/sql looks at it
}

// IsValid reports whether the connection may go back to the pool, where it is idle from now on.
func (c *servedConn) IsValid() bool {
	c.idle = time.Now()
	return !c.broken && !c.retired() && c.mysqlConn.IsValid()
}
