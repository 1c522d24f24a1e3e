// Package zonetest creates time zone databases for tests that differ from the compiled-in one.
package zonetest

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/zone"
)

// File writes the compiled-in database to a file, with changes. Each name gets the rules of the
// zone that changes maps it to; "" removes it. version is written to +VERSION unless it is empty.
func File(t testing.TB, version string, changes map[string]string) string {
	t.Helper()
	entries := map[string][]byte{}
	for _, name := range zone.Embedded().Names() {
		entries[name] = zone.Embedded().Data(name)
	}
	for name, as := range changes {
		if delete(entries, name); as != "" {
			require.NotNil(t, zone.Embedded().Data(as), as)
			entries[name] = zone.Embedded().Data(as)
		}
	}
	if version != "" {
		entries["+VERSION"] = []byte(version + "\n")
	}
	return Write(t, entries)
}

// Write writes a zip of entries to a file and returns its path.
func Write(t testing.TB, entries map[string][]byte) string {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for name, data := range entries {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		require.NoError(t, err)
		_, err = f.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	path := filepath.Join(t.TempDir(), "zoneinfo.zip")
	require.NoError(t, os.WriteFile(path, buf.Bytes(), 0o600))
	return path
}

// Database returns the database that File writes.
func Database(t testing.TB, version string, changes map[string]string) *zone.Database {
	t.Helper()
	d, err := zone.Open(File(t, version, changes))
	require.NoError(t, err)
	return d
}
