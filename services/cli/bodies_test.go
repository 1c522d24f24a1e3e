package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestBodiesOfFilesAreNotChanged creates timers with bodies of files: text, and other bytes.
func TestBodiesOfFilesAreNotChanged(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	for name, c := range map[string]struct{ bytes, field, want string }{
		"text":   {"caf\u00e9\r\n", "body", "caf\u00e9\r\n"},
		"latin":  {"caf\xe9", "body_base64", "Y2Fm6Q=="},
		"binary": {"\xff\x00{", "body_base64", "/wB7"},
	} {
		file := u.file(name, c.bytes)
		u.do(
			"timer",
			"create",
			name,
			"--every",
			"3h",
			"--url",
			"https://example.com/",
			"--body",
			"@"+file,
		)
		shown := u.do("timer", "get", name, "-o", "jsonpath=.target."+c.field)
		require.Equal(t, c.want+"\n", shown, name)
	}
	said := u.refused(
		"timer",
		"create",
		"bad",
		"--every",
		"3h",
		"--url",
		"https://example.com/",
		"--body",
		"caf\xe9",
	)
	require.Contains(t, said, "--body: expected UTF-8 text")
}

// TestFlagsThatAreRepeated checks that a header has all the values that were given, and that a
// label which was given two is refused.
func TestFlagsThatAreRepeated(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	create := []string{"timer", "create", "a", "--every", "3h", "--url", "https://example.com/"}
	said := u.refused(append(create, "-l", "team=pay", "-l", "team=web")...)
	require.Contains(t, said, `expected each label once, found "team" twice`)
	u.do(append(create, "--header", "X-A: 1", "--header", "X-B: 2", "--header", "x-a: 3")...)
	shown := u.do("timer", "get", "a", "-o", "jsonpath=.target.headers")
	require.JSONEq(t, `{"X-A":["1","3"],"X-B":["2"]}`, shown)
}
