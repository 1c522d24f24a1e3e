package wiring_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/zone/zonetest"
	"github.com/carillon-timer/carillon/services/wiring"
)

// TestZoneSettings checks that invalid time zones are reported at start, with the setting, what was
// expected and a remedy.
func TestZoneSettings(t *testing.T) {
	t.Parallel()
	for want, env := range map[string][]string{
		`zone: expected an IANA time zone such as "Europe/Berlin", found "europe/berlin": names are matched by case, use "Europe/Berlin"`: {"CARILLON_ZONE", "europe/berlin"},
		`zone: expected an IANA time zone such as "Europe/Berlin", found "right/Europe/Berlin"`:                                           {"CARILLON_ZONE", "right/Europe/Berlin"},
		`zone: expected an IANA time zone such as "Europe/Berlin", found "Local"`:                                                         {"CARILLON_ZONE", "Local"},
		"tzdata: open /nowhere/zoneinfo.zip":                  {"CARILLON_TZDATA", "/nowhere/zoneinfo.zip"},
		"tzdata: zones_test.go: expected a zip of time zones": {"CARILLON_TZDATA", "zones_test.go"},
	} {
		err := wiring.Service(
			wiring.API(),
		)(
			t.Context(),
			nil,
			envWith(env...),
			io.Discard,
			io.Discard,
		)
		var problems *config.Problems
		require.ErrorAs(t, err, &problems, want)
		require.ErrorContains(t, err, want)
	}
}

// TestProblemsTogether checks that settings which package config cannot judge are reported beside the
// others, also for -print-config.
func TestProblemsTogether(t *testing.T) {
	t.Parallel()
	env := envWith(
		"CARILLON_ZONE", "Mars/Base", "CARILLON_RETENTION", "1s",
		"CARILLON_OIDC_ISSUER", "https://id.example.com", "CARILLON_OIDC_CLIENT_ID", "carillon",
		"CARILLON_OIDC_ROLES", "team=chief@shop",
	)
	err := wiring.Service(wiring.API())(
		t.Context(), []string{"-print-config"}, env, io.Discard, io.Discard,
	)
	var problems *config.Problems
	require.ErrorAs(t, err, &problems)
	for _, want := range []string{"zone: expected an IANA", "retention: ", "oidc-roles: "} {
		require.ErrorContains(t, err, want)
	}
}

// TestZonesInReadiness checks where a process reports time zones that come from a file.
func TestZonesInReadiness(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := zonetest.File(t, "2031a", nil)
	ctx, cancel := context.WithCancel(t.Context())
	out, done := &output{}, make(chan error, 1)
	s := &wiring.Settings{}
	go func() {
		done <- wiring.Run(ctx, wiring.Program{
			Name: "test", Service: "test", Settings: s, Parts: []config.Part{&s.Data}, Open: wiring.OpenEmbedded,
			Roles: []wiring.Role{wiring.Migrator(), wiring.Scheduler()}, Stdout: io.Discard,
		}, []string{"-data-dir", dir, "-tzdata", file, "-admin-addr", "127.0.0.1:0", "-shutdown-grace", "1s"}, func(string) (string, bool) { return "", false }, out)
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) string {
		resp, err := client.Get("http://" + out.admin() + path)
		if err != nil {
			return ""
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(body)
	}
	require.Eventually(t, func() bool {
		return out.admin() != "" &&
			strings.Contains(
				get("/readyz"),
				`{"name":"tzdata","ok":true,"optional":true,"detail":{"version":"2031a","source":"`+file+`","versions":{"2031a":["`,
			)
	}, 20*time.Second, 20*time.Millisecond)
	metrics := get("/metrics")
	require.Contains(t, metrics, `carillon_tzdata_info{source="file",version="2031a"} 1`)
	require.Contains(t, metrics, `tzdata="2031a"`)
	require.Contains(t, metrics, "carillon_tzdata_versions 1")
	require.Contains(t, metrics, "carillon_tzdata_replanned_timers_total 0")
	require.Contains(t, out.text(), `"tzdata":"2031a"`)
	cancel()
	require.NoError(t, <-done)
}
