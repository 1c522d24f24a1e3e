package sqldb

import (
	"context"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/mysqlengine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/sqliteengine"
)

// Dialect is everything in which the statements for the two databases differ.
type Dialect struct {
	Name string // folder of its migrations
	// now adds the store's clock, in ms, to a statement.
	now func(q *Statement)
	// ForUpdate locks the rows that a SELECT reads. SkipLocked also skips rows that others have
	// locked. SQLite has one writer, so it needs no row locks.
	ForUpdate, skipLocked string
	// ForShare keeps others from writing the rows that a SELECT reads.
	ForShare string
	// Tuples begins the right side of "(a,b) IN (…)".
	Tuples string
	// OnConflictNothing makes an INSERT keep an existing row with the same key. The store never
	// uses IGNORE, which also accepts bad data.
	OnConflictNothing func(column string) string
	// OnConflictUpdate begins the update of an existing row in an INSERT. value is a column of the
	// row that was to be inserted. greatest is the larger of two values.
	OnConflictUpdate func(key string) string
	Value            func(column string) string
	Greatest         string
	// CompareKeys adds "(a,b,…) > (1,2,…)", or with another operator (>=, <, <=), in a form for which
	// the database uses an index.
	CompareKeys func(q *Statement, operator string, columns []string, value func(i int))
	// ByPrimary and ByRun pin the index of statements on fires. On a fresh table without
	// statistics, MariaDB once chose another index and fell behind.
	ByPrimary, ByRun string
	// ByExpand pins the index of expansions: a scan would lock every timer that it reads. The others
	// pin the index of lists, for which an optimizer may otherwise scan the primary key.
	ByExpand, ByApp, ByTimer, ByLiveName, ByLastDue, ByNextDue string
	// ByLease and ByAppStatus pin indexes of jobs: a scan would lock jobs of others.
	ByLease, ByAppStatus string
	// ByResource pins the index of the audit trail by resource.
	ByResource string
	// OutcomesByApp and OutcomesByTimer pin the indexes of outcomes for which an optimizer would
	// take the other one.
	OutcomesByApp, OutcomesByTimer string
	// JoinOrdered joins a table to the one before it, in this order.
	JoinOrdered string
	// SingleWriter is true if only one transaction runs at a time. Transactions then never wait for
	// row locks, but each commit occupies the writer.
	SingleWriter bool
	// Partitioned is true if outcomes and attempts have partitions by the day of finished_ms.
	Partitioned bool
	// PreparedRows is how many rows the prepared forms of an INSERT have, most first, see
	// InsertBlocks. Without one, inserts are not prepared.
	PreparedRows []int
	// KeepsPrepared is true if the engine keeps prepared statements by their texts.
	KeepsPrepared bool
	// DeleteFrom begins a DELETE that is pinned to an index: a scan would wait for rows of others.
	// MySQL takes an index hint only in the form for several tables.
	DeleteFrom func(table, index string) string
	// classify returns the class of a driver's error.
	classify func(error) engine.Class
	// isFull reports whether a write found no room.
	isFull func(error) bool
	// SchemaColumns reads the columns of all tables, see schemaColumn.
	SchemaColumns string
	// NextNumber reads the number that the next row of a table gets, where the database numbers rows.
	NextNumber func(ctx context.Context, s *DB, c sqlx.QueryerContext, table string) (int64, error)
	// SetNextNumber sets it, to the given one or a later one.
	SetNextNumber func(table string, next int64) []*Statement
	// DeleteUpTo deletes the first limit rows that match, in an order that an index has.
	DeleteUpTo func(table, key, order, where string, limit int) *Statement
}

// MySQLDialect is the dialect of MySQL and MariaDB.
func MySQLDialect() *Dialect {
	return &Dialect{
		Name:              "mysql",
		now:               func(q *Statement) { q.Add("CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)") },
		ForUpdate:         " FOR UPDATE",
		skipLocked:        " FOR UPDATE SKIP LOCKED",
		ForShare:          " LOCK IN SHARE MODE",
		OnConflictNothing: func(column string) string { return " ON DUPLICATE KEY UPDATE " + column + "=" + column },
		OnConflictUpdate:  func(string) string { return " ON DUPLICATE KEY UPDATE " },
		Value:             func(column string) string { return "VALUES(" + column + ")" },
		Greatest:          "GREATEST",
		JoinOrdered:       " STRAIGHT_JOIN ",
		Partitioned:       true,

		ByPrimary:       " FORCE INDEX (PRIMARY)",
		ByRun:           " FORCE INDEX (by_run)",
		ByExpand:        " FORCE INDEX (by_expand)",
		ByLease:         " FORCE INDEX (by_lease)",
		ByAppStatus:     " FORCE INDEX (by_app_status)",
		ByResource:      " FORCE INDEX (by_resource)",
		ByApp:           " FORCE INDEX (by_app)",
		ByTimer:         " FORCE INDEX (by_timer)",
		ByLiveName:      " FORCE INDEX (by_live_name)",
		ByLastDue:       " FORCE INDEX (by_last_due)",
		ByNextDue:       " FORCE INDEX (by_next_due)",
		OutcomesByApp:   " FORCE INDEX (by_app)",
		OutcomesByTimer: " FORCE INDEX (by_timer)",
		CompareKeys:     compareKeysByRanges,
		DeleteFrom: func(table, index string) string {
			return "DELETE " + table + " FROM " + table + " FORCE INDEX (" + index + ")"
		},
		SchemaColumns: mysqlColumns,
		NextNumber:    mysqlNextNumber,
		SetNextNumber: mysqlSetNextNumber,
		classify:      mysqlengine.Classify,
		isFull:        mysqlengine.IsFull,
		DeleteUpTo: func(table, _, order, where string, limit int) *Statement {
			return Stmt(
				"DELETE FROM " + table + " WHERE " + where + " ORDER BY " + order + " LIMIT ",
			).Int(int64(limit))
		},
	}
}

