package sqlstore

import (
	"context"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/mysqlengine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/sqliteengine"
)

// dialect is everything in which the statements for the two databases differ.
type dialect struct {
	name string // folder of its migrations
	// now adds the store's clock, in ms, to a statement.
	now func(q *statement)
	// forUpdate locks the rows that a SELECT reads. skipLocked also skips rows that others have
	// locked. SQLite has one writer, so it needs no row locks.
	forUpdate, skipLocked string
	// forShare keeps others from writing the rows that a SELECT reads.
	forShare string
	// tuples begins the right side of "(a,b) IN (…)".
	tuples string
	// onConflictNothing makes an INSERT keep an existing row with the same key. The store never
	// uses IGNORE, which also accepts bad data.
	onConflictNothing func(column string) string
	// onConflictUpdate begins the update of an existing row in an INSERT. value is a column of the
	// row that was to be inserted. greatest is the larger of two values.
	onConflictUpdate func(key string) string
	value            func(column string) string
	greatest         string
	// compareKeys adds "(a,b,…) > (1,2,…)", or with another operator (>=, <, <=), in a form for which
	// the database uses an index.
	compareKeys func(q *statement, operator string, columns []string, value func(i int))
	// byPrimary and byRun pin the index of statements on fires. On a fresh table without
	// statistics, MariaDB once chose another index and fell behind.
	byPrimary, byRun string
	// byExpand pins the index of expansions: a scan would lock every timer that it reads. The others
	// pin the index of lists, for which an optimizer may otherwise scan the primary key.
	byExpand, byApp, byTimer, byLiveName, byLastDue, byNextDue string
	// byLease and byAppStatus pin indexes of jobs: a scan would lock jobs of others.
	byLease, byAppStatus string
	// byResource pins the index of the audit trail by resource.
	byResource string
	// outcomesByApp and outcomesByTimer pin the indexes of outcomes for which an optimizer would
	// take the other one.
	outcomesByApp, outcomesByTimer string
	// joinOrdered joins a table to the one before it, in this order.
	joinOrdered string
	// singleWriter is true if only one transaction runs at a time. Transactions then never wait for
	// row locks, but each commit occupies the writer.
	singleWriter bool
	// partitioned is true if outcomes and attempts have partitions by the day of finished_ms.
	partitioned bool
	// preparedRows is how many rows the prepared forms of an INSERT have, most first, see
	// insertBlocks. Without one, inserts are not prepared.
	preparedRows []int
	// deleteFrom begins a DELETE that is pinned to an index: a scan would wait for rows of others.
	// MySQL takes an index hint only in the form for several tables.
	deleteFrom func(table, index string) string
	// classify returns the class of a driver's error.
	classify func(error) engine.Class
	// isFull reports whether a write found no room.
	isFull func(error) bool
	// schemaColumns reads the columns of all tables, see schemaColumn.
	schemaColumns string
	// nextNumber reads the number that the next row of a table gets, where the database numbers rows.
	nextNumber func(ctx context.Context, s *Store, c sqlx.QueryerContext, table string) (int64, error)
	// setNextNumber sets it, to the given one or a later one.
	setNextNumber func(table string, next int64) []*statement
	// deleteUpTo deletes the first limit rows that match, in an order that an index has.
	deleteUpTo func(table, key, order, where string, limit int) *statement
}

func mysqlDialect() *dialect {
	return &dialect{
		name:              "mysql",
		now:               func(q *statement) { q.add("CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)") },
		forUpdate:         " FOR UPDATE",
		skipLocked:        " FOR UPDATE SKIP LOCKED",
		forShare:          " LOCK IN SHARE MODE",
		onConflictNothing: func(column string) string { return " ON DUPLICATE KEY UPDATE " + column + "=" + column },
		onConflictUpdate:  func(string) string { return " ON DUPLICATE KEY UPDATE " },
		value:             func(column string) string { return "VALUES(" + column + ")" },
		greatest:          "GREATEST",
		joinOrdered:       " STRAIGHT_JOIN ",
		partitioned:       true,

		byPrimary:       " FORCE INDEX (PRIMARY)",
		byRun:           " FORCE INDEX (by_run)",
		byExpand:        " FORCE INDEX (by_expand)",
		byLease:         " FORCE INDEX (by_lease)",
		byAppStatus:     " FORCE INDEX (by_app_status)",
		byResource:      " FORCE INDEX (by_resource)",
		byApp:           " FORCE INDEX (by_app)",
		byTimer:         " FORCE INDEX (by_timer)",
		byLiveName:      " FORCE INDEX (by_live_name)",
		byLastDue:       " FORCE INDEX (by_last_due)",
		byNextDue:       " FORCE INDEX (by_next_due)",
		outcomesByApp:   " FORCE INDEX (by_app)",
		outcomesByTimer: " FORCE INDEX (by_timer)",
		compareKeys:     compareKeysByRanges,
		deleteFrom: func(table, index string) string {
			return "DELETE " + table + " FROM " + table + " FORCE INDEX (" + index + ")"
		},
		schemaColumns: mysqlColumns,
		nextNumber:    mysqlNextNumber,
		setNextNumber: mysqlSetNextNumber,
		classify:      mysqlengine.Classify,
		isFull:        mysqlengine.IsFull,
		deleteUpTo: func(table, _, order, where string, limit int) *statement {
			return stmt(
				"DELETE FROM " + table + " WHERE " + where + " ORDER BY " + order + " LIMIT ",
			).int(int64(limit))
		},
	}
}

