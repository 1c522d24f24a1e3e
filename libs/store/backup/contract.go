package backup

import (
	"context"
	"time"
)

// A row has a value for each column: nil, int64 or []byte. Text is bytes, too.

// Source is what a store was at one instant.
type Source interface {
	// Info tells what the source is.
	Info(ctx context.Context) (Info, error)
	// Tables returns the tables that are part of a backup.
	Tables(ctx context.Context) ([]Table, error)
	// ReadTable calls each with every row of a table, in order of its key. It ends with the first
	// error of each. The row is valid during the call.
	ReadTable(ctx context.Context, table string, each func(row []any) error) error
}

// Info tells what a source is.
type Info struct {
	Database string    // mysql or sqlite
	Schema   int64     // version of the schema
	At       time.Time // the instant of the snapshot by the database's clock, to the millisecond
}

// Table is a table of the schema.
type Table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
	// Next is the number that the next row gets, where the database numbers them, else 0. It may be
	// later than that of the snapshot.
	Next int64 `json:"next,omitempty"`
}

// Target is a store into which a backup is restored.
type Target interface {
	// Begin begins a restore, or continues it, and returns the files of the parts that are there
	// already. It refuses a store that has rows of anybody else, and one that has parts of another
	// backup; then it changes nothing. id stands for the backup. Until Finish, no service can use the
	// store.
	Begin(ctx context.Context, id string, m *Manifest) (loaded map[string]bool, err error)
	// Load adds the rows of a part and notes that it is there, in one transaction. A part that is
	// there already changes nothing.
	Load(ctx context.Context, table *Table, file string, rows [][]any) error
	// Finish checks that each table has the rows of the backup and no others, prepares the store for
	// services, and lets them use it. If it was interrupted, it may be repeated.
	Finish(ctx context.Context, m *Manifest) error
}
