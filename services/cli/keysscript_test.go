package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKeysScriptAddsLines checks that scripts/keys.sh adds lines of their own, also behind a last line
// that does not end, and keeps existing keys.
func TestKeysScriptAddsLines(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("SKIPPED, UNTESTED: scripts/keys.sh: there is no bash")
	}
	root := t.TempDir() // with the program that the script runs
	for _, dir := range []string{"scripts", "bin"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, dir), 0o750))
	}
	text, err := os.ReadFile("../../scripts/keys.sh")
	require.NoError(t, err)
	script := filepath.Join(root, "scripts", "keys.sh")
	require.NoError(t, os.WriteFile(script, text, 0o600))
	require.NoError(t, os.Symlink(
		filepath.Join(programDir(t), "carillon"), filepath.Join(root, "bin", "carillon")))
	file := filepath.Join(root, "env")
	require.NoError(t, os.WriteFile(file, []byte("CARILLON_ZONE=Europe/Berlin"), 0o600))
	run := func() string {
		said, err := exec.CommandContext(t.Context(), "bash", script, file).CombinedOutput()
		require.NoError(t, err, "%s", said)
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(b)
	}
	made := run()
	require.Regexp(t, `^CARILLON_ZONE=Europe/Berlin
CARILLON_ADMIN_KEY=crl_\w+
CARILLON_ENCRYPTION_KEYS=[\w-]+:[\w+/=-]+
$`, made)
	require.Equal(t, made, run())
}
