package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

const passedTimer = "name: once\nschedule: {kind: at, at: '2020-01-01T00:00:00Z'}\n" +
	"target: {url: 'https://example.com/'}\nstatus: active\n"

// TestTriedDefinitionsHaveWarnings checks that what the API warns of is shown before an apply.
func TestTriedDefinitionsHaveWarnings(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	file := u.file("once.yaml", passedTimer+"---\nname: daily\n"+
		"schedule: {kind: cron, specs: ['@daily']}\ntarget: {url: 'https://example.com/'}\n")
	const want = "timer shop/once: warning: 2020-01-01T00:00:00.000Z has passed: it is due at once\n"
	require.Contains(t, u.do("apply", "-f", file, "--dry-run"), want)
	said, err := u.try("diff", "-f", file)
	require.Error(t, err)
	require.Contains(t, said, want)
	require.NotContains(t, said, "shop/daily: warning")
	said = u.do("apply", "-f", file, "--dry-run", "-o", "jsonpath=.warnings[*].message")
	require.Contains(t, said, "2020-01-01T00:00:00.000Z has passed: it is due at once\n")
	require.NotContains(t, said, "timer shop/once")
}

// TestAppliedDefinitionsHaveWarnings checks that an apply shows what the API warns of in an item of
// a batch.
func TestAppliedDefinitionsHaveWarnings(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"GET /api/v2/timers": `{"items":[],"next_cursor":""}`,
		"POST /api/v2/timers:batch": `{"items":[{"app":"shop","name":"once","result":"created",
			"id":"7","version":1,"warnings":[{"location":"body.schedule.at","message":"it has passed"}]}]}`,
		"GET /api/v2/timers/7": `{"id":"7","app":"shop","name":"once","version":1}`,
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, answers[r.Method+" "+r.URL.Path])
	}))
	defer api.Close()
	u := newUser(t, api.URL)
	file := u.file("once.yaml", passedTimer)
	require.Equal(
		t,
		"timer shop/once created\ntimer shop/once: warning: it has passed\n",
		u.do("apply", "-f", file),
	)
	require.Equal(t,
		"it has passed\n", u.do("apply", "-f", file, "-o", "jsonpath=.warnings[*].message"))
	u.in = `{"Name":"once","ScheduleExpression":"rate(1 hour)"}`
	said := u.do(
		"import", "--from", "eventbridge", "-", "--url", "https://example.com/", "--apply",
	)
	require.Contains(t, said, "timer shop/once: warning: it has passed\n")
}
