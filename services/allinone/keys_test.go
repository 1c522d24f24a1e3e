package allinone_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/allinone"
)

// printed returns the output of a command.
func printed(
	t *testing.T,
	do func(context.Context, []string, process.Env, io.Writer, io.Writer) error,
	args ...string,
) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, do(t.Context(), args, noEnv, &out, io.Discard))
	return strings.TrimSpace(out.String())
}

func TestKeyCommands(t *testing.T) {
	t.Parallel()
	a, b := printed(t, allinone.AdminKey), printed(t, allinone.AdminKey)
	require.NotEqual(t, a, b)
	_, err := apikey.Parse(a)
	require.NoError(t, err)
	r, err := encryption.ParseKeyring(
		encryption.NewSecret(printed(t, allinone.EncryptionKey, "-id", "k7")),
	)
	require.NoError(t, err)
	require.Equal(t, "k7", r.First())
	_, err = encryption.ParseKeyring(encryption.NewSecret(printed(t, allinone.EncryptionKey)))
	require.NoError(t, err)
	require.ErrorContains(
		t,
		allinone.EncryptionKey(t.Context(), []string{"-id", "a b"}, noEnv, io.Discard, io.Discard),
		"id: ",
	)
}

// do calls the API of a running all-in-one process.
func (d *dev) do(t *testing.T, method, path, key, body string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, d.api+path, strings.NewReader(body))
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/json")
	if key != "" {
		q.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := client.Do(q)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// TestKeysOfDev checks that loopback needs no key by default, and that an encryption key is created
// automatically.
func TestKeysOfDev(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	code, _ := d.do(t, http.MethodGet, "/api/v2/timers?app=shop", "", "")
	require.Equal(t, http.StatusOK, code)
	d.stop(t)

	admin := apikey.New().Reveal()
	file := filepath.Join(t.TempDir(), "admin")
	require.NoError(t, os.WriteFile(file, []byte(admin+"\n"), 0o600))
	d = start(t, t.TempDir(), "CARILLON_AUTH", "on", "CARILLON_ADMIN_KEY_FILE", file)
	defer d.stop(t)
	code, _ = d.do(t, http.MethodGet, "/api/v2/timers?app=shop", "", "")
	require.Equal(t, http.StatusUnauthorized, code)
	code, body := d.do(
		t,
		http.MethodPost,
		"/api/v2/apps/shop/keys",
		admin,
		`{"name":"x","scope":"read"}`,
	)
	require.Equal(t, http.StatusCreated, code)
	var made struct{ Key string }
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	code, _ = d.do(t, http.MethodGet, "/api/v2/timers?app=shop", made.Key, "")
	require.Equal(t, http.StatusOK, code)
	require.NotContains(t, d.errOut.String(), admin)
	require.NotContains(t, d.errOut.String(), made.Key)

	err := allinone.Dev(
		t.Context(),
		[]string{"-admin-key", "hunter2"},
		noEnv,
		io.Discard,
		io.Discard,
	)
	require.ErrorContains(t, err, "admin-key: ")
	require.NotContains(t, err.Error(), "hunter2")
	loud := start(t, t.TempDir(), "CARILLON_AUTH", "off")
	defer loud.stop(t)
	require.Contains(t, loud.errOut.String(), "NO KEYS")
}

// TestReencrypt rotates an encryption key: the new key first, reencrypt, remove the old key.
func TestReencrypt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := start(t, dir)
	timerBody := `{"app":"shop","name":"bill","schedule":{"kind":"delay","delay":"1h"},` +
		`"target":{"url":"http://127.0.0.1:1/","secret_headers":{"X-K":"hunter2"},"oauth2":{"token_url":"https://id.example.com/","client_id":"me","secret":"hunter3"}}}`
	code, body := d.do(t, http.MethodPost, "/api/v2/timers", "", timerBody)
	require.Equal(t, http.StatusCreated, code, body)
	code, body = d.do(t, http.MethodPost, "/api/v2/apps/shop/signing-keys", "", `{}`)
	require.Equal(t, http.StatusCreated, code, body)
	d.stop(t)

	old, err := os.ReadFile(filepath.Join(dir, "sealing.keys"))
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, "sealing.keys"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	fresh := encryption.NewKey("fresh").Reveal()
	ring := filepath.Join(t.TempDir(), "ring")
	write := func(text string) { require.NoError(t, os.WriteFile(ring, []byte(text), 0o600)) }
	reencrypt := func() (string, error) {
		var out bytes.Buffer
		err := allinone.Reencrypt(
			t.Context(),
			[]string{"-data-dir", dir, "-encryption-keys-file", ring, "-pause", "10ms"},
			noEnv,
			&out,
			io.Discard,
		)
		return out.String(), err
	}
	write(fresh)
	said, err := reencrypt()
	require.ErrorContains(t, err, "keep the old keys")
	require.Contains(t, said, ", 2 failed")
	write(fresh + "\n" + string(old))
	said, err = reencrypt()
	require.NoError(t, err)
	require.Contains(
		t,
		said,
		`done: 2 definitions and signing keys checked, 2 reencrypted under "fresh", 0 failed`,
	)
	require.Contains(t, said, "pass 1: 2 reencrypted")
	require.Contains(t, said, `until every service runs with "fresh" first`)
	require.Contains(t, said, "168h longer if targets complete asynchronously")
	write(fresh)
	said, err = reencrypt()
	require.NoError(t, err, "the old key is not needed any more")
	require.Contains(t, said, "0 reencrypted")

	d = start(t, dir, "CARILLON_ENCRYPTION_KEYS", fresh)
	defer d.stop(t)
	code, body = d.do(t, http.MethodPost, "/api/v2/timers", "", timerBody)
	require.Equal(t, http.StatusOK, code, "the same definition is the same: %s", body)

	var p *config.Problems
	require.ErrorAs(
		t,
		allinone.Reencrypt(
			t.Context(),
			[]string{"-data-dir", t.TempDir()},
			noEnv,
			io.Discard,
			io.Discard,
		),
		&p,
	)
	require.ErrorAs(
		t,
		allinone.Reencrypt(t.Context(), []string{"-data-dir", dir}, noEnv, io.Discard, io.Discard),
		&p,
	)
}