func sqliteDialect(nowMS func() int64) *dialect {
	return &dialect{
		name:              "sqlite",
		now:               func(q *statement) { q.int(nowMS()) },
		tuples:            "VALUES ",
		onConflictNothing: func(string) string { return " ON CONFLICT DO NOTHING" },
		onConflictUpdate:  func(key string) string { return " ON CONFLICT (" + key + ") DO UPDATE SET " },
		value:             func(column string) string { return "excluded." + column },
		greatest:          "MAX",
		joinOrdered:       " CROSS JOIN ",

		byRun:           " INDEXED BY fires_by_run",
		outcomesByApp:   " INDEXED BY outcomes_by_app",
		outcomesByTimer: " INDEXED BY outcomes_by_timer",
		compareKeys:     compareKeysByRow,
		singleWriter:    true,
		preparedRows:    []int{store.MaxBatch, 50},
		deleteFrom:      func(table, _ string) string { return "DELETE FROM " + table },
		schemaColumns:   sqliteColumns,
		nextNumber:      sqliteNextNumber,
		setNextNumber:   sqliteSetNextNumber,
		classify:        sqliteengine.Classify,
		isFull:          sqliteengine.IsFull,
		// SQLite is built without DELETE … LIMIT.
		deleteUpTo: func(table, key, order, where string, limit int) *statement {
			return stmt(
				"DELETE FROM " + table + " WHERE (" + key + ") IN (SELECT " + key + " FROM " + table + " WHERE " + where +
					" ORDER BY " + order + " LIMIT ",
			).int(int64(limit)).
				add(")")
		},
	}
}

// set makes an INSERT update columns of an existing row.
func (d *dialect) set(key string, columns ...string) string {
	assignments := make([]string, len(columns))
	for i, c := range columns {
		assignments[i] = c + "=" + d.value(c)
	}
	return d.onConflictUpdate(key) + strings.Join(assignments, ",")
}

// equalTo adds "(a=1 AND b=2 …)". MariaDB scans the whole table for an UPDATE with "(a,b) IN
// ((1,2))".
func (q *statement) equalTo(columns string, values ...int64) *statement {
	and := "("
	for i, column := range strings.Split(columns, ",") {
		q.add(and).add(column).add("=").int(values[i])
		and = " AND "
	}
	return q.add(")")
}

// nowMS adds the store's clock.
func (q *statement) nowMS(d *dialect) *statement {
	d.now(q)
	return q
}

// keyAfter adds "(a,b,…) > (1,2,…)".
func (d *dialect) keyAfter(q *statement, columns []string, values []int64) {
	d.compareInts(q, ">", columns, values)
}

// compareInts is compareKeys for whole numbers.
func (d *dialect) compareInts(q *statement, operator string, columns []string, values []int64) {
	d.compareKeys(q, operator, columns, func(i int) { q.int(values[i]) })
}

// compareKeysByRow compares rows, for which SQLite uses an index.
func compareKeysByRow(q *statement, operator string, columns []string, value func(i int)) {
	q.add("(" + strings.Join(columns, ",") + ")" + operator)
	for i := range columns {
		if i == 0 {
			q.add("(")
		} else {
			q.add(",")
		}
		value(i)
	}
	q.add(")")
}

// compareKeysByRanges writes the comparison as ranges, (a>1 OR a=1 AND b>2 OR …). MySQL uses no
// index for a comparison of rows.
func compareKeysByRanges(q *statement, operator string, columns []string, value func(i int)) {
	strict := operator[:1]
	q.add("(")
	for i := range columns {
		if i > 0 {
			q.add(" OR ")
		}
		for j := range i {
			q.add(columns[j] + "=")
			value(j)
			q.add(" AND ")
		}
		if i == len(columns)-1 {
			strict = operator
		}
		q.add(columns[i] + strict)
		value(i)
	}
	q.add(")")
}
