package allinone_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/allinone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output collects the output of a program.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// dev is a running all-in-one process.
type dev struct {
	api, admin  string
	out, errOut output
	cancel      context.CancelFunc
	done        chan error
}

func start(t *testing.T, dir string, more ...string) *dev {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	d := &dev{cancel: cancel, done: make(chan error, 1)}
	env := map[string]string{
		"CARILLON_HTTP_ADDR":  "127.0.0.1:0",
		"CARILLON_ADMIN_ADDR": "127.0.0.1:0",
		"CARILLON_DATA_DIR":   dir,
	}
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	began := time.Now()
	go func() {
		d.done <- allinone.Dev(ctx, nil, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, &d.out, &d.errOut)
	}()
	require.Eventually(t, func() bool {
		d.api, d.admin = d.addr("http listening"), d.addr("admin listening")
		if d.admin == "" || d.api == "" {
			return false
		}
		code, _ := get(t, d.admin+"/readyz")
		return code == http.StatusOK
	}, 20*time.Second, 5*time.Millisecond, "%s", &d.errOut)
	t.Logf("ready after %s", time.Since(began))
	return d
}

func (d *dev) stop(t *testing.T) {
	t.Helper()
	d.cancel()
	require.NoError(t, <-d.done)
}

func (d *dev) addr(phrase string) string {
	for line := range strings.Lines(d.errOut.String()) {
		var l struct{ Message, Addr string }
		if json.Unmarshal([]byte(line), &l) == nil && l.Message == phrase {
			return "http://" + l.Addr
		}
	}
	return ""
}

var client = &http.Client{
	Transport: &http.Transport{DisableKeepAlives: true},
	Timeout:   10 * time.Second,
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := client.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// TestFirstSteps does what a new user does: start it, run the printed command, see the call,
// restart it, and find the timer again.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := start(t, dir)
	m := regexp.MustCompile(`curl -s (\S+) -H 'Content-Type: application/json' -d '(.*)'`).
		FindStringSubmatch(d.out.String())
	require.NotNil(t, m, d.out.String())
	require.Equal(
		t,
		1,
		strings.Count(d.errOut.String(), "timers may call this machine"),
		"it says what is open",
	)
	refused, err := client.Post(d.api+"/api/v2/timers", "application/json", strings.NewReader(
		`{"app":"a","name":"b","schedule":{"kind":"delay","delay":"1h"},"target":{"url":"http://10.0.0.1/"}}`,
	))
	require.NoError(t, err)
	require.NoError(t, refused.Body.Close())
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, "and no more than that is")
	resp, err := client.Post(
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
		func() bool { return ring.MatchString(d.out.String()) },
		20*time.Second,
		20*time.Millisecond,
	)
	fires := "/api/v2/timers/" + created.ID + "/fires?app=demo"
	require.Eventually(t, func() bool {
		_, body := get(t, d.api+fires)
		return strings.Contains(body, `"status":"delivered"`)
	}, 10*time.Second, 20*time.Millisecond)
	code, body := get(t, d.admin+"/metrics")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "carillon_build_info")
	d.stop(t)

	d = start(t, dir)
	defer d.stop(t)
	_, body = get(t, d.api+fires)
	require.Contains(t, body, `"status":"delivered"`, "its data is kept")
}

// TestCanaryOfDev checks that the canary is delivered, shows in readiness and metrics, and does not
// count as a user's fire.
func TestCanaryOfDev(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir(), "CARILLON_CANARY", "1s")
	defer d.stop(t)
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
		code, body := get(t, d.admin+"/readyz")
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		ready := code == http.StatusOK
		for _, c := range got.Checks {
			ready = ready && c.OK
			require.Equal(t, c.Name == "canary" || c.Name == "tzdata", c.Optional)
			details[c.Name] = c.Detail
		}
		return ready && details["canary"]["outcome"] == "delivered"
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, "1s", details["canary"]["interval"])
	require.Less(t, details["canary"]["lateness_ms"], 20_000.)
	require.Less(t, details["canary"]["age_ms"], 20_000.)
	require.Equal(t, true, details["clock"]["steady"])

	_, body := get(t, d.api+"/api/v2/timers?app=carillon")
	require.Contains(t, body, `"kind":"canary"`)
	_, body = get(t, d.admin+"/metrics")
	for _, line := range []string{
		"carillon_canary_interval_seconds 1", "carillon_clock_steady 1", "carillon_oldest_open_fire_seconds ", "carillon_lateness_seconds_count 0",
		"carillon_canary_age_seconds ", "carillon_canary_lateness_seconds ", "carillon_clock_offset_seconds ", "carillon_clock_measured_age_seconds ",
	} {
		require.Contains(t, body, "\n"+line)
	}
	require.Regexp(t, `carillon_canary_call_lateness_seconds_count [1-9]`, body)
	require.NotContains(t, body, "carillon_fires_total{")
}

// TestDevClockCanBeSkewed checks that a skewed clock is measured.
func TestDevClockCanBeSkewed(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir(), "CARILLON_TEST_CLOCK", "true", "CARILLON_CANARY", "0")
	defer d.stop(t)
	resp, err := client.Post(
		d.admin+"/test/clock",
		"application/json",
		strings.NewReader(`{"offset_ms":2000}`),
	)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	offset := regexp.MustCompile(`"name":"clock","ok":true,"detail":{"offset_ms":-20[0-9][0-9],`)
	require.Eventually(t, func() bool {
		_, body := get(t, d.admin+"/readyz")
		require.NotContains(t, body, "canary")
		return offset.MatchString(body)
	}, 20*time.Second, 20*time.Millisecond)
}

func TestTwoCannotShareADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := start(t, dir)
	defer d.stop(t)
	err := allinone.Dev(
		t.Context(),
		[]string{"-data-dir", dir, "-admin-addr", "127.0.0.1:0"},
		noEnv,
		io.Discard,
		io.Discard,
	)
	require.ErrorContains(t, err, dir)
}

func TestTakenPortIsTold(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	defer d.stop(t)
	taken := strings.TrimPrefix(d.api, "http://")
	err := allinone.Dev(
		t.Context(),
		[]string{"-data-dir", t.TempDir(), "-admin-addr", "127.0.0.1:0", "-http-addr", taken},
		noEnv,
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
		allinone.Dev(t.Context(), []string{"-print-config"}, noEnv, &out, io.Discard),
		config.ErrDone,
	)
	require.Contains(t, out.String(), `callback-allow-private: "auto" # default`)
	require.Contains(t, out.String(), `data-dir: "./data" # default`)
	require.NotContains(t, out.String(), "mysql")
}

func noEnv(string) (string, bool) { return "", false }
