package input_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestRepeatedFieldsAreRefused covers bodies that encoding/json would merge.
func TestRepeatedFieldsAreRefused(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const target = `"target":{"url":"https://example.com/one","method":"PUT"}`
	for more, field := range map[string]string{
		`,"labels":{"a":"1"},"labels":{"b":"2"}`:        "body.labels",
		`,"labels":{"a":"1","b":"x:{\"a\":1}","a":"1"}`: "body.labels.a",
		`,"labels":{"a":"1","\u0061":"1"}`:              "body.labels.a",
		`,"labels":{},"labels":null`:                    "body.labels",
		`,` + target:                                    "body.target",
		`,"retry":{"attempts":2,"attempts":2}`:          "body.retry.attempts",
		`,"labels":{"":"1","":"1"}`:                     "body.labels.",
	} {
		body := apitest.WithTarget(target+more, "")
		p := f.Problem(t, 400, http.MethodPost, "/api/v2/timers", body)
		require.Len(t, p.Errors, 1)
		require.Equal(t, field, p.Errors[0].Location)
		require.Contains(t, p.Errors[0].Message, "leave one of the two out")
		p = f.Problem(t, 400, http.MethodPost, "/api/v2/timers:batch",
			`{"items":[`+apitest.V2Body+`,`+body+`]}`)
		require.Equal(t, strings.Replace(field, "body", "body.items[1]", 1), p.Errors[0].Location)
	}
	f.Create(t, 201, apitest.WithTarget(
		`"target":{"url":"https://example.com/","body":"{\"a\":1,\"a\":2}\\"},"labels":{"b":":"}`,
		"",
	))

	a := f.Call(t, http.MethodPost, "/api/v2/apps/shop/import",
		`{"kind":"calendar","name":"in","time_zone":"UTC","time_zone":"UTC"}`,
		map[string]string{"Content-Type": "application/octet-stream"})
	require.Equal(t, 200, a.Status, a.Body)
	require.Contains(t, a.Body, `"failed":1`)
	require.Contains(t, a.Body, "time_zone")
}

// TestWrongTypesNameTheField covers what the description allows and Go's types do not.
func TestWrongTypesNameTheField(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	create := func(more string) string {
		return apitest.With(`{"kind":"cron","specs":["@daily"]}`, more)
	}
	const post, put = http.MethodPost, http.MethodPut
	for _, c := range []struct{ method, path, body, field, found string }{
		{post, "/timers", create(`"retry":{"attempts":2.0}`), "body.retry.attempts", "2.0"},
		{post, "/timers", create(`"retry":{"attempts":1e1}`), "body.retry.attempts", "1e1"},
		{
			post, "/timers:batch", `{"items":[` + create(`"retry":{"attempts":2e0}`) + `]}`,
			"body.items[0].retry.attempts", "2e0",
		},
		{put, "/apps/shop/settings", `{"burst":2.0}`, "body.burst", "2.0"},
		{
			post, "/schedules/preview",
			`{"schedule":{"kind":"cron","specs":["@daily"]},"count":2.0}`, "body.count", "2.0",
		},
	} {
		p := f.Problem(t, 422, c.method, "/api/v2"+c.path, c.body)
		require.Equal(t, c.field, p.Errors[0].Location)
		require.Equal(t, "expected a whole number in digits alone, found "+c.found,
			p.Errors[0].Message)
	}
	a := f.Call(t, put, "/api/v2/apps/shop/settings", `{"rate":1e999}`, nil)
	require.Equal(t, 400, a.Status)
	require.Contains(t, a.Body, `"location":"body.rate"`)
	a = f.Call(t, put, "/api/v2/apps/shop/settings", `{"rate":s3cret}`, nil)
	require.Equal(t, 400, a.Status)
	require.NotContains(t, a.Body, "s3cret")
}

// BenchmarkDecode measures both decodings of a body as huma makes them: into maps, and into a type.
// The difference to plain is what the checks take.
func BenchmarkDecode(b *testing.B) {
	body := []byte(
		apitest.With(
			`{"kind":"cron","specs":["0 0 9 * * 1-5"],"time_zone":"Europe/Berlin"}`,
			`"labels":{"team":"pay","env":"prod"},"retry":{"attempts":5,"wait":"2s"},"priority":"high"`,
		),
	)
	formats := map[string]huma.Format{"json": {Unmarshal: json.Unmarshal}}
	for name, format := range map[string]huma.Format{
		"plain": formats["json"], "strict": input.StrictFormats(formats)["json"],
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var v any
				if err := format.Unmarshal(body, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
