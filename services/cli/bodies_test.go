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
