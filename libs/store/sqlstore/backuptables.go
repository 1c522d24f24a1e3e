package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// leftOutTables are those that no backup has, and why. All others that the migrations create are in
// it.
var leftOutTables = map[string]string{
	"schema_readers": "migrations write it",
	"app_guards":     "only that its counters change matters",
	"deployment":     "it names this database",
	"processes":      "it has processes that the target does not have",
	"slices": "its leases are of messages that the target's bus does not have: " +
		"schedulers make the slices of each minute from the cursor on again",
}

// leftOutColumns are those that no backup has, by table. They have a default.
var leftOutColumns = map[string]string{
	"timers": "guard", // only that this counter changes matters; SQLite does not have it
}

// tablesWithRows are those that have rows in a new database. A restore replaces them.
var tablesWithRows = []string{"zone_replan"}

// columnKind is the type of a column.
type columnKind int

const (
	columnUnknown columnKind = iota
	columnNumber
	columnBytes
	columnText
)

// backupTable is a table that is part of a backup.
type backupTable struct {
	name    string
	columns []string
	kinds   []columnKind
	key     []string // of the primary key, in order
}

// schemaColumn is a column of a table of the database, in order of table and column.
type schemaColumn struct {
	Table  string `db:"tab"`
	Column string `db:"col"`
	Type   string `db:"type"`
	Key    int    `db:"key_position"` // in the primary key, 0: it is not part of it
}

// columnKinds has the kinds of the types that the schemas use.
var columnKinds = map[string]columnKind{
	"integer": columnNumber, "bigint": columnNumber, "int": columnNumber,
	"mediumint": columnNumber, "tinyint": columnNumber,
	"blob": columnBytes, "mediumblob": columnBytes, "varbinary": columnBytes, "binary": columnBytes,
	"text": columnText, "varchar": columnText,
}

// backupTables reads from the schema which tables are part of a backup, in order of name.
func (s *Store) backupTables(
	ctx context.Context, c sqlx.QueryerContext,
) ([]*backupTable, error) {
	ours, err := createdTables(s.db.Dialect.Name, schemaVersion)
	if err != nil {
		return nil, err
	}
	var columns []schemaColumn
	if err := s.db.SelectAll(ctx, c, &columns, sqldb.Stmt(s.db.Dialect.SchemaColumns)); err != nil {
		return nil, err
	}
	return tablesOf(columns, ours)
}

func tablesOf(columns []schemaColumn, ours map[string][]string) ([]*backupTable, error) {
	tables, keys := map[string]*backupTable{}, map[string]map[int]string{}
	for _, c := range columns {
		if ours[c.Table] == nil || leftOutTables[c.Table] != "" ||
			leftOutColumns[c.Table] == c.Column {
			continue
		}
		t := tables[c.Table]
		if t == nil {
			t = &backupTable{name: c.Table}
			tables[c.Table], keys[c.Table] = t, map[int]string{}
		}
		kind := columnKinds[c.Type]
		if kind == columnUnknown {
			return nil, fmt.Errorf(
				"column %s of table %s has the type %s, which backups do not know",
				c.Column, c.Table, c.Type,
			)
		}
		t.columns, t.kinds = append(t.columns, c.Column), append(t.kinds, kind)
		if c.Key > 0 {
			keys[c.Table][c.Key] = c.Column
		}
	}
	for name, t := range tables {
		for _, i := range slices.Sorted(maps.Keys(keys[name])) {
			t.key = append(t.key, keys[name][i])
		}
		if len(t.key) == 0 {
			return nil, fmt.Errorf(
				"table %s has no primary key, in whose order it could be read",
				name,
			)
		}
	}
	return slices.SortedFunc(maps.Values(tables), func(a, b *backupTable) int {
		return cmp.Compare(a.name, b.name)
	}), nil
}
