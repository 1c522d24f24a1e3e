package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"time"
)

// Format is the version of the format that this program writes, and the latest that it reads.
const Format = 1

const (
	manifestFile = "manifest.json"
	fileMode     = 0o600
	dirMode      = 0o700
)

// Manifest tells what a backup has.
type Manifest struct {
	Format   int       `json:"format"`
	Carillon string    `json:"carillon"` // version of the program that wrote it
	Database string    `json:"database"` // mysql or sqlite
	Schema   int64     `json:"schema"`   // version of the schema
	At       time.Time `json:"at"`       // instant of the snapshot
	Tables   []Parts   `json:"tables"`
	// Checksum is the SHA-256 of the file, in hex, where the file has "" as its checksum.
	Checksum string `json:"checksum"`
}

// Parts are a table and its rows.
type Parts struct {
	Table

	Rows  int64  `json:"rows"`
	Parts []Part `json:"parts"`
}

// Part is a file with rows of a table.
type Part struct {
	File   string `json:"file"`
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`  // of the file
	SHA256 string `json:"sha256"` // of the file, in hex
}

// Rows returns how many rows all tables have.
func (m *Manifest) Rows() (n int64) {
	for i := range m.Tables {
		n += m.Tables[i].Rows
	}
	return n
}

// Size returns how many files the parts are, and their bytes.
func (m *Manifest) Size() (files int, bytes int64) {
	for i := range m.Tables {
		files += len(m.Tables[i].Parts)
		for _, p := range m.Tables[i].Parts {
			bytes += p.Bytes
		}
	}
	return files, bytes
}

// partFile matches the files of parts.
var partFile = regexp.MustCompile(`^[a-z0-9_]+-\d{6,}\.ndjson\.zst$`)

// ErrNoBackup means that a directory has no manifest: no backup was completed there.
var ErrNoBackup = errors.New(
	"it is no backup, or one that was not completed: there is no " + manifestFile,
)

// readManifest reads the manifest of a directory. id stands for the backup.
func readManifest(root *os.Root) (m *Manifest, id string, err error) {
	text, err := root.ReadFile(manifestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", ErrNoBackup
	}
	if err != nil {
		return nil, "", err //nolint:wrapcheck // it names the file
	}
	m = &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", manifestFile, err)
	}
	if m.Format < 1 || m.Format > Format {
		return nil, "", fmt.Errorf(
			"the backup has format %d, and this program knows formats up to %d: use the release that wrote it, or a later one",
			m.Format,
			Format,
		)
	}
	if m.Checksum == "" || m.Checksum != checksum(bytes.Replace(text, []byte(m.Checksum), nil, 1)) {
		return nil, "", &DamagedError{manifestFile, "its checksum differs"}
	}
	if err := m.check(); err != nil {
		return nil, "", fmt.Errorf("%s: %w", manifestFile, err)
	}
	return m, m.Checksum, nil
}

// encode returns the text of the manifest's file, and sets the checksum.
func (m *Manifest) encode() ([]byte, error) {
	m.Checksum = ""
	text, err := m.marshal()
	if err != nil {
		return nil, err
	}
	m.Checksum = checksum(text)
	return m.marshal()
}

func (m *Manifest) marshal() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", " ")
	return append(text, '\n'), err //nolint:wrapcheck // the caller says what it was doing
}

func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// check refuses what no backup has.
func (m *Manifest) check() error {
	seen := map[string]bool{}
	for i := range m.Tables {
		t := &m.Tables[i]
		if seen[t.Name] || t.Name == "" || len(t.Columns) == 0 {
			return fmt.Errorf("table %q is there twice, or has no columns", t.Name)
		}
		seen[t.Name] = true
		var rows int64
		for _, p := range t.Parts {
			if !partFile.MatchString(p.File) || seen[p.File] {
				return fmt.Errorf(
					"file %q of table %s has a wrong name, or is there twice",
					p.File,
					t.Name,
				)
			}
			seen[p.File] = true
			rows += p.Rows
		}
		if rows != t.Rows {
			return fmt.Errorf("table %s has %d rows, its parts %d", t.Name, t.Rows, rows)
		}
	}
	return nil
}
