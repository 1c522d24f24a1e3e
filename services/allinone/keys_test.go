package allinone_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/services/allinone"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestKeysOfDev checks that loopback needs no key by default, and that an encryption key is created
// automatically.
func TestKeysOfDev(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	code, _ := d.Do(t, http.MethodGet, "/api/v2/timers?app=shop", "", "")
	require.Equal(t, http.StatusOK, code)
	d.Stop(t)

	admin := apikey.New().Reveal()
	file := filepath.Join(t.TempDir(), "admin")
	require.NoError(t, os.WriteFile(file, []byte(admin+"\n"), 0o600))
	d = devtest.Start(t, t.TempDir(), "CARILLON_AUTH", "on", "CARILLON_ADMIN_KEY_FILE", file)
	defer d.Stop(t)
	code, _ = d.Do(t, http.MethodGet, "/api/v2/timers?app=shop", "", "")
	require.Equal(t, http.StatusUnauthorized, code)
	code, body := d.Do(
		t,
		http.MethodPost,
		"/api/v2/apps/shop/keys",
		admin,
		`{"name":"x","scope":"read"}`,
	)
	require.Equal(t, http.StatusCreated, code)
	var made struct{ Key string }
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	code, _ = d.Do(t, http.MethodGet, "/api/v2/timers?app=shop", made.Key, "")
	require.Equal(t, http.StatusOK, code)
	require.NotContains(t, d.ErrOut.String(), admin)
	require.NotContains(t, d.ErrOut.String(), made.Key)
	require.Contains(t, d.ErrOut.String(), "timers may not call this machine: carillon app allow")

	err := allinone.Dev(
		t.Context(),
		[]string{"-admin-key", "hunter2"},
		devtest.NoEnv,
		io.Discard,
		io.Discard,
	)
	require.ErrorContains(t, err, "admin-key: ")
	require.NotContains(t, err.Error(), "hunter2")
	loud := devtest.Start(t, t.TempDir(), "CARILLON_AUTH", "off")
	defer loud.Stop(t)
	require.Contains(t, loud.ErrOut.String(), "NO KEYS")
}

// TestDevTellsOfKeysThatItIgnores sets other encryption keys than those of the data directory.
func TestDevTellsOfKeysThatItIgnores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := devtest.Start(t, dir)
	d.Stop(t)
	require.NotContains(t, d.ErrOut.String(), "keys ignored")
	d = devtest.Start(t, dir, "CARILLON_ENCRYPTION_KEYS", encryption.NewKey("new").Reveal())
	defer d.Stop(t)
	require.Contains(t, d.ErrOut.String(), "keys ignored")
	require.Contains(t, d.ErrOut.String(), filepath.Join(dir, "sealing.keys"))
}
