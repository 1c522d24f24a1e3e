package wiring_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/wiring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Nothing listens at port 1.
var nowhere = map[string]string{
	"CARILLON_MYSQL_DSN":        "u:hunter2@tcp(127.0.0.1:1)/d",
	"CARILLON_REDIS_ADDRS":      "127.0.0.1:1",
	"CARILLON_PULSAR_URL":       "pulsar://127.0.0.1:1",
	"CARILLON_PULSAR_ADMIN_URL": "http://127.0.0.1:1",
	"CARILLON_ADMIN_ADDR":       "127.0.0.1:0",
	"CARILLON_HTTP_ADDR":        "127.0.0.1:0",
}

func envWith(changes ...string) func(string) (string, bool) {
	env := maps.Clone(nowhere)
	for i := 0; i < len(changes); i += 2 {
		env[changes[i]] = changes[i+1]
	}
	return func(k string) (string, bool) { v, ok := env[k]; return v, ok }
}

func roles() []wiring.Role {
	return []wiring.Role{
		wiring.API(),
		wiring.Migrator(),
		wiring.Scheduler(),
		wiring.Trigger(),
		wiring.Executor(),
	}
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (o *output) admin() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range strings.Lines(o.b.String()) {
		var l struct{ Message, Addr string }
		if json.Unmarshal([]byte(line), &l) == nil && l.Message == "admin listening" {
			return l.Addr
		}
	}
	return ""
}

// TestServicesWaitForTheirServers checks that every service starts before its servers, reports
// which it waits for, where and why, and stops when told to. Each line of the log names the server.
func TestServicesWaitForTheirServers(t *testing.T) {
	t.Parallel()
	for _, r := range roles() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			out, done := &output{}, make(chan error, 1)
			go func() { done <- wiring.Service(r)(ctx, nil, envWith(), io.Discard, out) }()
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			require.Eventually(t, func() bool {
				addr := out.admin()
				if addr == "" {
					return false
				}
				resp, err := client.Get("http://" + addr + "/readyz")
				if err != nil {
					return false
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NotContains(t, string(body), "hunter2")
				var got struct {
					Checks []struct{ Name, Error string }
				}
				require.NoError(t, json.Unmarshal(body, &got))
				waiting := map[string]bool{}
				for _, c := range got.Checks {
					waiting[c.Name] = strings.HasPrefix(c.Error, "waiting for the server") &&
						strings.Contains(c.Error, "127.0.0.1:1") &&
						strings.Contains(c.Error, "refused")
				}
				return resp.StatusCode == http.StatusServiceUnavailable && waiting["mysql"] &&
					waiting["pulsar"] &&
					waiting["redis at start"]
			}, 20*time.Second, 20*time.Millisecond)
			cancel()
			require.NoError(t, <-done)
			require.NotContains(t, out.text(), "not set up yet", "a second line of each attempt")
			for line := range strings.Lines(out.text()) {
				if strings.Contains(line, "127.0.0.1:1/admin") {
					require.Contains(t, line, `"server":"pulsar"`)
				}
			}
		})
	}
}

// TestSetupWaitsForEachServer checks that a setup, which is to stop a rollout, leaves no server out,
// and that a setup that was stopped has not succeeded.
func TestSetupWaitsForEachServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := &output{}, make(chan error, 1)
	go func() { done <- wiring.Prepare(ctx, "setup", nil, envWith(), io.Discard, out) }()
	require.Eventually(t, func() bool {
		waiting := map[string]bool{}
		for line := range strings.Lines(out.text()) {
			var l struct{ Message, Server string }
			require.NoError(t, json.Unmarshal([]byte(line), &l), line)
			waiting[l.Server] = waiting[l.Server] || l.Message == "waiting for server"
		}
		return waiting["mysql"] && waiting["redis"] && waiting["pulsar"]
	}, 20*time.Second, 20*time.Millisecond)
	cancel()
	require.ErrorContains(t, <-done, "waiting for ")
}

