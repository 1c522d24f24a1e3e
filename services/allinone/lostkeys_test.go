package allinone_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/services/allinone"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestLostEncryptionKeys checks that a database with secrets gets no new keys by itself, and that a
// process with other keys reports the secrets that it cannot decrypt.
func TestLostEncryptionKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := devtest.Start(t, dir)
	code, body := d.Do(
		t,
		http.MethodPost,
		"/api/v2/timers",
		"",
		`{"app":"shop","name":"bill","status":"active","schedule":{"kind":"delay","delay":"1s"},"retry":{"attempts":1},`+
			`"target":{"url":"`+d.Api+allinone.EchoPath+`","secret_headers":{"X-K":"hunter2"}}}`,
	)
	require.Equal(t, http.StatusCreated, code, body)
	d.Stop(t)

	file := filepath.Join(dir, "sealing.keys")
	require.NoError(t, os.Remove(file))
	err := allinone.Dev(
		t.Context(),
		[]string{"-data-dir", dir, "-http-addr", "127.0.0.1:0", "-admin-addr", "127.0.0.1:0"},
		devtest.NoEnv,
		io.Discard,
		io.Discard,
	)
	require.ErrorContains(t, err, file+" is missing, and the database beside it has secrets")
	require.ErrorAs(t, err, new(*config.Problems), "the code of a wrong setting")
	require.NoFileExists(t, file)

	require.NoError(t, os.WriteFile(file, []byte(encryption.NewKey("other").Reveal()), 0o600))
	d = devtest.Start(t, dir)
	defer d.Stop(t)
	require.Eventually(t, func() bool {
		code, body = devtest.Get(t, d.Admin+"/readyz")
		return strings.Contains(body, `a secret of app \"shop\": `)
	}, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, http.StatusOK, code, "the process has other work")
	require.Contains(t, body, "encryption-keys")
	require.NotContains(t, body+d.ErrOut.String(), "hunter2")
	_, body = devtest.Get(t, d.Admin+"/metrics")
	require.Contains(t, body, "\ncarillon_secrets_unreadable_total 1\n")
}
