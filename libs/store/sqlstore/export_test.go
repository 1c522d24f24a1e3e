package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/search"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/mysqlengine"
	"github.com/carillon-timer/carillon/libs/timer"
)

// OnStatement calls f with the text of every later statement. Call it before the store is used.
func (s *Store) OnStatement(f func(text string)) { s.db.OnStatement = f }

// SetMaxEditFires sets the largest number of fires that an edit plans itself.
func (s *Store) SetMaxEditFires(n int) { s.scheduling.MaxEditFires = n }

// SetSearchLimits makes searches examine little at once, and sort at most exact timers.
func (s *Store) SetSearchLimits(exact int) {
	*s.searchLimits = search.Limits{
		Chunk: 7, Budget: 20, Collect: 15, Exact: exact, Outcomes: 10, Count: 1_000_000, Names: 11,
	}
}

// SetPreparedRows sets how many rows the prepared forms of an INSERT have. Call it before the store
// is used.
func (s *Store) SetPreparedRows(n ...int) { s.db.Dialect.PreparedRows = n }

// SetIDs takes timer ids from the clock now: two stores with a stopped clock create the same ids.
func (s *Store) SetIDs(now func() time.Time) { s.scheduling.IDs = timer.NewIDs(now) }

// PurgePartitions is what PurgeExpired does to outcomes and attempts, at a given instant.
func (s *Store) PurgePartitions(ctx context.Context, nowMS, boundMS int64) error {
	return s.partitions.Purge(ctx, nowMS, boundMS)
}

// SchemaVersion is the number of the latest migration.
const SchemaVersion int64 = schemaVersion

// Migrations returns the files of the migrations.
func Migrations() fs.FS { return migrations }

// OtherStatements returns the statements that OnStatement does not see.
func OtherStatements() []string {
	return mysqlengine.Statements()
}

// MigrateLock returns the name of the migrations' lock in a database.
func MigrateLock(database string) string { return mysqlengine.MigrateLock.Of(database) }

// Exec runs a statement and returns how many rows it matched.
func (s *Store) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	return s.db.Autocommit(
		ctx,
		"testing",
		func() *sqldb.Statement { return &sqldb.Statement{Text: []byte(text), Args: args} },
	)
}

// MigrationPool opens the connections of migrations.
func MigrationPool(dsn string) (*sql.DB, error) {
	cfg, err := mysqlengine.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	return mysqlengine.MigrationPool(cfg)
}

// Number reads one number.
func (s *Store) Number(ctx context.Context, text string) (n int, err error) {
	err = s.db.Read(ctx, "testing", func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.db.SelectOne(ctx, c, &n, sqldb.Stmt(text))
	})
	return n, err
}

// Port returns the port of the node that a read goes to.
func (s *Store) Port(ctx context.Context) (port int, err error) {
	err = s.db.Read(ctx, "testing", func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.db.SelectOne(ctx, c, &port, sqldb.Stmt("SELECT @@port"))
	})
	return port, err
}

// TranslateMySQL gives an error of MySQL its code.
func TranslateMySQL(
	what string,
	err error,
) error {
	return sqldb.MySQLDialect().Translate(what, err)
}

// OnStatement calls f with the text of every later statement.
func (s *Snapshot) OnStatement(f func(text string)) { s.store.OnStatement(f) }

// PlanOfPage returns how the database reads the page of a snapshot behind a row in the middle of a
// table.
func (s *Snapshot) PlanOfPage(ctx context.Context, table string) (plan string, err error) {
	var key []any
	n := 0
	err = s.ReadTable(ctx, table, func(row []any) error {
		if n++; n <= 300 {
			key = s.tables[table].keyOf(row)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	explain := "EXPLAIN "
	if s.store.db.Dialect.SingleWriter {
		explain = "EXPLAIN QUERY PLAN "
	}
	q := s.pageBehind(s.tables[table], key)
	rows, err := s.conn.Conn().QueryxContext(ctx, explain+string(q.Text), q.Args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := rows.SliceScan()
		if err != nil {
			return "", err
		}
		for _, v := range row {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			plan += fmt.Sprint(v, " ")
		}
	}
	return plan, rows.Err()
}