// SQLiteDialect is the dialect of SQLite. nowMS is the store's clock.
func SQLiteDialect(nowMS func() int64) *Dialect {
	return &Dialect{
		Name:              "sqlite",
		now:               func(q *Statement) { q.Int(nowMS()) },
		Tuples:            "VALUES ",
		OnConflictNothing: func(string) string { return " ON CONFLICT DO NOTHING" },
		OnConflictUpdate:  func(key string) string { return " ON CONFLICT (" + key + ") DO UPDATE SET " },
		Value:             func(column string) string { return "excluded." + column },
		Greatest:          "MAX",
		JoinOrdered:       " CROSS JOIN ",

		ByRun:           " INDEXED BY fires_by_run",
		OutcomesByApp:   " INDEXED BY outcomes_by_app",
		OutcomesByTimer: " INDEXED BY outcomes_by_timer",
		CompareKeys:     compareKeysByRow,
		SingleWriter:    true,
		PreparedRows:    []int{store.MaxBatch, 50},
		KeepsPrepared:   true,
		DeleteFrom:      func(table, _ string) string { return "DELETE FROM " + table },
		SchemaColumns:   sqliteColumns,
		NextNumber:      sqliteNextNumber,
		SetNextNumber:   sqliteSetNextNumber,
		classify:        sqliteengine.Classify,
		isFull:          sqliteengine.IsFull,
		// SQLite is built without DELETE … LIMIT.
		DeleteUpTo: func(table, key, order, where string, limit int) *Statement {
			return Stmt(
				"DELETE FROM " + table + " WHERE (" + key + ") IN (SELECT " + key + " FROM " + table + " WHERE " + where +
					" ORDER BY " + order + " LIMIT ",
			).Int(int64(limit)).
				Add(")")
		},
	}
}

// Set makes an INSERT update columns of an existing row.
func (d *Dialect) Set(key string, columns ...string) string {
	assignments := make([]string, len(columns))
	for i, c := range columns {
		assignments[i] = c + "=" + d.Value(c)
	}
	return d.OnConflictUpdate(key) + strings.Join(assignments, ",")
}

// EqualTo adds "(a=1 AND b=2 …)". MariaDB scans the whole table for an UPDATE with "(a,b) IN
// ((1,2))".
func (q *Statement) EqualTo(columns string, values ...int64) *Statement {
	and := "("
	for i, column := range strings.Split(columns, ",") {
		q.Add(and).Add(column).Add("=").Int(values[i])
		and = " AND "
	}
	return q.Add(")")
}

// NowMS adds the store's clock.
func (q *Statement) NowMS(d *Dialect) *Statement {
	d.now(q)
	return q
}

// KeyAfter adds "(a,b,…) > (1,2,…)".
func (d *Dialect) KeyAfter(q *Statement, columns []string, values []int64) {
	d.CompareInts(q, ">", columns, values)
}

// CompareInts is CompareKeys for whole numbers.
func (d *Dialect) CompareInts(q *Statement, operator string, columns []string, values []int64) {
	d.CompareKeys(q, operator, columns, func(i int) { q.Int(values[i]) })
}

// compareKeysByRow compares rows, for which SQLite uses an index.
func compareKeysByRow(q *Statement, operator string, columns []string, value func(i int)) {
	q.Add("(" + strings.Join(columns, ",") + ")" + operator)
	for i := range columns {
		if i == 0 {
			q.Add("(")
		} else {
			q.Add(",")
		}
		value(i)
	}
	q.Add(")")
}

// compareKeysByRanges writes the comparison as ranges, (a>1 OR a=1 AND b>2 OR …). MySQL uses no
// index for a comparison of rows.
func compareKeysByRanges(q *Statement, operator string, columns []string, value func(i int)) {
	strict := operator[:1]
	q.Add("(")
	for i := range columns {
		if i > 0 {
			q.Add(" OR ")
		}
		for j := range i {
			q.Add(columns[j] + "=")
			value(j)
			q.Add(" AND ")
		}
		if i == len(columns)-1 {
			strict = operator
		}
		q.Add(columns[i] + strict)
		value(i)
	}
	q.Add(")")
}
