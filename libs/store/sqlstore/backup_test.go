package sqlstore_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/backup"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/store/storetest"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// database is a database of a test that backups are made of, and restored into.
type database struct {
	snapshot func(t *testing.T) *sqlstore.Snapshot
	restore  func(t *testing.T) *sqlstore.Restore
	open     func(t *testing.T) (*sqlstore.Store, error) // as a service does
}

func newSQLite(t *testing.T) database {
	t.Helper()
	return sqliteIn(t.TempDir())
}

func sqliteIn(dir string) database {
	o := sqlstore.SQLiteOptions{Dir: dir}
	return database{
		snapshot: func(t *testing.T) *sqlstore.Snapshot {
			t.Helper()
			s, err := sqlstore.SnapshotSQLite(background(t), o)
			require.NoError(t, err)
			return s
		},
		restore: func(t *testing.T) *sqlstore.Restore {
			t.Helper()
			r, err := sqlstore.RestoreSQLite(background(t), o)
			require.NoError(t, err)
			return r
		},
		open: func(t *testing.T) (*sqlstore.Store, error) {
			t.Helper()
			s, err := sqlstore.OpenSQLite(background(t), o)
			if err != nil {
				return nil, err
			}
			if err := s.Migrate(background(t)); err != nil {
				return nil, errors.Join(err, s.Close())
			}
			return s, nil
		},
	}
}

func newMySQL(t *testing.T) database {
	t.Helper()
	return mysqlAt(t, testenv.MySQL(t))
}

// newGalera has a node of its own for each connection.
func newGalera(t *testing.T) database {
	t.Helper()
	return mysqlAt(t, testenv.Galera(t).DSN)
}

func mysqlAt(t *testing.T, dsn string) database {
	t.Helper()
	o := sqlstore.MySQLOptions{DSN: dsn, MaxOpen: 6}
	var sent statements
	t.Cleanup(func() {
		for _, text := range sent.forms() {
			requireParses(t, text)
		}
		for _, text := range sqlstore.OtherStatements() {
			requireParses(t, text)
		}
	})
	return database{
		snapshot: func(t *testing.T) *sqlstore.Snapshot {
			t.Helper()
			s, err := sqlstore.SnapshotMySQL(background(t), o)
			require.NoError(t, err)
			s.OnStatement(sent.watch)
			return s
		},
		restore: func(t *testing.T) *sqlstore.Restore {
			t.Helper()
			r, err := sqlstore.RestoreMySQL(background(t), o)
			require.NoError(t, err)
			r.Store().OnStatement(sent.watch)
			return r
		},
		open: func(t *testing.T) (*sqlstore.Store, error) {
			t.Helper()
			s, err := sqlstore.OpenMySQL(background(t), o)
			require.NoError(t, err)
			if err := s.Migrate(background(t)); err != nil {
				return nil, errors.Join(err, s.Close())
			}
			return s, nil
		},
	}
}

// background is a context for what a test does after its end, too.
func background(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}

// engines are the databases by name.
var engines = map[string]func(t *testing.T) database{
	"sqlite": newSQLite, "mysql": newMySQL, "galera": newGalera,
}

// onEach runs a test for each engine.
func onEach(t *testing.T, test func(t *testing.T, fresh func(t *testing.T) database)) {
	t.Helper()
	for name, fresh := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh)
		})
	}
}