// TestReadyNamesMySQLNode where the DSN lists several.
func TestReadyNamesMySQLNode(t *testing.T) {
	t.Parallel()
	for addrs, want := range map[string]string{
		"127.0.0.1:1":             "",
		"127.0.0.1:1,127.0.0.1:2": `"detail":{"node":"127.0.0.1:1","preferred":"127.0.0.1:1"}`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		out, done := &output{}, make(chan error, 1)
		env := envWith("CARILLON_MYSQL_DSN", "u:hunter2@tcp("+addrs+")/d")
		go func() { done <- wiring.Service(wiring.Trigger())(ctx, nil, env, io.Discard, out) }()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		require.Eventually(t, func() bool {
			addr := out.admin()
			if addr == "" {
				return false
			}
			resp, err := client.Get("http://" + addr + "/readyz")
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			text := string(body)
			if want == "" {
				require.NotContains(t, text, "preferred")
			}
			return strings.Contains(text, `"name":"mysql"`) && strings.Contains(text, want)
		}, 20*time.Second, 20*time.Millisecond)
		cancel()
		require.NoError(t, <-done)
	}
}

// requireProblem checks that a program exits with the code of invalid settings.
func requireProblem(t *testing.T, err error) {
	t.Helper()
	var p *config.Problems
	require.ErrorAs(t, err, &p)
}

func TestWhatCanNeverWorkIsAnError(t *testing.T) {
	t.Parallel()
	for setting, bad := range map[string]string{
		"CARILLON_MYSQL_DSN": "u:hunter2@nowhere", "CARILLON_PULSAR_URL": "http://127.0.0.1:1", "CARILLON_REDIS_ADDRS": "redis",
		"CARILLON_REDIS_PREFIX": "a{b}", "CARILLON_EXPAND_AHEAD": "soon", "CARILLON_PULSAR_ADMIN_URL": "localhost",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := wiring.Service(
			wiring.Trigger(),
		)(
			ctx,
			nil,
			envWith(setting, bad),
			io.Discard,
			io.Discard,
		)
		requireProblem(t, err)
		require.NoError(t, ctx.Err(), "at once")
		require.NotContains(t, err.Error(), "hunter2")
		require.Contains(
			t,
			err.Error(),
			strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(setting, "CARILLON_"), "_", "-")),
		)
		cancel()
	}
}

// TestOwnPulsarAmongOthers checks that no service starts whose callback-topics would not hold.
func TestOwnPulsarAmongOthers(t *testing.T) {
	t.Parallel()
	for _, r := range []wiring.Role{wiring.API(), wiring.Executor()} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		env := envWith("CARILLON_CALLBACK_PULSAR_URLS", nowhere["CARILLON_PULSAR_URL"])
		err := wiring.Service(r)(ctx, nil, env, io.Discard, io.Discard)
		cancel()
		require.ErrorContains(t, err, "callback-topics", r.Name)
		requireProblem(t, err)
	}
}

