package backup_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/backup"
	"github.com/carillon-timer/carillon/libs/store/dirlock"
)

// memory is a source and a target in memory.
type memory struct {
	tables []backup.Table
	rows   map[string][][]any
	fail   error // of ReadTable, behind the rows
	loaded map[string]bool
	done   bool
}

func (m *memory) Info(context.Context) (backup.Info, error) {
	return backup.Info{Database: "memory", Schema: 7, At: time.UnixMilli(1234567890123)}, nil
}

func (m *memory) Tables(context.Context) ([]backup.Table, error) { return m.tables, nil }

func (m *memory) ReadTable(_ context.Context, table string, each func(row []any) error) error {
	for _, row := range m.rows[table] {
		if err := each(append([]any(nil), row...)); err != nil {
			return err
		}
	}
	return m.fail
}

func (m *memory) Begin(context.Context, string, *backup.Manifest) (map[string]bool, error) {
	return m.loaded, nil
}

func (m *memory) Load(_ context.Context, t *backup.Table, file string, rows [][]any) error {
	m.rows[t.Name] = append(m.rows[t.Name], rows...)
	m.loaded[file] = true
	return nil
}

func (m *memory) Finish(context.Context, *backup.Manifest) error {
	m.done = true
	return nil
}

func newTarget() *memory {
	return &memory{rows: map[string][][]any{}, loaded: map[string]bool{}}
}

func newSource() *memory {
	s := newTarget()
	s.tables = []backup.Table{
		{Name: "empty", Columns: []string{"id"}},
		{Name: "values_of_all_kinds", Columns: []string{"id", "text"}, Next: 12},
	}
	s.rows["values_of_all_kinds"] = [][]any{
		{int64(math.MinInt64), nil},
		{int64(math.MaxInt64), []byte{}},
		{int64(1<<53 + 1), []byte("text\u2028 \"\\<&>\x00\n雷")},
		{int64(-1), []byte{0xff, 0xfe, 0}},
		{nil, []byte(`{"base64":"no"}`)},
		{int64(0), []byte(strings.Repeat("x", 100_000))},
	}
	return s
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, rows := range []int64{0, 1, 2, 100} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			t.Parallel()
			src, dir := newSource(), filepath.Join(t.TempDir(), "new")
			var done, total int64
			o := backup.Options{Version: "v1.2.3", PartRows: rows, Progress: func(d, n int64) {
				require.GreaterOrEqual(t, d, done)
				done, total = d, n
			}}
			m, err := backup.Write(t.Context(), src, dir, o)
			require.NoError(t, err)
			require.Equal(t, "v1.2.3", m.Carillon)
			require.Equal(t, "memory", m.Database)
			require.EqualValues(t, 7, m.Schema)
			require.EqualValues(t, 1234567890123, m.At.UnixMilli())
			require.EqualValues(t, 6, m.Rows())
			require.EqualValues(t, 12, m.Tables[1].Next)
			files, size := m.Size()
			require.Equal(t, map[int64]int{0: 1, 1: 6, 2: 3, 100: 1}[rows], files)
			require.Positive(t, size)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, files+1, "the manifest is the only other file")

			again, err := backup.Verify(t.Context(), dir, o)
			require.NoError(t, err)
			require.Equal(t, m, again)
			to := newTarget()
			done = 0
			again, err = backup.Restore(t.Context(), dir, to, o)
			require.NoError(t, err)
			require.Equal(t, m, again)
			require.Equal(t, []int64{12, 12}, []int64{done, total})
			require.Equal(t, src.rows, to.rows)
			require.True(t, to.done)
		})
	}
}

