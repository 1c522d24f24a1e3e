package allinone_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/allinone"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFirstSteps does what a new user does: start it, run the printed command, see the call,
// restart it, and find the timer again.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := devtest.Start(t, dir)
	require.Contains(t, d.Out.String(), "Its data is in "+dir+".")
	m := regexp.MustCompile(`curl -s (\S+) -H 'Content-Type: application/json' -d '(.*)'`).
		FindStringSubmatch(d.Out.String())
	require.NotNil(t, m, d.Out.String())
	require.Equal(
		t,
		1,
		strings.Count(d.ErrOut.String(), "timers may call this machine"),
		"it says what is open",
	)
	refused, err := devtest.Client.Post(
		d.Api+"/api/v2/timers",
		"application/json",
		strings.NewReader(
			`{"app":"a","name":"b","schedule":{"kind":"delay","delay":"1h"},"target":{"url":"http://10.0.0.1/"}}`,
		),
	)
	require.NoError(t, err)
	require.NoError(t, refused.Body.Close())
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, "and no more than that is")
	resp, err := devtest.Client.Post(
		m[1],
		"application/json",
		strings.NewReader(strings.Replace(m[2], "'$(date +%s)'", "1", 1)),
	)
	require.NoError(t, err)
	var created struct{ ID, Status string }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&created))
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	require.Equal(t, "active", created.Status)

	ring := regexp.MustCompile(
		`CALL due \S+, \+\d+ ms  fire "` + created.ID + `-\d+"  attempt "1"  POST "hello"`,
	)
	require.Eventually(
		t,
		func() bool { return ring.MatchString(d.Out.String()) },
		20*time.Second,
		20*time.Millisecond,
	)
	fires := "/api/v2/timers/" + created.ID + "/fires?app=demo"
	require.Eventually(t, func() bool {
		_, body := devtest.Get(t, d.Api+fires)
		return strings.Contains(body, `"status":"delivered"`)
	}, 10*time.Second, 20*time.Millisecond)
	code, body := devtest.Get(t, d.Admin+"/metrics")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "carillon_build_info")
	d.Stop(t)

	d = devtest.Start(t, dir)
	defer d.Stop(t)
	_, body = devtest.Get(t, d.Api+fires)
	require.Contains(t, body, `"status":"delivered"`, "its data is kept")
}

// TestCanaryOfDev checks that the canary is delivered, shows in readiness and metrics, and does not
// count as a user's fire.
func TestCanaryOfDev(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir(), "CARILLON_CANARY", "1s")
	defer d.Stop(t)
	var got struct {
		Status string
		Checks []struct {
			Name         string
			OK, Optional bool
			Detail       map[string]any
		}
	}
	details := map[string]map[string]any{}
	require.Eventually(t, func() bool {
		code, body := devtest.Get(t, d.Admin+"/readyz")
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		ready := code == http.StatusOK
		for _, c := range got.Checks {
			ready = ready && c.OK
			optional := []string{"canary", "tzdata", "deployment", "secrets", "sqlite writes"}
			require.Equal(t, slices.Contains(optional, c.Name), c.Optional, c.Name)
			details[c.Name] = c.Detail
		}
		return ready && details["canary"]["outcome"] == "delivered"
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, "1s", details["canary"]["interval"])
	require.Less(t, details["canary"]["lateness_ms"], 20_000.)
	require.Less(t, details["canary"]["age_ms"], 20_000.)
	require.Equal(t, true, details["clock"]["steady"])

	_, body := devtest.Get(t, d.Api+"/api/v2/timers?app=carillon")
	require.Contains(t, body, `"kind":"canary"`)
	_, body = devtest.Get(t, d.Admin+"/metrics")
	for _, line := range []string{
		"carillon_canary_interval_seconds 1", "carillon_clock_steady 1", "carillon_oldest_open_fire_seconds ", "carillon_lateness_seconds_count 0",
		"carillon_canary_age_seconds ", "carillon_canary_lateness_seconds ", "carillon_clock_offset_seconds ", "carillon_clock_measured_age_seconds ",
	} {
		require.Contains(t, body, "\n"+line)
	}
	require.Regexp(t, `carillon_canary_call_lateness_seconds_count [1-9]`, body)
	require.NotRegexp(t, `\ncarillon_fires_total\{[^}]*\} [1-9]`, body)
}

