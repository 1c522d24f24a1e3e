package sqlstore

import (
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// dialect is all in which the two databases differ, as far as statements go.
type dialect struct {
	name string // of the folder of its migrations
	// now adds the store's clock in ms to a statement.
	now func(q *statement)
	// forUpdate locks the rows that a SELECT reads; skipLocked passes by those that another has
	// locked. SQLite has one writer, which needs no row locks.
	forUpdate, skipLocked string
	// forShare keeps others from writing the rows that a SELECT reads.
	forShare string
	// tuples opens the right side of "(a,b) IN (…)".
	tuples string
	// nothing makes an INSERT leave a row alone whose key is taken: never IGNORE, which also
	// swallows bad data.
	nothing func(column string) string
	// conflict opens what an INSERT does about a row that is there already; value names a column of
	// the row that was to be inserted; greatest is the larger of two.
	conflict func(key string) string
	value    func(column string) string
	greatest string
	// later adds "(a,b,…) > (1,2,…)" in the form for which the database walks an index.
	later func(q *statement, columns []string, values []int64)
	// byPrimary and byRun pin the plan of the statements on fires: on a fresh table without
	// statistics MariaDB once chose another index than the primary key, and fell behind.
	byPrimary, byRun string
	// byExpand pins the expansion: without it a scan would lock every timer on its way. byApp and
	// byTimer pin lists, which an optimizer that hopes for a short scan reads along the primary
	// key.
	byExpand, byApp, byTimer string
	// joined joins a table to the one before it, in that order.
	joined string
	// oneWriter says that transactions never wait for each other's rows, while each commit costs a
	// turn of the one writer.
	oneWriter bool
	// deleteFrom opens a DELETE that is pinned to an index: one that scans would wait for rows of
	// others. Only the form for many tables takes a hint.
	deleteFrom func(table, index string) string
	// classify says what an error of the driver means.
	classify func(error) class
	// deleteSome deletes at most limit rows that match, the first ones in an order that an index
	// has.
	deleteSome func(table, key, order, where string, limit int) *statement
}

// class is what an error of a driver means to the store.
type class int

const (
	classOther class = iota
	// the server is away, slow, full or refuses writes: the same may succeed later.
	classUnavailable
	classRepeat    // the transaction was rolled back for another's sake: repeat it at once
	classData      // the statement was refused for a value in it
	classDuplicate // a key is taken
)

func mysqlDialect() *dialect {
	return &dialect{
		name:       "mysql",
		now:        func(q *statement) { q.add("CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)") },
		forUpdate:  " FOR UPDATE",
		skipLocked: " FOR UPDATE SKIP LOCKED",
		forShare:   " LOCK IN SHARE MODE",
		nothing:    func(column string) string { return " ON DUPLICATE KEY UPDATE " + column + "=" + column },
		conflict:   func(string) string { return " ON DUPLICATE KEY UPDATE " },
		value:      func(column string) string { return "VALUES(" + column + ")" },
		greatest:   "GREATEST",
		joined:     " STRAIGHT_JOIN ",

		byPrimary: " FORCE INDEX (PRIMARY)",
		byRun:     " FORCE INDEX (by_run)",
		byExpand:  " FORCE INDEX (by_expand)",
		byApp:     " FORCE INDEX (by_app)",
		byTimer:   " FORCE INDEX (by_timer)",
		later:     laterByRanges,
		deleteFrom: func(table, index string) string {
			return "DELETE " + table + " FROM " + table + " FORCE INDEX (" + index + ")"
		},
		classify: classifyMySQL,
		deleteSome: func(table, _, order, where string, limit int) *statement {
			return stmt(
				"DELETE FROM " + table + " WHERE " + where + " ORDER BY " + order + " LIMIT ",
			).int(int64(limit))
		},
	}
}

func sqliteDialect(nowMS func() int64) *dialect {
	return &dialect{
		name:     "sqlite",
		now:      func(q *statement) { q.int(nowMS()) },
		tuples:   "VALUES ",
		nothing:  func(string) string { return " ON CONFLICT DO NOTHING" },
		conflict: func(key string) string { return " ON CONFLICT (" + key + ") DO UPDATE SET " },
		value:    func(column string) string { return "excluded." + column },
		greatest: "MAX",
		joined:   " CROSS JOIN ",

		byRun:      " INDEXED BY fires_by_run",
		later:      laterByRow,
		oneWriter:  true,
		deleteFrom: func(table, _ string) string { return "DELETE FROM " + table },
		classify:   classifySQLite,
		// SQLite is built without DELETE … LIMIT.
		deleteSome: func(table, key, order, where string, limit int) *statement {
			return stmt(
				"DELETE FROM " + table + " WHERE (" + key + ") IN (SELECT " + key + " FROM " + table + " WHERE " + where +
					" ORDER BY " + order + " LIMIT ",
			).int(int64(limit)).
				add(")")
		},
	}
}

// set makes an INSERT update columns of a row that is there already.
func (d *dialect) set(key string, columns ...string) string {
	assignments := make([]string, len(columns))
	for i, c := range columns {
		assignments[i] = c + "=" + d.value(c)
	}
	return d.conflict(key) + strings.Join(assignments, ",")
}

const fireKey = "due_ms,timer_id,series"

// same adds "(a=1 AND b=2 …)". It stands for "(a,b) IN ((1,2))", for which an UPDATE on MariaDB
// uses no index: it reads the whole table.
func (q *statement) same(columns string, values ...int64) *statement {
	and := "("
	for i, column := range strings.Split(columns, ",") {
		q.add(and).add(column).add("=").int(values[i])
		and = " AND "
	}
	return q.add(")")
}

// fires adds "(due_ms,timer_id,series) IN (…)" for a list that is not empty, sorted by primary key.
func (q *statement) fires(d *dialect, ids []timer.FireID) *statement {
	if len(ids) == 1 {
		return q.same(fireKey, ids[0].DueMS, int64(ids[0].Timer), ids[0].Series)
	}
	q.add("(" + fireKey + ") IN (" + d.tuples)
	for i, id := range ids {
		q.row(i == 0, id.DueMS, int64(id.Timer), id.Series)
	}
	return q.add(")")
}

// nowMS adds the store's clock.
func (q *statement) nowMS(d *dialect) *statement {
	d.now(q)
	return q
}

// laterByRow compares rows, which SQLite does along an index.
func laterByRow(q *statement, columns []string, values []int64) {
	q.add("(" + strings.Join(columns, ",") + ")>(").ints(values...).add(")")
}

// laterByRanges writes the comparison out as ranges of an index, (a>1 OR a=1 AND b>2 OR …), for
// MySQL uses none for a row.
func laterByRanges(q *statement, columns []string, values []int64) {
	q.add("(")
	for i := range columns {
		if i > 0 {
			q.add(" OR ")
		}
		for j := range i {
			q.add(columns[j] + "=").int(values[j]).add(" AND ")
		}
		q.add(columns[i] + ">").int(values[i])
	}
	q.add(")")
}
