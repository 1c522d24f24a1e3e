package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/backup"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// restoreTable exists while a backup is being restored. It has a row for each part that is
	// there, and one with an empty part for the restore itself. Each transaction of the restore
	// writes the latter: so they run one after the other, and none runs after the end.
	restoreTable = "restore_progress"
	// restoreTimeout bounds one statement or transaction of a restore.
	restoreTimeout = time.Hour
)

// Restore loads a backup into a store, as the target of package backup. It changes two things: the
// sessions of the backup are ended, and open fires get later revisions.
type Restore struct {
	store  *Store
	tables map[string]*backupTable
	backup string // stands for the backup, since Begin
	// addPastDays prepares a partitioned table for rows from an instant on. nil: there is nothing to
	// prepare.
	addPastDays func(ctx context.Context, table string, oldestMS int64) error
}

var _ backup.Target = (*Restore)(nil)

// RestoreMySQL returns the target of a restore. It does not connect yet.
func RestoreMySQL(_ context.Context, o MySQLOptions) (*Restore, error) {
	cfg, err := mysqlConfig(&o)
	if err != nil {
		return nil, err
	}
	o.Timeout, cfg.ReadTimeout = restoreTimeout, restoreTimeout
	s, e, err := openMySQL(cfg, &o)
	if err != nil {
		return nil, err
	}
	r := &Restore{store: s}
	r.addPastDays = func(ctx context.Context, table string, oldestMS int64) error {
		return s.partitions.AddPastDays(ctx, e, table, oldestMS)
	}
	return r, nil
}

// RestoreSQLite returns the target of a restore in a data directory, which is created if missing.
func RestoreSQLite(ctx context.Context, o SQLiteOptions) (*Restore, error) {
	s, err := openSQLite(ctx, &o)
	if err != nil {
		return nil, err
	}
	s.db.Timeout = restoreTimeout
	return &Restore{store: s}, nil
}

// Store returns the store that is being restored, to look at what is there.
func (r *Restore) Store() *Store { return r.store }

// Close ends all connections.
func (r *Restore) Close() error { return r.store.Close() }

// Begin refuses a store in use before it writes anything. Then it brings the schema to the version
// of the backup, and marks the store as being restored in a transaction that finds it empty again. A
// service that has started in between changes a table, and Finish finds that.
//
// Of two calls at once, the second finds the row of the first, and continues with it. A call that
// dies before its commit leaves an empty store. A repeated call finds its row. A call for another
// backup takes the row over if no part is there. A call that restores the first then loads nothing.
func (r *Restore) Begin(
	ctx context.Context, id string, m *backup.Manifest,
) (loaded map[string]bool, err error) {
	if m.Schema > schemaVersion {
		return nil, fmt.Errorf(
			"the backup has schema version %d, and this program knows versions up to %d: use the release that wrote it (%s), or a later one",
			m.Schema,
			schemaVersion,
			m.Carillon,
		)
	}
	version, restoring, err := r.schema(ctx)
	if err != nil {
		return nil, err
	}
	if !restoring {
		if err := r.begin(ctx, id, m, version); err != nil {
			return nil, err
		}
	}
	if restoring && version != m.Schema {
		return nil, errOtherSchema
	}
	if err := r.readTables(ctx, m); err != nil {
		return nil, err
	}
	r.backup = id
	if loaded, err = r.loaded(ctx); err != errOther { //nolint:errorlint // not wrapped
		return loaded, err
	}
	if err := r.takeOver(ctx); err != nil {
		return nil, err
	}
	return r.loaded(ctx)
}

// schema returns the version of the schema, 0 without one, and whether a restore has begun.
func (r *Restore) schema(ctx context.Context) (version int64, restoring bool, err error) {
	s := r.store
	var rows []int64
	err = s.db.SelectAll(
		ctx, s.db.Engine.Reader(), &rows,
		sqldb.Stmt("SELECT DISTINCT version_id FROM goose_db_version WHERE is_applied=1"),
	)
	if err != nil && s.db.Dialect.ClassOf(err) != engine.ClassOther && !isNoTable(err) {
		return 0, false, s.db.Dialect.Translate("reading the schema's version", err)
	}
	for _, v := range rows { // none if the table is missing
		if v == restoringVersion {
			restoring = true
		} else {
			version = max(version, v)
		}
	}
	return version, restoring, nil
}

func (r *Restore) begin(ctx context.Context, id string, m *backup.Manifest, version int64) error {
	s := r.store
	if version > 0 {
		if err := s.db.Dialect.Translate("beginning a restore",
			r.requireEmpty(ctx, s.db.Engine.Reader())); err != nil {
			return err
		}
	}
	if version > m.Schema {
		return fmt.Errorf(
			"the database has schema version %d, and the backup version %d: restore into a database without tables",
			version,
			m.Schema,
		)
	}
	if err := s.migrate(ctx, m.Schema); err != nil {
		return s.db.Dialect.Translate("making the schema of the backup", err)
	}
	_, err := s.db.Autocommit(ctx, "beginning a restore", func() *sqldb.Statement {
		return sqldb.Stmt("CREATE TABLE IF NOT EXISTS " + restoreTable +
			" (part VARCHAR(200) NOT NULL PRIMARY KEY, backup VARCHAR(64) NOT NULL, writes BIGINT NOT NULL)")
	})
	if err != nil {
		return err
	}
	return s.db.Write(ctx, "beginning a restore", func(ctx context.Context, c sqldb.Runner) error {
		_, err := s.db.Exec(
			ctx,
			c,
			sqldb.Stmt("INSERT INTO "+restoreTable+" (part,backup,writes) VALUES ('',").
				Bind(id).Add(",0)"),
		)
		if s.db.Dialect.ClassOf(err) == engine.ClassDuplicate {
			return nil // another call has begun
		}
		if err != nil {
			return err
		}
		q := sqldb.Stmt("INSERT INTO goose_db_version (version_id,is_applied) VALUES (").
			Int(restoringVersion).Add(",1)")
		if _, err := s.db.Exec(ctx, c, q); err != nil {
			return err
		}
		if err := r.requireEmpty(ctx, c); err != nil {
			return err
		}
		for _, table := range tablesWithRows {
			if _, err := s.db.Exec(ctx, c, sqldb.Stmt("DELETE FROM "+table)); err != nil {
				return err
			}
		}
		return nil
	})
}