// TestDevClockCanBeSkewed checks that a skewed clock is measured.
func TestDevClockCanBeSkewed(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir(), "CARILLON_TEST_CLOCK", "true", "CARILLON_CANARY", "0")
	defer d.Stop(t)
	resp, err := devtest.Client.Post(
		d.Admin+"/test/clock",
		"application/json",
		strings.NewReader(`{"offset_ms":2000}`),
	)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	offset := regexp.MustCompile(`"name":"clock","ok":true,"detail":{"offset_ms":-20[0-9][0-9],`)
	require.Eventually(t, func() bool {
		_, body := devtest.Get(t, d.Admin+"/readyz")
		require.NotContains(t, body, "canary")
		return offset.MatchString(body)
	}, 20*time.Second, 20*time.Millisecond)
}

func TestTwoCannotShareADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := devtest.Start(t, dir)
	defer d.Stop(t)
	err := allinone.Dev(
		t.Context(),
		[]string{"-data-dir", dir, "-admin-addr", "127.0.0.1:0"},
		devtest.NoEnv,
		io.Discard,
		io.Discard,
	)
	require.ErrorContains(t, err, dir)
}

func TestTakenPortIsTold(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	taken := strings.TrimPrefix(d.Api, "http://")
	err := allinone.Dev(
		t.Context(),
		[]string{"-data-dir", t.TempDir(), "-admin-addr", "127.0.0.1:0", "-http-addr", taken},
		devtest.NoEnv,
		io.Discard,
		io.Discard,
	)
	require.ErrorContains(t, err, "http-addr: listening on "+taken)
}

func TestSettingsOfDev(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.ErrorIs(
		t,
		allinone.Dev(t.Context(), []string{"-print-config"}, devtest.NoEnv, &out, io.Discard),
		config.ErrDone,
	)
	require.Contains(t, out.String(), `callback-allow-private: "auto" # default`)
	require.Contains(t, out.String(), `data-dir: "./data" # default`)
	require.NotContains(t, out.String(), "mysql")
}

// TestDamagedDatabase checks that a start with a damaged file says what to do.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(db []byte) []byte{
		"no database": func(db []byte) []byte { return bytes.Repeat([]byte("text"), len(db)/4) },
		"cut off":     func(db []byte) []byte { return db[:len(db)/2] },
		"overwritten behind the schema": func(db []byte) []byte {
			const schema = 64 << 10
			return append(db[:schema:schema], bytes.Repeat([]byte("x"), len(db)-schema)...)
		},
	} {
		dir := t.TempDir()
		d := devtest.Start(t, dir)
		d.Stop(t)
		file := filepath.Join(dir, "carillon.db")
		db, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, damage(db), 0o600))
		args := []string{
			"-data-dir",
			dir,
			"-admin-addr",
			"127.0.0.1:0",
			"-http-addr",
			"127.0.0.1:0",
		}
		err = allinone.Dev(t.Context(), args, devtest.NoEnv, io.Discard, io.Discard)
		require.ErrorContains(t, err, file+" is damaged or no database", name)
		require.ErrorContains(t, err, "carillon restore, or set another data-dir", name)
	}
}

// TestServersAreIgnored checks that the process says which servers it does not use, and only those.
func TestServersAreIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "settings.yaml")
	require.NoError(t, os.WriteFile(file, []byte("pulsar: {url: 'pulsar://h:6650'}\n"), 0o600))
	d := devtest.Start(t, dir, "CARILLON_CONFIG", file,
		"CARILLON_MYSQL_DSN", "u:hunter2@tcp(h:3306)/d", "CARILLON_REDIS_PREFIX", "x")
	defer d.Stop(t)
	var ignored []string
	for line := range strings.Lines(d.ErrOut.String()) {
		var l struct{ Level, Message, Setting, Source string }
		if json.Unmarshal([]byte(line), &l) == nil &&
			strings.HasPrefix(l.Message, "setting ignored") {
			ignored = append(ignored, l.Level+" "+l.Setting+" "+l.Source)
		}
	}
	require.Equal(t, []string{
		"warn mysql-dsn environment CARILLON_MYSQL_DSN", "warn pulsar-url file " + file,
	}, ignored)
	require.NotContains(t, d.ErrOut.String(), "hunter2")
}
