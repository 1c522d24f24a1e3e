package zone

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed" // the compiled-in database
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	//go:embed tzdata/zoneinfo.zip
	embeddedZip []byte
	//go:embed tzdata/VERSION
	embeddedVersion string
)

// Size limits of a file, in bytes. The whole IANA database has 0.4 MB, and its longest zone 4 kB.
const (
	maxFile = 16 << 20
	maxZone = 64 << 10
)

const utc = "UTC"

// Database is one version of the IANA time zones. It is immutable except for its caches, and safe
// for concurrent use.
type Database struct {
	version string
	source  string
	zones   map[string][]byte // name → TZif
	folded  map[string]string // name in lower case → name
	tables  sync.Map          // name → *Table
	rules   func() Rules
}

// Embedded returns the compiled-in database. It always returns the same one.
var Embedded = sync.OnceValue(func() *Database {
	d, err := read(embeddedZip, strings.TrimSpace(embeddedVersion), "embedded")
	if err != nil {
		panic("zone: the compiled-in database: " + err.Error()) // impossible: a test opens it
	}
	return d
})

var inUse atomic.Pointer[Database]

// Use makes d the database of the process. Call it before any zone is loaded: tables loaded from
// another database do not change.
func Use(d *Database) { inUse.Store(d) }

// Default returns the database of the process: the one set by Use, else Embedded.
func Default() *Database {
	if d := inUse.Load(); d != nil {
		return d
	}
	return Embedded()
}

// Open reads a database from a file: a zip of TZif files by name, like Go's lib/time/zoneinfo.zip.
//
// Its version is the first line of the entry +VERSION. Without that entry it is the version of
// tzdata.zi ("# version 2025c"). Otherwise it is the version of the compiled-in database if the
// content is the same, or a hash of the content. Open ignores entries that are not zones or have no
// IANA name. UTC must be among them.
func Open(path string) (*Database, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	defer f.Close() // read only
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s: expected at most %d bytes, found more", path, maxFile)
	}
	version := ""
	if bytes.Equal(content, embeddedZip) {
		version = Embedded().version
	}
	d, err := read(content, version, path)
	if err != nil {
		return nil, fmt.Errorf(
			"%s: expected a zip of time zones such as Go's lib/time/zoneinfo.zip, found: %w",
			path,
			err,
		)
	}
	return d, nil
}

// read reads a zip. If version is empty, it is derived from the content.
func read(content []byte, version, source string) (*Database, error) {
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err //nolint:wrapcheck // Open says of what
	}
	d := &Database{
		version: version,
		source:  source,
		zones:   map[string][]byte{},
		folded:  map[string]string{},
	}
	d.rules = sync.OnceValue(d.fingerprints)
	found := "" // version found in the content
	for _, f := range archive.File {
		name := strings.TrimPrefix(f.Name, "./")
		if unknown(name) != "" || strings.HasSuffix(name, "/") {
			continue
		}
		entry, err := readEntry(f)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case name == "+VERSION":
			found = firstLine(entry)
		case name == "tzdata.zi" && found == "":
			found = strings.TrimPrefix(firstLine(entry), "# version ")
		case !bytes.HasPrefix(entry, []byte("TZif")):
			continue
		}
		if bytes.HasPrefix(entry, []byte("TZif")) {
			if _, err := time.LoadLocationFromTZData(name, entry); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			d.zones[name], d.folded[strings.ToLower(name)] = entry, name
		}
	}
	if !d.Has(utc) {
		return nil, fmt.Errorf("%d zones without %s", len(d.zones), utc)
	}
	return d, d.setVersion(found, content)
}

var versionForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._:+-]{0,31}$`)

func (d *Database) setVersion(found string, content []byte) error {
	switch {
	case d.version != "":
	case found == "":
		const short = 6
		sum := sha256.Sum256(content)
		d.version = "sha256:" + hex.EncodeToString(sum[:short])
	case !versionForm.MatchString(found):
		return fmt.Errorf("a version %q, expected one such as 2025c", clip(found))
	default:
		d.version = found
	}
	return nil
}

// readEntry reads one file of a zip. It reads only the start of tzdata.zi, the longest file that is
// not a zone.
func readEntry(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err //nolint:wrapcheck // read names it
	}
	defer r.Close()                               // read only
	return io.ReadAll(io.LimitReader(r, maxZone)) //nolint:wrapcheck // read names it
}

func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return strings.TrimSpace(string(line))
}

// Version returns the version, such as "2025c".
func (d *Database) Version() string { return d.version }

// Source returns where the database comes from: "embedded", or the path of a file.
func (d *Database) Source() string { return d.source }

// Names returns the names of all zones, sorted.
func (d *Database) Names() []string { return slices.Sorted(maps.Keys(d.zones)) }

// Has reports whether a zone exists; "" is UTC.
func (d *Database) Has(name string) bool {
	return name == "" || d.zones[name] != nil
}

// Load returns the table of a zone; "" is UTC. Its error says what was expected, what was found,
// and what to use instead. The caller adds the field.
func (d *Database) Load(name string) (*Table, error) {
	if name == "" {
		name = utc
	}
	if t, ok := d.tables.Load(name); ok {
		return t.(*Table), nil
	}
	data, ok := d.zones[name]
	if !ok {
		return nil, d.unknown(name)
	}
	loc := time.UTC
	if name != utc {
		var err error
		if loc, err = time.LoadLocationFromTZData(name, data); err != nil {
			return nil, fmt.Errorf("reading the time zone %s: %w", name, err)
		}
	}
	// Concurrent loads create equal tables.
	t, _ := d.tables.LoadOrStore(name, d.tabulate(loc))
	return t.(*Table), nil
}

// Data returns the TZif data of a zone, or nil if it does not exist. Callers must not modify it.
func (d *Database) Data(name string) []byte { return d.zones[name] }
