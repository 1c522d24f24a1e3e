package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/store/backup"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/mysqlengine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/sqliteengine"
)

// snapshotPage is how many rows one statement reads. A statement of a whole table would fail if the
// reader is slow: the server waits only so long until it can send on.
const snapshotPage = 5000

// Snapshot is the store at one instant, as the source of a backup. It takes no lock on rows, and no
// writer waits for it. It is not safe for concurrent use.
//
// While it is open, MySQL keeps the versions of rows that it sees, and SQLite's write-ahead log
// grows. It ends with its connection, and none can be opened for the same instant.
type Snapshot struct {
	store  *Store
	conn   snapshotConn
	atMS   int64
	schema int64
	tables map[string]*backupTable
}

var _ backup.Source = (*Snapshot)(nil)

// snapshotConn is a connection in a transaction that reads.
type snapshotConn interface {
	Conn() engine.Runner
	Around(ctx context.Context, fn func() error) error
	Close() error
}

// SnapshotMySQL opens a snapshot of a store on MySQL or MariaDB.
func SnapshotMySQL(ctx context.Context, o MySQLOptions) (*Snapshot, error) {
	cfg, err := mysqlConfig(&o)
	if err != nil {
		return nil, err
	}
	d := sqldb.MySQLDialect()
	conn, err := mysqlengine.OpenSnapshot(ctx, cfg)
	if err != nil {
		return nil, d.Translate("opening a snapshot", err)
	}
	return newSnapshot(ctx, d, conn, o.Logger)
}

// SnapshotSQLite opens a snapshot of the database in a data directory. Another process may have the
// directory locked, and writes on.
func SnapshotSQLite(ctx context.Context, o SQLiteOptions) (*Snapshot, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	d := sqldb.SQLiteDialect(func() int64 { return o.Now().UnixMilli() })
	conn, err := sqliteengine.OpenSnapshot(ctx, o.Dir)
	if err != nil {
		return nil, d.Translate("opening a snapshot", err)
	}
	return newSnapshot(ctx, d, conn, o.Logger)
}

func newSnapshot(
	ctx context.Context, d *sqldb.Dialect, conn snapshotConn, log zerolog.Logger,
) (*Snapshot, error) {
	s := &Snapshot{conn: conn, tables: map[string]*backupTable{}}
	s.store = newStore(d, snapshotEngine{conn}, time.Now, log)
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(d.Translate("opening a snapshot", err), conn.Close())
	}
	return s, nil
}

var errNoTables = errors.New("the database has no tables of Carillon")

// begin refuses what is no complete store.
func (s *Snapshot) begin(ctx context.Context) error {
	c := s.conn.Conn()
	var have sql.NullInt64
	err := s.store.db.SelectOne(
		ctx,
		c,
		&have,
		sqldb.Stmt("SELECT MAX(version_id) FROM goose_db_version WHERE is_applied=1"),
	)
	switch class := s.store.db.Dialect.ClassOf(err); {
	case err != nil && class == engine.ClassUnavailable && !isNoTable(err):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errNoTables, err)
	case have.Int64 == 0:
		return errNoTables
	}
	if have.Int64 == restoringVersion {
		return &RestoringError{}
	}
	if have.Int64 > schemaVersion { // with tables that this program does not know
		return fmt.Errorf(
			"this release knows the schema of version %d, and the database has version %d, with tables "+
				"that a backup would lack: make the backup with the release that made that schema, or "+
				"with a later one",
			schemaVersion,
			have.Int64,
		)
	}
	s.schema = have.Int64
	s.atMS, err = s.store.db.NowMS(ctx, c)
	return err
}

// Close ends the snapshot.
func (s *Snapshot) Close() error { return s.conn.Close() }

// Info tells which store this is.
func (s *Snapshot) Info(context.Context) (backup.Info, error) {
	return backup.Info{
		Database: s.store.db.Dialect.Name, Schema: s.schema, At: time.UnixMilli(s.atMS),
	}, nil
}

// Tables reads the tables from the schema.
func (s *Snapshot) Tables(ctx context.Context) (out []backup.Table, err error) {
	err = s.conn.Around(ctx, func() error {
		tables, err := s.store.backupTables(ctx, s.conn.Conn())
		if err != nil {
			return err
		}
		for _, t := range tables {
			next, err := s.store.db.Dialect.NextNumber(ctx, s.store.db, s.conn.Conn(), t.name)
			if err != nil {
				return err
			}
			s.tables[t.name] = t
			out = append(out, backup.Table{Name: t.name, Columns: t.columns, Next: next})
		}
		return nil
	})
	return out, s.store.db.Dialect.Translate("reading the schema", err)
}