// TestWriteAgain checks what a directory may have before a backup: nothing, or a backup that was
// not completed.
func TestWriteAgain(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "backup")
	src := newSource()
	src.fail = errors.New("the connection was lost")
	_, err := backup.Write(t.Context(), src, dir, backup.Options{PartRows: 1})
	require.ErrorIs(t, err, src.fail)
	_, err = backup.Verify(t.Context(), dir, backup.Options{})
	require.ErrorIs(t, err, backup.ErrNoBackup)
	_, err = backup.Restore(t.Context(), dir, newTarget(), backup.Options{})
	require.ErrorIs(t, err, backup.ErrNoBackup)

	lock, err := dirlock.Take(dir)
	require.NoError(t, err)
	_, err = backup.Write(t.Context(), newSource(), dir, backup.Options{})
	require.ErrorContains(t, err, "in use by another process")
	require.NoError(t, lock.Release())

	_, err = backup.Write(t.Context(), newSource(), dir, backup.Options{})
	require.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "the parts of the first are gone")
	_, err = backup.Verify(t.Context(), dir, backup.Options{})
	require.NoError(t, err)
	_, err = backup.Write(t.Context(), newSource(), dir, backup.Options{})
	require.ErrorContains(t, err, "has a complete backup")

	other := filepath.Join(parent, "other")
	require.NoError(t, os.Mkdir(other, 0o700))
	mine := filepath.Join(other, "thesis.txt")
	require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600))
	_, err = backup.Write(t.Context(), newSource(), other, backup.Options{})
	require.ErrorContains(t, err, "has a file thesis.txt, which is no part of a backup")
	entries, err = os.ReadDir(other)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	_, err = backup.Write(
		t.Context(),
		newSource(),
		filepath.Join(parent, "no", "parent"),
		backup.Options{},
	)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestRestoreSkipsWhatIsThere checks that parts are not loaded twice, and that a failed check leaves
// the restore unfinished.
func TestRestoreSkipsWhatIsThere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "backup")
	m, err := backup.Write(t.Context(), newSource(), dir, backup.Options{PartRows: 2})
	require.NoError(t, err)
	to := newTarget()
	to.loaded[m.Tables[1].Parts[1].File] = true
	wrong := errors.New("wrong keys")
	_, err = backup.Restore(t.Context(), dir, to, backup.Options{
		Check: func(context.Context) error { return wrong },
	})
	require.ErrorIs(t, err, wrong)
	require.False(t, to.done)
	require.Len(t, to.rows["values_of_all_kinds"], 4)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = backup.Restore(ctx, dir, to, backup.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestDamagedManifestIsNoticed changes each byte of a manifest in turn.
func TestDamagedManifestIsNoticed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "backup")
	_, err := backup.Write(t.Context(), newSource(), dir, backup.Options{})
	require.NoError(t, err)
	file := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for i := range text {
		text[i] ^= 1
		require.NoError(t, os.WriteFile(file, text, 0o600))
		_, err := backup.Verify(t.Context(), dir, backup.Options{})
		require.Error(t, err, "byte %d of %s", i, text)
		text[i] ^= 1
	}
	require.NoError(t, os.WriteFile(file, text, 0o600))
	_, err = backup.Verify(t.Context(), dir, backup.Options{})
	require.NoError(t, err)
}

// TestWrongManifests changes the manifest of a backup.
func TestWrongManifests(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(m *backup.Manifest){
		"the backup has format 2": func(m *backup.Manifest) { m.Format = 2 },
		"has 6 rows, its parts 5": func(m *backup.Manifest) { m.Tables[1].Parts[0].Rows-- },
		"row 1: it has 2 columns, not 1": func(m *backup.Manifest) {
			m.Tables[1].Columns = m.Tables[1].Columns[:1]
		},
		"it has 6 rows, not 7": func(m *backup.Manifest) {
			m.Tables[1].Rows++
			m.Tables[1].Parts[0].Rows++
		},
		"has a wrong name": func(m *backup.Manifest) {
			m.Tables[1].Parts[0].File = "../values_of_all_kinds-000001.ndjson.zst"
		},
		"is there twice": func(m *backup.Manifest) { m.Tables = append(m.Tables, m.Tables[0]) },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "backup")
			m, err := backup.Write(t.Context(), newSource(), dir, backup.Options{})
			require.NoError(t, err)
			change(m)
			m.Checksum = ""
			text, err := json.Marshal(m)
			require.NoError(t, err)
			m.Checksum = fmt.Sprintf("%x", sha256.Sum256(text))
			text, err = json.Marshal(m)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600))
			_, err = backup.Verify(t.Context(), dir, backup.Options{})
			require.ErrorContains(t, err, want)
			to := newTarget()
			_, err = backup.Restore(t.Context(), dir, to, backup.Options{})
			require.ErrorContains(t, err, want)
			require.Empty(t, to.rows)
		})
	}
}