// TestCertificatesThatCannotWork checks that a wrong file stops a service at once, with an error
// that names the setting.
func TestCertificatesThatCannotWork(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for want, env := range map[string][]string{
		"mysql-tls-cert, mysql-tls-key: give both or none":                {"MYSQL_TLS=true", "MYSQL_TLS_CERT=" + empty},
		"mysql-tls-key: without effect unless mysql-tls=true":             {"MYSQL_TLS_CA=" + empty},
		"mysql-tls-ca: reading certificate authorities from ":             {"MYSQL_TLS=true", "MYSQL_TLS_CA=" + empty},
		"it has no certificate in PEM":                                    {"MYSQL_TLS=true", "MYSQL_TLS_CA=" + empty},
		"mysql-tls-ca: reading a certificate: stat /nowhere":              {"MYSQL_TLS=true", "MYSQL_TLS_CA=/nowhere"},
		"mysql-tls-cert, mysql-tls-key: reading a certificate":            {"MYSQL_TLS=true", "MYSQL_TLS_CERT=" + empty, "MYSQL_TLS_KEY=" + empty},
		"mysql-dsn: dsn: tls= in it contradicts mysql-tls":                {"MYSQL_TLS=true", "MYSQL_DSN=u:p@tcp(h:1)/d?tls=true"},
		"redis-tls-cert, redis-tls-key: give both or none":                {"REDIS_TLS=true", "REDIS_TLS_KEY=" + empty},
		"redis-tls-key: without effect unless redis-tls=true":             {"REDIS_TLS_CA=" + empty},
		"redis-tls-ca: reading certificate authorities from ":             {"REDIS_TLS=true", "REDIS_TLS_CA=" + empty},
		"pulsar-oauth2-issuer, pulsar-oauth2-key-file: give both or none": {"PULSAR_OAUTH2_ISSUER=https://h"},
		"pulsar-oauth2-issuer: not a URL":                                 {"PULSAR_OAUTH2_ISSUER=h", "PULSAR_OAUTH2_KEY_FILE=" + empty},
		"pulsar-token: given together with pulsar-oauth2-issuer":          {"PULSAR_OAUTH2_ISSUER=https://h", "PULSAR_OAUTH2_KEY_FILE=" + empty, "PULSAR_TOKEN=t"},
		"pulsar-oauth2-key-file: reading the OAuth2 key from ":            {"PULSAR_OAUTH2_ISSUER=https://h", "PULSAR_OAUTH2_KEY_FILE=" + empty},
		"pulsar-tls-key: without effect unless pulsar-url begins":         {"PULSAR_TLS_CA=" + empty},
		"pulsar-tls-ca: reading certificate authorities from ":            {"PULSAR_URL=pulsar+ssl://127.0.0.1:1", "PULSAR_TLS_CA=" + empty},
	} {
		var changes []string
		for _, setting := range env {
			name, value, _ := strings.Cut(setting, "=")
			changes = append(changes, "CARILLON_"+name, value)
		}
		run := wiring.Service(wiring.Trigger())
		err := run(t.Context(), nil, envWith(changes...), io.Discard, io.Discard)
		require.ErrorContains(t, err, want)
		requireProblem(t, err)
	}
	// The servers are not there, so it does not wait for them.
	env := envWith("CARILLON_HTTP_TLS_CERT", empty, "CARILLON_HTTP_TLS_KEY", empty)
	err := wiring.Service(wiring.API())(t.Context(), nil, env, io.Discard, io.Discard)
	require.ErrorContains(t, err, "http-tls-cert, http-tls-key: ")
	requireProblem(t, err)
}

// TestOnePortForBothListeners checks that only a program with both listeners refuses it.
func TestOnePortForBothListeners(t *testing.T) {
	t.Parallel()
	env := envWith("CARILLON_HTTP_ADDR", "127.0.0.1:8080", "CARILLON_ADMIN_ADDR", ":8080")
	show := []string{"-print-config"}
	err := wiring.Service(wiring.API())(t.Context(), show, env, io.Discard, io.Discard)
	require.ErrorContains(t, err, "http-addr, admin-addr: ")
	requireProblem(t, err)
	err = wiring.Service(wiring.Trigger())(t.Context(), show, env, io.Discard, io.Discard)
	require.ErrorIs(t, err, config.ErrDone)
}

// TestSettingsOfRoles checks that each program lists only its own settings.
func TestSettingsOfRoles(t *testing.T) {
	t.Parallel()
	for _, r := range roles() {
		var out bytes.Buffer
		require.ErrorIs(
			t,
			wiring.Service(r)(t.Context(), []string{"-print-config"}, envWith(), &out, io.Discard),
			config.ErrDone,
		)
		require.Contains(t, out.String(), `mysql-dsn: "u:REDACTED@tcp(127.0.0.1:1)/d"`)
		require.Equal(t, r.Name == "api", strings.Contains(out.String(), "http-addr"))
		require.Equal(
			t,
			r.Name == "executor" || r.Name == "api",
			strings.Contains(out.String(), "callback-allow-private"),
		)
		require.Equal(
			t,
			r.Name == "migrator" || r.Name == "api",
			strings.Contains(out.String(), "retention"),
		)
	}
}