// ReadTable reads along the primary key, page by page.
func (s *Snapshot) ReadTable(
	ctx context.Context, table string, each func(row []any) error,
) error {
	t := s.tables[table]
	if t == nil {
		return fmt.Errorf("there is no table %s", table)
	}
	err := s.conn.Around(ctx, func() error {
		for after := []any(nil); ; {
			n, err := s.page(ctx, t, &after, each)
			if err != nil || n < snapshotPage {
				return err
			}
		}
	})
	return s.store.db.Dialect.Translate("reading table "+table, err)
}

// page reads the rows behind a key, and moves the key.
func (s *Snapshot) page(
	ctx context.Context, t *backupTable, after *[]any, each func(row []any) error,
) (n int, err error) {
	q := s.pageBehind(t, *after)
	s.store.db.Watch(q)
	rows, err := s.conn.Conn().QueryxContext(ctx, string(q.Text), q.Args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		row, err := rows.SliceScan()
		if err != nil {
			return n, err
		}
		if err := t.normalize(row); err != nil {
			return n, err
		}
		if n == snapshotPage-1 {
			*after = t.keyOf(row) // before each changes the row
		}
		if err := each(row); err != nil {
			return n, err
		}
	}
	return n, rows.Err()
}

// pageBehind returns the statement that reads the rows behind a key, or the first ones for nil.
func (s *Snapshot) pageBehind(t *backupTable, key []any) *sqldb.Statement {
	q := sqldb.Stmt(
		"SELECT " + strings.Join(t.columns, ",") + " FROM " + t.name + s.store.db.Dialect.ByPrimary,
	)
	if key != nil {
		q.Add(" WHERE ")
		s.store.db.Dialect.CompareKeys(q, ">", t.key, func(i int) {
			addValue(q, key[i], t.kinds[slices.Index(t.columns, t.key[i])])
		})
	}
	return q.Add(" ORDER BY " + strings.Join(t.key, ",") + " LIMIT ").Int(snapshotPage)
}

// keyOf returns the primary key of a row.
func (t *backupTable) keyOf(row []any) []any {
	key := make([]any, len(t.key))
	for i, column := range t.key {
		key[i] = row[slices.Index(t.columns, column)]
	}
	return key
}

// normalize replaces what the drivers return by int64, []byte and nil.
func (t *backupTable) normalize(row []any) error {
	for i, v := range row {
		if t.kinds[i] == columnNumber {
			n, err := number(v)
			if err != nil {
				return fmt.Errorf("column %s of table %s: %w", t.columns[i], t.name, err)
			}
			row[i] = n
			continue
		}
		switch v := v.(type) {
		case nil, []byte:
		case string:
			row[i] = []byte(v)
		default:
			return fmt.Errorf(
				"column %s of table %s has a value of type %T",
				t.columns[i],
				t.name,
				v,
			)
		}
	}
	return nil
}

// number returns a whole number as int64, and nil as nil.
func number(v any) (any, error) {
	switch v := v.(type) {
	case nil, int64:
		return v, nil
	case []byte:
		return strconv.ParseInt(string(v), 10, 64) //nolint:wrapcheck // it has the value
	default:
		return nil, fmt.Errorf("a number has the type %T", v)
	}
}

// addValue adds a value of a row.
func addValue(q *sqldb.Statement, v any, kind columnKind) {
	switch v := v.(type) {
	case int64:
		q.Int(v)
	case []byte:
		if kind == columnText {
			q.Bind(string(v))
		} else {
			q.Bind(v)
		}
	default:
		q.Add("NULL")
	}
}

// snapshotEngine reads on the connection of a snapshot, and writes nothing.
type snapshotEngine struct{ conn snapshotConn }

var errReadOnly = errors.New("a snapshot is read-only")

func (snapshotEngine) Transact(context.Context, engine.Work) error   { return errReadOnly }
func (snapshotEngine) Autocommit(context.Context, engine.Work) error { return errReadOnly }
func (snapshotEngine) Urgent(context.Context, engine.Work) error     { return errReadOnly }

func (e snapshotEngine) Reader() sqlx.QueryerContext     { return e.conn.Conn() }
func (snapshotEngine) Capabilities() engine.Capabilities { return engine.All() }
func (e snapshotEngine) Close() error                    { return e.conn.Close() }
