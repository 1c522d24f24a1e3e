package zone_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/zone"
	"github.com/carillon-timer/carillon/libs/zone/zonetest"
)

// winter is an instant at which Berlin is one hour ahead of UTC and London is not.
var winter = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)

func offset(t *testing.T, d *zone.Database, name string) int64 {
	t.Helper()
	table, err := d.Load(name)
	require.NoError(t, err)
	return table.OffsetAt(winter.Unix())
}

const hostHelper = "CARILLON_TEST_HOST_ZONES"

// TestHostsFilesDoNotMatter runs this test again in a process whose host has different rules for
// Berlin.
func TestHostsFilesDoNotMatter(t *testing.T) {
	t.Parallel()
	if os.Getenv(hostHelper) != "" {
		host, err := time.LoadLocation("Europe/Berlin")
		require.NoError(t, err)
		_, hosts := winter.In(host).Zone()
		require.Zero(t, hosts, "the host's files are doctored")
		require.EqualValues(t, 3600, offset(t, zone.Default(), "Europe/Berlin"))
		_, err = zone.Load("Host/Only")
		require.Error(t, err)
		return
	}
	entries := map[string][]byte{}
	for _, name := range []string{"Europe/Berlin", "Host/Only", "UTC"} {
		entries[name] = zone.Embedded().Data("Europe/London")
	}
	cmd := exec.CommandContext(
		t.Context(),
		os.Args[0],
		"-test.run",
		"^TestHostsFilesDoNotMatter$",
		"-test.v",
	)
	cmd.Env = append(
		os.Environ(),
		hostHelper+"=1",
		"ZONEINFO="+zonetest.Write(t, entries),
		"TZ=Asia/Tokyo",
	)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestHostsFilesDoNotMatter")
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	d := zone.Embedded()
	require.Same(t, d, zone.Default())
	require.Regexp(t, `^20\d\d[a-z]+$`, d.Version())
	require.Equal(t, "embedded", d.Source())
	require.Greater(t, len(d.Names()), 500)
	for _, name := range d.Names() {
		_, err := d.Load(name)
		require.NoError(t, err, name)
	}
	for _, link := range []string{"US/Eastern", "Asia/Calcutta", "GB", "Etc/GMT+5", "EST5EDT", "Zulu", ""} {
		_, err := d.Load(link)
		require.NoError(t, err, link)
	}
}

// TestEmbeddedIsGos compares the copy with that of the Go installation if both have the same
// version.
func TestEmbeddedIsGos(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	dir := filepath.Join(strings.TrimSpace(string(out)), "lib/time")
	script, err := os.ReadFile(filepath.Join(dir, "update.bash"))
	if err != nil {
		t.Skip("NOT TESTED: this Go has no lib/time/update.bash to compare the time zones with")
	}
	if v := regexp.MustCompile(`(?m)^DATA=(\S+)$`).
		FindSubmatch(script); v == nil ||
		string(v[1]) != zone.Embedded().Version() {
		t.Skipf("NOT TESTED: this Go has other time zones (%s) than the copy", v)
	}
	want, err := os.ReadFile(filepath.Join(dir, "zoneinfo.zip"))
	require.NoError(t, err)
	have, err := os.ReadFile("tzdata/zoneinfo.zip")
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, have), "run scripts/tzdata.sh")
	same, err := zone.Open(filepath.Join(dir, "zoneinfo.zip"))
	require.NoError(t, err)
	require.Equal(
		t,
		zone.Embedded().Version(),
		same.Version(),
		"of a file that does not tell its own",
	)
}

