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

// Limits of a file, in bytes. IANA's whole database has 0.4 MB, its longest zone 4 kB.
const (
	maxFile = 16 << 20
	maxZone = 64 << 10
)

const utc = "UTC"

// Database is one version of the IANA time zones. It is immutable but for what it remembers, and
// safe for concurrent use.
type Database struct {
	version string
	source  string
	zones   map[string][]byte // name → TZif
	folded  map[string]string // name in lower case → name
	tables  sync.Map          // name → *Table
	rules   func() Rules
}

// Embedded returns the database that is compiled in. It is always the same one.
var Embedded = sync.OnceValue(func() *Database {
	d, err := read(embeddedZip, strings.TrimSpace(embeddedVersion), "embedded")
	if err != nil {
		panic("zone: the compiled-in database: " + err.Error()) // a test opens it: it cannot happen
	}
	return d
})

var inUse atomic.Pointer[Database]

// Use makes d the database of the process. Call it before anything loads a zone: what was loaded
// from another database before stays as it is.
func Use(d *Database) { inUse.Store(d) }

// Default returns the database of the process: that of Use, else Embedded.
func Default() *Database {
	if d := inUse.Load(); d != nil {
		return d
	}
	return Embedded()
}

// Open reads a database from a file: a zip of TZif files by name, as Go's lib/time/zoneinfo.zip.
//
// Its version is the first line of the entry +VERSION, else that of tzdata.zi ("# version 2025c"),
// else that of the compiled-in database if the content is the same, else a hash of the content.
// Entries that are no zones, or whose name is not IANA's, are left out. UTC has to be among them.
func Open(path string) (*Database, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	defer f.Close() // it was only read
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

// read reads a zip. version is empty where the content has to tell it.
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
	found := "" // what the content says of its version
	for _, f := range archive.File {
		name := strings.TrimPrefix(f.Name, "./")
		if foreign(name) != "" || strings.HasSuffix(name, "/") {
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

// readEntry reads one file of a zip. tzdata.zi, the longest that is no zone, is read in part.
func readEntry(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err //nolint:wrapcheck // read names it
	}
	defer r.Close()                               // it was only read
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

// Has tells whether there is a zone of that name; "" is UTC.
func (d *Database) Has(name string) bool {
	return name == "" || d.zones[name] != nil
}

// Load returns the table of a zone; "" is UTC. Its error says what was expected, what was found,
// and what to write instead; the caller adds the field.
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
	// two that load it at once make equal tables.
	t, _ := d.tables.LoadOrStore(name, d.tabulate(loc))
	return t.(*Table), nil
}

// Data returns the TZif data of a zone, nil where there is none. Do not write to it.
func (d *Database) Data(name string) []byte { return d.zones[name] }