// service opens a store as a service does, and closes it after the test.
func (d database) service(t *testing.T) *sqlstore.Store {
	t.Helper()
	s, err := d.open(t)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// write backs a database up into a new directory.
func (d database) write(t *testing.T, o backup.Options) (dir string, m *backup.Manifest) {
	t.Helper()
	s := d.snapshot(t)
	dir = filepath.Join(t.TempDir(), "backup")
	m, err := backup.Write(background(t), s, dir, o)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return dir, m
}

// load restores a backup.
func (d database) load(t *testing.T, dir string) {
	t.Helper()
	r := d.restore(t)
	_, err := backup.Restore(background(t), dir, r, backup.Options{})
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

// rows are the rows of a table as text, sorted.
type rows map[string][]string

// changedByRestores are the columns that a restore sets.
var changedByRestores = []string{"sessions.ended_ms", "fires.revision", "deferred_fires.revision"}

// dump returns the rows of all tables of a source, without changedByRestores.
func dump(t *testing.T, src backup.Source) rows {
	t.Helper()
	tables, err := src.Tables(background(t))
	require.NoError(t, err)
	out := rows{}
	for _, table := range tables {
		out[table.Name] = []string{}
		require.NoError(t, src.ReadTable(background(t), table.Name, func(row []any) error {
			var text strings.Builder
			for _, i := range sortedColumns(table.Columns) {
				if slices.Contains(changedByRestores, table.Name+"."+table.Columns[i]) {
					continue
				}
				fmt.Fprintf(&text, "%s=%T %q ", table.Columns[i], row[i], row[i])
			}
			out[table.Name] = append(out[table.Name], text.String())
			return nil
		}))
		slices.Sort(out[table.Name])
	}
	return out
}

func sortedColumns(columns []string) []int {
	order := make([]int, len(columns))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(columns[a], columns[b]) })
	return order
}

func (d database) dump(t *testing.T) rows {
	t.Helper()
	s := d.snapshot(t)
	defer func() { require.NoError(t, s.Close()) }()
	return dump(t, s)
}

// column is a column of MySQL's schema, which is the narrower one.
type column struct {
	name, kind string
	size       int
	unsigned   bool
	null       bool
	numbered   bool // AUTO_INCREMENT
}

var columnLine = regexp.MustCompile(
	`(?m)^    ([a-z_]+) +([A-Z]+)(?:\((\d+)\))?( UNSIGNED)?(?: CHARACTER SET ascii)? +(NOT NULL|NULL)(.*)$`,
)

// mysqlSchema returns the columns of the tables that MySQL's migrations create.
func mysqlSchema(t *testing.T) map[string][]column {
	t.Helper()
	schema := map[string][]column{}
	names, err := fs.Glob(sqlstore.Migrations(), "migrations/mysql/*.sql")
	require.NoError(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(sqlstore.Migrations(), name)
		require.NoError(t, err)
		for part := range strings.SplitSeq(string(text), "CREATE TABLE ") {
			table, body, _ := strings.Cut(part, " (")
			for _, m := range columnLine.FindAllStringSubmatch(body, -1) {
				size, _ := strconv.Atoi(m[3])
				schema[table] = append(schema[table], column{
					name: m[1], kind: m[2], size: size, unsigned: m[4] != "", null: m[5] == "NULL",
					numbered: strings.Contains(m[6], "AUTO_INCREMENT"),
				})
			}
		}
	}
	return schema
}

// randomSource has random rows in every table, with all values that a column can have.
type randomSource struct {
	random *rand.Rand
	tables []backup.Table
	schema map[string][]column
	rows   int
}

func (s *randomSource) Info(context.Context) (backup.Info, error) {
	return backup.Info{Database: "random", Schema: sqlstore.SchemaVersion, At: time.Now()}, nil
}

func (s *randomSource) Tables(context.Context) ([]backup.Table, error) { return s.tables, nil }

