package definition_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestV2LimitsHoldOnceVariablesArePutIn checks limits after expansion, for new timers and for
// changes of targets or labels.
func TestV2LimitsHoldOnceVariablesArePutIn(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	short, long := `"labels":{"x":"y"},`, `"labels":{"x":"`+strings.Repeat("x", 256)+`"},`
	for field, target := range map[string]string{
		"body":    `"url":"https://example.com/","body":"` + strings.Repeat("{{label.x}}", 20_000) + `"`,
		"url":     `"url":"https://example.com/` + strings.Repeat("{{label.x}}", 100) + `"`,
		"query":   `"url":"https://example.com/","query":{"q":["` + strings.Repeat("{{label.x}}", 100) + `"]}`,
		"headers": `"url":"https://example.com/","headers":{"X-A":["` + strings.Repeat("{{label.x}}", 600) + `"]}`,
	} {
		body := strings.Replace(
			apitest.WithTarget(`"target":{"templates":true,`+target+`}`, long),
			"bill",
			field,
			1,
		)
		p := f.Problem(t, 422, http.MethodPost, "/api/v2/timers", body)
		require.Len(t, p.Errors, 1, field)
		require.Equal(t, "body.target."+field, p.Errors[0].Location)

		var made apitest.V2Timer
		f.Call(t, http.MethodPost, "/api/v2/timers", strings.Replace(body, long, short, 1), nil).
			Into(t, 201, &made)
		p = f.Problem(
			t,
			422,
			http.MethodPatch,
			apitest.TimerPath(made.ID, ""),
			"{"+strings.TrimSuffix(long, ",")+"}",
		)
		require.Equal(t, "body.target."+field, p.Errors[0].Location, "by a change of the labels")
	}
}

// TestV2CodesThatAreNotRetried checks that some target can answer each number: statuses of HTTP are
// from 100, and codes of gRPC below.
func TestV2CodesThatAreNotRetried(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const (
		web  = `"target":{"url":"https://example.com/"}`
		grpc = `"target":{"kind":"grpc","url":"grpcs://a.example.com:443"}`
		both = `"mode":"all","targets":[{"name":"a","url":"https://example.com/"},{"name":"b","kind":"grpc","url":"grpcs://a.example.com:443"}]`
	)
	noRetry := func(set string) string { return `"retry":{"no_retry":"` + set + `"},` }
	var made, several apitest.V2Timer
	f.Call(t, http.MethodPost, "/api/v2/timers", apitest.WithTarget(grpc, noRetry("3,5-7")), nil).
		Into(t, 201, &made)
	require.Equal(t, "3,5-7", made.Retry["no_retry"])
	f.Call(t, http.MethodGet, apitest.TimerPath(made.ID, ""), "", nil).Into(t, 200, &made)
	require.Equal(t, "3,5-7", made.Retry["no_retry"], "read back")
	f.Call(t, http.MethodPost, "/api/v2/timers", strings.Replace(apitest.WithTarget(both, noRetry("3,5-7,404")), "bill", "both", 1), nil).
		Into(t, 201, &several)
	require.Equal(t, "3,5-7,404", several.Retry["no_retry"])
	for _, c := range []struct{ method, path, body, want string }{
		{http.MethodPost, "/api/v2/timers", apitest.WithTarget(web, noRetry("404,3")), `100 to 999 (http), found "3"`},
		{http.MethodPost, "/api/v2/timers", apitest.WithTarget(grpc, noRetry("5,400-404")), `1 to 16 (grpc), found "400-404"`},
		{http.MethodPost, "/api/v2/timers", apitest.WithTarget(grpc, noRetry("17")), "from 1 to 16"},
		{http.MethodPost, "/api/v2/timers", apitest.WithTarget(both, noRetry("5-404")), "from 1 to 16"},
		{http.MethodPatch, apitest.TimerPath(made.ID, ""), `{"target":{"url":"https://example.com/"}}`, `found "3"`},
	} {
		p := f.Problem(t, 422, c.method, c.path, c.body)
		require.Len(t, p.Errors, 1, c.body)
		require.Equal(t, "body.retry.no_retry", p.Errors[0].Location, c.body)
		require.Contains(t, p.Errors[0].Message, c.want, c.body)
	}
}