func TestVersionsOfFiles(t *testing.T) {
	t.Parallel()
	berlin := zone.Embedded().Data("Europe/Berlin")
	base := map[string][]byte{
		"UTC":                 zone.Embedded().Data("UTC"),
		"Europe/Berlin":       berlin,
		"right/Europe/Berlin": berlin,
		"zone.tab":            []byte("# x"),
		"Factory":             berlin,
	}
	for name, c := range map[string]struct{ entry, text, want, err string }{
		"+VERSION":        {"+VERSION", "2031a\n", "2031a", ""},
		"tzdata.zi":       {"tzdata.zi", "# version 2031b\n# more\n", "2031b", ""},
		"none":            {"iso3166.tab", "", "sha256:", ""},
		"an invalid name": {"+VERSION", "2031 a; x", "", `a version "2031 a; x"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := map[string][]byte{c.entry: []byte(c.text)}
			maps.Copy(entries, base)
			path := zonetest.Write(t, entries)
			d, err := zone.Open(path)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Contains(t, d.Version(), c.want)
			require.Equal(t, path, d.Source())
			require.Equal(t, []string{"Europe/Berlin", "UTC"}, d.Names())
		})
	}
}

func TestInvalidFiles(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no zip"), 0o600))
	for name, c := range map[string]struct{ path, want string }{
		"no file": {filepath.Join(t.TempDir(), "none.zip"), "no such file"},
		"no zip":  {text, "expected a zip of time zones"},
		"no UTC":  {zonetest.File(t, "2031a", map[string]string{"UTC": ""}), "without UTC"},
		"a zone that cannot be read": {
			zonetest.Write(t, map[string][]byte{"UTC": zone.Embedded().Data("UTC"), "A/B": []byte("TZif2 and nothing")}), "A/B: ",
		},
	} {
		_, err := zone.Open(c.path)
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, c.path, name)
	}
}

func TestInvalidNames(t *testing.T) {
	t.Parallel()
	for name, remedy := range map[string]string{
		"right/Europe/Berlin":   `use "Europe/Berlin"`,
		"posix/Europe/Berlin":   `use "Europe/Berlin"`,
		"posixrules":            "name a fixed zone",
		"localtime":             "name a fixed zone",
		"Local":                 "name a fixed zone",
		"Factory":               "name a real zone",
		"europe/berlin":         `names are matched by case, use "Europe/Berlin"`,
		"utc":                   `use "UTC"`,
		"Mars/Base":             "tzdata " + zone.Embedded().Version() + " has no such zone",
		"../etc/passwd":         "has no such zone",
		"/Europe/Berlin":        "has no such zone",
		"europe berlin":         "has no such zone",
		"+VERSION":              "has no such zone",
		strings.Repeat("ä", 99): "…",
	} {
		_, err := zone.Load(name)
		require.ErrorContains(t, err, remedy, name)
		require.ErrorContains(
			t,
			err,
			`expected an IANA time zone such as "Europe/Berlin", found "`,
			name,
		)
	}
}

func TestRulesDetectChangedZones(t *testing.T) {
	t.Parallel()
	was := zone.Embedded().Rules()
	require.Len(t, was, len(zone.Embedded().Names()))
	require.Equal(t, was["Asia/Calcutta"], was["Asia/Kolkata"])
	require.NotEqual(t, was["Europe/Berlin"], was["Europe/London"])
	// Differences in the past do not count: Stockholm's rules were different before 1980.
	require.Equal(t, was["Europe/Berlin"], was["Europe/Stockholm"])
	require.Equal(t, was, zonetest.Database(t, "2031a", nil).Rules(), "whatever the version")

	is := zonetest.Database(t, "2031a", map[string]string{"Europe/Berlin": "Europe/London", "Asia/Tokyo": ""}).
		Rules()
	var changed []string
	for name := range was {
		if is[name] != was[name] {
			changed = append(changed, name)
		}
	}
	require.ElementsMatch(t, []string{"Europe/Berlin", "Asia/Tokyo"}, changed)
}

func BenchmarkRules(b *testing.B) {
	path := zonetest.File(b, "2031a", nil)
	for b.Loop() {
		d, err := zone.Open(path)
		require.NoError(b, err)
		d.Rules()
	}
}