func (s *randomSource) ReadTable(
	_ context.Context, table string, each func(row []any) error,
) error {
	i := slices.IndexFunc(s.tables, func(t backup.Table) bool { return t.Name == table })
	n := s.rows
	if table == "zone_replan" { // its key is a TINYINT
		n = 1
	}
	for range n {
		row := make([]any, len(s.tables[i].Columns))
		for j, name := range s.tables[i].Columns {
			k := slices.IndexFunc(s.schema[table], func(c column) bool { return c.name == name })
			row[j] = s.value(&s.schema[table][k])
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}

// keyColumns are in keys of few columns. Their values are all long and random.
var keyColumns = []string{
	"id", "app_id", "timer_id", "minute", "name", "live_name", "hash", "idempotency_key",
}

// value returns a random value of a column. Those of keys hardly occur twice.
func (s *randomSource) value(c *column) any {
	bits := map[string]int{"BIGINT": 64, "INT": 32, "MEDIUMINT": 24, "TINYINT": 8}[c.kind]
	switch {
	case c.null && s.random.IntN(4) == 0:
		return nil
	case c.numbered:
		return 1 + s.random.Int64N(1<<50)
	case c.name == "finished_ms":
		return time.Now().UnixMilli() - s.random.Int64N(10*24*3600*1000)
	case bits == 64 && s.random.IntN(50) == 0 && !slices.Contains(keyColumns, c.name):
		return []int64{math.MinInt64, math.MaxInt64, 1<<53 + 1, -1<<53 - 1}[s.random.IntN(4)]
	case bits > 0 && c.unsigned:
		return int64(s.random.Uint64() >> (64 - bits))
	case bits > 0:
		return int64(s.random.Uint64()) >> (64 - bits)
	case c.kind == "VARCHAR":
		return []byte("delivered"[:s.random.IntN(10)])
	}
	size := c.size
	if c.kind != "BINARY" {
		size = s.random.IntN(min(cmp.Or(size, 3000), 3000) + 1)
	}
	if slices.Contains(keyColumns, c.name) {
		size = c.size
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(s.random.Uint32())
	}
	if s.random.IntN(2) == 0 { // text, with what is special in SQL and JSON
		special := bytes.Repeat([]byte("é\"'\\<&>\u2028\x00\n%_雷 ;--"), size/8+1)
		b = bytes.ToValidUTF8(special[:size], []byte("x"))
		b = append(slices.Clip(b), bytes.Repeat([]byte("x"), size-len(b))...)
	}
	if len(b) > 16 { // distinct
		copy(b, fmt.Sprintf("%016x", s.random.Uint64()))
	}
	return b
}

// TestBackupKeepsEveryValue restores random rows into each engine in turn, and compares.
func TestBackupKeepsEveryValue(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"sqlite", "sqlite"}, {"sqlite", "mysql", "sqlite"}, {"mysql", "mysql"}} {
		t.Run(strings.Join(order, " to "), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Log("seed", seed)
			sqlite := newSQLite(t)
			require.NoError(t, sqlite.service(t).Ping(background(t)))
			first := sqlite.snapshot(t)
			tables, err := first.Tables(background(t))
			require.NoError(t, err)
			require.NoError(t, first.Close())
			src := &randomSource{
				random: rand.New(
					rand.NewPCG(seed, 1),
				),
				tables: tables,
				schema: mysqlSchema(t),
				rows:   700,
			}
			dir := filepath.Join(t.TempDir(), "random")
			m, err := backup.Write(background(t), src, dir, backup.Options{PartRows: 300})
			require.NoError(t, err)
			require.EqualValues(t, 700*(len(tables)-1)+1, m.Rows())
			src.random = rand.New(rand.NewPCG(seed, 1))
			want := dump(t, src)
			for _, name := range order {
				d := engines[name](t)
				d.load(t, dir)
				require.Equal(t, want, d.dump(t), name)
				requirePagesByKey(t, d, tables)
				dir, m = d.write(t, backup.Options{})
				require.Equal(t, name, m.Database)
				require.NoError(t, d.service(t).Ping(background(t)))
			}
		})
	}
}

// requirePagesByKey checks that a page of a snapshot begins behind its key, and sorts nothing.
func requirePagesByKey(t *testing.T, d database, tables []backup.Table) {
	t.Helper()
	s := d.snapshot(t)
	defer func() { require.NoError(t, s.Close()) }()
	_, err := s.Tables(t.Context())
	require.NoError(t, err)
	for _, table := range tables {
		if table.Name == "zone_replan" { // it has one row
			continue
		}
		plan, err := s.PlanOfPage(t.Context(), table.Name)
		require.NoError(t, err)
		require.Regexp(t, " range PRIMARY | SEARCH .* USING ", plan, table.Name)
		require.NotRegexp(t, "filesort|TEMP B-TREE|SCAN", plan, table.Name)
	}
}

// TestBackupOfTheSuite backs up what each test of the suite has left, while its store is open, and
// restores it.
func TestBackupOfTheSuite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Env {
		t.Helper()
		dir := t.TempDir()
		s := openSQLite(t, sqlstore.SQLiteOptions{Dir: dir})
		t.Cleanup(func() {
			if t.Failed() {
				return
			}
			from, to := sqliteIn(dir), newSQLite(t)
			backupDir, _ := from.write(t, backup.Options{PartRows: 100})
			to.load(t, backupDir)
			require.Equal(t, from.dump(t), to.dump(t))
		})
		return storetest.Env{Stores: []store.Store{s}}
	})
}