func TestRedriveCommand(t *testing.T) {
	t.Parallel()
	admin := apikey.New().Reveal()
	d := start(
		t,
		t.TempDir(),
		"CARILLON_AUTH",
		"on",
		"CARILLON_ADMIN_KEY",
		admin,
		"CARILLON_CALLBACK_ALLOW",
		"127.0.0.1:*",
	)
	defer d.stop(t)
	code, body := d.do(
		t,
		http.MethodPost,
		"/api/v2/timers",
		admin,
		`{"app":"shop","name":"bill","status":"active","schedule":{"kind":"delay","delay":"10ms"},`+
			`"target":{"url":"http://127.0.0.1:1/"},"retry":{"attempts":1}}`,
	)
	require.Equal(t, http.StatusCreated, code, body)
	redrive := func(args ...string) (string, error) {
		var out bytes.Buffer
		env := func(k string) (string, bool) { return admin, k == "CARILLON_API_KEY" }
		err := allinone.Topics(
			t.Context(),
			append([]string{"redrive", "-api", d.api, "-app", "shop"}, args...),
			env,
			&out,
			io.Discard,
		)
		return out.String(), err
	}
	require.Eventually(t, func() bool {
		said, err := redrive()
		require.NoError(t, err)
		return strings.Contains(said, "1 would be redriven")
	}, 20*time.Second, 200*time.Millisecond)
	said, err := redrive("-yes")
	require.NoError(t, err)
	require.Contains(t, said, "exhausted")
	require.Contains(t, said, "1 redriven")
	_, err = redrive("-fires", "", "-yes")
	require.ErrorContains(t, err, "fires: lists none")
	_, err = redrive("-failure", "tired")
	require.ErrorContains(t, err, "422")
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(apikey.New().Reveal()+"\n"), 0o600))
	_, err = redrive("-key-file", file)
	require.ErrorContains(t, err, "does not know this key")
}
