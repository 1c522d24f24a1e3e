package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestBackup backs up a running process, loses its data, and restores it.
func TestBackup(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	d := devtest.Start(t, data)
	const timerBody = `{"app":"shop","name":"bill","schedule":{"kind":"delay","delay":"1h"},` +
		`"target":{"url":"http://127.0.0.1:1/","secret_headers":{"X-K":"hunter2"}}}`
	code, body := d.Do(t, http.MethodPost, "/api/v2/timers", "", timerBody)
	require.Equal(t, http.StatusCreated, code, body)
	code, body = d.Do(t, http.MethodPost, "/api/v2/apps/shop/signing-keys", "", `{}`)
	require.Equal(t, http.StatusCreated, code, body)

	dir := filepath.Join(t.TempDir(), "backup")
	var out bytes.Buffer
	backup := func(args ...string) error {
		out.Reset()
		return cli.Backup(t.Context(), args, devtest.NoEnv, &out, io.Discard)
	}
	restore := func(args ...string) error {
		out.Reset()
		return cli.Restore(t.Context(), args, devtest.NoEnv, &out, io.Discard)
	}
	require.NoError(t, backup(dir, "-data-dir", data))
	require.Contains(t, out.String(), "backed up into "+dir+": ")
	require.NoError(t, backup("verify", dir))
	require.Contains(t, out.String(), "is complete and undamaged")
	require.ErrorContains(t, backup(dir, "-data-dir", data), "has a complete backup")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f.Name())
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		require.NotContains(t, string(text), "hunter2")
	}
	require.ErrorContains(t, restore(dir, "-data-dir", data), "in use by another process")
	d.Stop(t)
	require.ErrorContains(t, restore(dir, "-data-dir", data), "it is not empty")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, command := range []process.RunFunc{cli.Backup, cli.Restore} {
		err := command(
			stopped,
			[]string{t.TempDir(), "-data-dir", data},
			devtest.NoEnv,
			io.Discard,
			io.Discard,
		)
		require.Error(t, err)
		require.NotErrorIs(t, err, context.Canceled, "scripts take it for a success")
	}

	// Without keys nothing is checked.
	unchecked := filepath.Join(t.TempDir(), "unchecked")
	require.NoError(t, restore(dir, "-data-dir", unchecked))
	require.Contains(
		t,
		out.String(),
		"2 definitions and signing keys have secrets, which were not checked",
	)
	require.Contains(
		t,
		out.String(),
		"Put the encryption keys into "+filepath.Join(unchecked, "sealing.keys"),
	)

	// Wrong keys stop the restore before a service can use the store, and it continues with others.
	restored, ring := t.TempDir(), filepath.Join(t.TempDir(), "ring")
	require.NoError(t, os.WriteFile(ring, []byte(encryption.NewKey("dev").Reveal()), 0o600))
	err = restore(dir, "-data-dir", restored, "-encryption-keys-file", ring)
	require.ErrorContains(
		t,
		err,
		"do not open 2 of 2 definitions and signing keys (version 1 of timer ",
	)
	require.NotContains(t, err.Error(), "hunter2")
	require.ErrorContains(t, err, "or give none, to restore without this check")
	own := filepath.Join(restored, "sealing.keys")
	require.NoError(t, os.Rename(ring, own))
	require.ErrorContains(t, restore(dir, "-data-dir", restored), "or move "+own+" away")
	require.NoError(t, os.Rename(own, ring))
	err = cli.Reencrypt(t.Context(), []string{"-data-dir", restored, "-encryption-keys-file", ring},
		devtest.NoEnv, io.Discard, io.Discard)
	require.ErrorContains(t, err, "a restore into this database has begun and not finished")
	keys, err := os.ReadFile(filepath.Join(data, "sealing.keys"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(restored, "sealing.keys"), keys, 0o600))
	require.NoError(t, restore(dir, "-data-dir", restored))
	require.Contains(
		t,
		out.String(),
		"2 definitions and signing keys have secrets, and the encryption keys open all of them",
	)

	d = devtest.Start(t, restored)
	defer d.Stop(t)
	code, body = d.Do(t, http.MethodPost, "/api/v2/timers", "", timerBody)
	require.Equal(t, http.StatusOK, code, "the same definition is the same: %s", body)
}

func TestBackupUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil,
		{"a", "b"},
		{"verify"},
		{"a", "-data-dir", t.TempDir()},
		{"a", "-sing", "it"},
		{"verify", "a", "-data-dir", "b"},
		{"a", "-mysql-dsn", "u@nowhere"},
	} {
		var p *config.Problems
		err := cli.Backup(t.Context(), args, devtest.NoEnv, io.Discard, io.Discard)
		require.ErrorAs(t, err, &p, "%q", args)
	}
	for _, args := range [][]string{nil, {"a", "b"}, {"a", "-encryption-keys", "nonsense"}} {
		var p *config.Problems
		args = append(args, "-data-dir", filepath.Join(t.TempDir(), "new"))
		err := cli.Restore(t.Context(), args, devtest.NoEnv, io.Discard, io.Discard)
		require.ErrorAs(t, err, &p, "%q", args)
	}
	for _, value := range []string{"h", "-h"} { // of a setting, and no request for the usage
		args := []string{"-data-dir", value}
		err := cli.Backup(t.Context(), args, devtest.NoEnv, io.Discard, io.Discard)
		require.ErrorContains(t, err, "carillon backup DIRECTORY")
		err = cli.Restore(t.Context(), args, devtest.NoEnv, io.Discard, io.Discard)
		require.ErrorContains(t, err, "carillon restore DIRECTORY")
	}
	err := cli.Backup(
		t.Context(),
		[]string{"verify", t.TempDir()},
		devtest.NoEnv,
		io.Discard,
		io.Discard,
	)
	require.ErrorContains(t, err, "it is no backup")
	data := filepath.Join(t.TempDir(), "new")
	err = cli.Restore(
		t.Context(),
		[]string{t.TempDir(), "-data-dir", data},
		devtest.NoEnv,
		io.Discard,
		io.Discard,
	)
	require.ErrorContains(t, err, "it is no backup")
	require.NoDirExists(t, data)
}
