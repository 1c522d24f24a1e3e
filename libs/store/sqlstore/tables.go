package sqlstore

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// createdTables returns the tables that the migrations of a dialect up to a version create, with
// their columns. Others in the database belong to somebody else, or to a lock or a restore.
func createdTables(folder string, version int64) (map[string][]string, error) {
	tables := map[string][]string{}
	err := fs.WalkDir(
		migrations,
		"migrations/"+folder,
		func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			n, err := goose.NumericComponent(p)
			if err != nil || n > version {
				return err
			}
			text, err := fs.ReadFile(migrations, p)
			addTables(tables, string(text))
			return err
		},
	)
	if err != nil {
		return nil, fmt.Errorf("reading the migrations: %w", err)
	}
	return tables, nil
}

// addTables adds the tables that a migration creates. Each column has a line, which begins with four
// spaces and its name in small letters; keys and constraints are in capitals.
func addTables(tables map[string][]string, migration string) {
	table := ""
	for line := range strings.Lines(migration) {
		created, creates := strings.CutPrefix(line, "CREATE TABLE ")
		switch {
		case creates:
			table, _, _ = strings.Cut(strings.TrimPrefix(created, "IF NOT EXISTS "), " ")
		case strings.HasPrefix(line, ")"):
			table = ""
		case table != "" && strings.HasPrefix(line, "    "):
			column, _, _ := strings.Cut(line[4:], " ")
			if column != "" && strings.Trim(column, nameLetters) == "" {
				tables[table] = append(tables[table], column)
			}
		}
	}
}

const nameLetters = "abcdefghijklmnopqrstuvwxyz0123456789_"

// requireOwnTables refuses a database in which another application has a table with the name of one
// of ours. MySQL's migrations would take it for theirs, because they can be repeated. It compares
// the columns of CREATE TABLE: those that a later migration adds may not be there yet.
//
// If the tables are already migrated, all must be there. One is missing if another application uses
// goose, too: its goose_db_version then has migrations that are not ours.
func requireOwnTables(
	ctx context.Context, c sqlx.QueryerContext, d *sqldb.Dialect, version int64, migrated bool,
) error {
	ours, err := createdTables(d.Name, version)
	if err != nil {
		return err
	}
	var columns []schemaColumn
	if err := sqlx.SelectContext(ctx, c, &columns, d.SchemaColumns); err != nil {
		return fmt.Errorf("reading the columns of the tables: %w", err)
	}
	have := map[string][]string{}
	for _, c := range columns {
		have[c.Table] = append(have[c.Table], c.Column)
	}
	for _, table := range slices.Sorted(maps.Keys(ours)) {
		if have[table] == nil {
			if migrated {
				return fmt.Errorf(
					"table %s is missing, although goose_db_version has the migration that creates it: "+
						"if another application made goose_db_version, give Carillon a database of its own, "+
						"otherwise restore a backup",
					table,
				)
			}
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(ours[table]), func(column string) bool {
			return slices.Contains(have[table], column)
		})
		if len(missing) > 0 {
			return fmt.Errorf(
				"table %s is another application's, because it has no column %s: "+
					"give Carillon a database of its own",
				table, strings.Join(missing, ", "),
			)
		}
	}
	return nil
}
