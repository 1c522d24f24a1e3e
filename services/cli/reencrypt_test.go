package cli_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestReencrypt rotates an encryption key: the new key first, reencrypt, remove the old key.
func TestReencrypt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := devtest.Start(t, dir)
	timerBody := `{"app":"shop","name":"bill","schedule":{"kind":"delay","delay":"1h"},` +
		`"target":{"url":"http://127.0.0.1:1/","secret_headers":{"X-K":"hunter2"},"oauth2":{"token_url":"https://id.example.com/","client_id":"me","secret":"hunter3"}}}`
	code, body := d.Do(t, http.MethodPost, "/api/v2/timers", "", timerBody)
	require.Equal(t, http.StatusCreated, code, body)
	code, body = d.Do(t, http.MethodPost, "/api/v2/apps/shop/signing-keys", "", `{}`)
	require.Equal(t, http.StatusCreated, code, body)
	d.Stop(t)

	old, err := os.ReadFile(filepath.Join(dir, "sealing.keys"))
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, "sealing.keys"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	fresh := encryption.NewKey("fresh").Reveal()
	ring := filepath.Join(t.TempDir(), "ring")
	dump := filepath.Join(t.TempDir(), "dump")
	require.NoError(t, cli.Backup(
		t.Context(), []string{dump, "-data-dir", dir}, devtest.NoEnv, io.Discard, io.Discard))
	write := func(text string) { require.NoError(t, os.WriteFile(ring, []byte(text), 0o600)) }
	reencrypt := func(dir string) (string, error) {
		var out bytes.Buffer
		err := cli.Reencrypt(
			t.Context(),
			[]string{"-data-dir", dir, "-encryption-keys-file", ring, "-pause", "10ms"},
			devtest.NoEnv,
			&out,
			io.Discard,
		)
		return out.String(), err
	}
	write(fresh)
	said, err := reencrypt(dir)
	require.ErrorContains(t, err, "keep the old keys")
	require.Contains(t, said, ", 2 failed")
	write(fresh + "\n" + string(old))
	said, err = reencrypt(dir)
	require.NoError(t, err)
	require.Contains(
		t,
		said,
		`done: 2 definitions and signing keys checked, 2 reencrypted under "fresh", 0 failed`,
	)
	require.Contains(t, said, "pass 1: 2 reencrypted")
	require.Contains(t, said, `until every service runs with "fresh" first`)
	require.Contains(t, said, "168h longer if targets complete asynchronously")
	require.Contains(t, said, "keep a copy while you have backups from before")
	write(fresh)
	said, err = reencrypt(dir)
	require.NoError(t, err, "the old key is not needed any more")
	require.Contains(t, said, "0 reencrypted")

	restored := filepath.Join(t.TempDir(), "restored")
	restore := func() error {
		return cli.Restore(
			t.Context(),
			[]string{dump, "-data-dir", restored, "-encryption-keys-file", ring},
			devtest.NoEnv,
			io.Discard,
			io.Discard,
		)
	}
	require.ErrorContains(t, restore(), "the old ones if the backup is from before a rotation")
	write(fresh + "\n" + string(old))
	require.NoError(t, restore())
	said, err = reencrypt(restored)
	require.NoError(t, err)
	require.Contains(t, said, "pass 1: 2 reencrypted")

	write(encryption.NewKey("fresh").Reveal())
	said, err = reencrypt(dir)
	require.ErrorContains(t, err, "keep the old keys", "another key of the same id")
	require.Contains(t, said, ", 2 failed")

	d = devtest.Start(t, dir, "CARILLON_ENCRYPTION_KEYS", fresh)
	defer d.Stop(t)
	code, body = d.Do(t, http.MethodPost, "/api/v2/timers", "", timerBody)
	require.Equal(t, http.StatusOK, code, "the same definition is the same: %s", body)

	var p *config.Problems
	require.ErrorAs(
		t,
		cli.Reencrypt(
			t.Context(),
			[]string{"-data-dir", t.TempDir()},
			devtest.NoEnv,
			io.Discard,
			io.Discard,
		),
		&p,
	)
	require.ErrorAs(
		t,
		cli.Reencrypt(
			t.Context(),
			[]string{"-data-dir", dir},
			devtest.NoEnv,
			io.Discard,
			io.Discard,
		),
		&p,
	)
}