// tablesOfServices are those that no backup has, and in which a service has rows while it runs.
var tablesOfServices = []string{"processes", "slices"}

// requireEmpty refuses a store that has rows. A store that a service has used has some in sessions
// or in tablesOfServices, at least.
func (r *Restore) requireEmpty(ctx context.Context, c sqlx.QueryerContext) error {
	tables, err := r.store.backupTables(ctx, c)
	if err != nil {
		return err
	}
	names := slices.Clone(tablesOfServices)
	for _, t := range tables {
		if !slices.Contains(tablesWithRows, t.name) {
			names = append(names, t.name)
		}
	}
	return r.requireNoRows(ctx, c, names)
}

func (r *Restore) requireNoRows(
	ctx context.Context, c sqlx.QueryerContext, tables []string,
) error {
	for _, name := range tables {
		var rows []int
		err := r.store.db.SelectAll(ctx, c, &rows, sqldb.Stmt("SELECT 1 FROM "+name+" LIMIT 1"))
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			return timer.Conflict("database", fmt.Sprintf(
				"it is not empty: table %s has rows. If a restore into it has finished, start the services; else restore into a new database, and stop all services of it first",
				name,
			))
		}
	}
	return nil
}

// readTables checks that the tables and columns are those of the backup.
func (r *Restore) readTables(ctx context.Context, m *backup.Manifest) error {
	tables, err := r.store.backupTables(ctx, r.store.db.Engine.Reader())
	if err != nil {
		return r.store.db.Dialect.Translate("reading the schema", err)
	}
	r.tables = map[string]*backupTable{}
	for _, t := range tables {
		r.tables[t.name] = t
	}
	for i := range m.Tables {
		b := &m.Tables[i].Table
		t := r.tables[b.Name]
		if t == nil {
			return fmt.Errorf("the database has no table %s, which the backup has", b.Name)
		}
		have, want := slices.Sorted(
			slices.Values(t.columns),
		), slices.Sorted(
			slices.Values(b.Columns),
		)
		if !slices.Equal(have, want) {
			return fmt.Errorf(
				"table %s: the database has the columns %s, the backup %s",
				b.Name, strings.Join(have, ","), strings.Join(want, ","),
			)
		}
	}
	if len(m.Tables) != len(tables) {
		return fmt.Errorf("the database has %d tables, the backup %d", len(tables), len(m.Tables))
	}
	return nil
}

// takeOver makes a restore of another backup, of which no part is there, one of this backup. Its
// first write waits for a Load of the other backup, whose part it then finds; a Load after it finds
// another backup in the row, and changes nothing.
func (r *Restore) takeOver(ctx context.Context) error {
	s := r.store
	return s.db.Write(ctx, "beginning a restore", func(ctx context.Context, c sqldb.Runner) error {
		q := sqldb.Stmt("UPDATE " + restoreTable + " SET writes=writes+1,backup=").Bind(r.backup).
			Add(" WHERE part=''")
		if n, err := s.db.Exec(ctx, c, q); err != nil || n == 0 {
			return cmp.Or(err, errFinished)
		}
		var parts int
		err := s.db.SelectOne(ctx, c, &parts,
			sqldb.Stmt("SELECT COUNT(*) FROM "+restoreTable+" WHERE part<>''"))
		if err == nil && parts > 0 {
			return errOther
		}
		return err
	})
}

// loaded returns the parts that are there, or errOther.
func (r *Restore) loaded(ctx context.Context) (map[string]bool, error) {
	s := r.store
	var rows []struct {
		Part   string `db:"part"`
		Backup string `db:"backup"`
	}
	err := s.db.Read(ctx, "reading the restore's progress",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			return s.db.SelectAll(
				ctx,
				c,
				&rows,
				sqldb.Stmt("SELECT part,backup FROM "+restoreTable),
			)
		})
	if err != nil {
		return nil, err
	}
	parts := map[string]bool{}
	for _, row := range rows {
		if row.Backup != r.backup {
			return nil, errOther
		}
		parts[row.Part] = true
	}
	if !parts[""] {
		return nil, errFinished
	}
	delete(parts, "")
	return parts, nil
}

// errOtherSchema means that a restore of another backup has begun, whose schema has another version.
var errOtherSchema error = timer.Conflict(
	"database",
	"a restore of another backup has begun there, whose schema has another version: continue with "+
		"that one, or begin with a new database, also if no row is there yet",
)

// errOther means that the store has parts of another backup.
var errOther error = timer.Conflict(
	"database",
	"a restore of another backup has begun there: continue with that one, or begin with a new database",
)

// errFinished means that the restore of this backup has ended: services may be running.
var errFinished error = timer.Conflict(
	"database",
	"another process has finished the restore, or restores another backup",
)
