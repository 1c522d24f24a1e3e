package timers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/yamltext/yamltexttest"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

type imported struct {
	Created, Changed, Unchanged, Failed int
	Items                               []struct {
		Kind, Name, Result string
		Error              struct {
			Status int
			Errors []struct{ Location, Message string }
			Detail string
		}
	}
}

func importInto(t *testing.T, f *apitest.Fixture, app, query, docs string) (got imported) {
	t.Helper()
	a := f.Call(t, http.MethodPost, "/api/v2/apps/"+app+"/import"+query, docs,
		map[string]string{"Content-Type": "application/x-ndjson"})
	a.Into(t, 200, &got)
	return got
}

func export(t *testing.T, f *apitest.Fixture, app, format string) string {
	t.Helper()
	a := f.Call(t, http.MethodGet, "/api/v2/apps/"+app+"/export?format="+format, "", nil)
	require.Equal(t, 200, a.Status, a.Body)
	return a.Body
}

// exported runs an API with two calendars and n timers of shop.
func exported(t *testing.T, n int) *apitest.Fixture {
	t.Helper()
	f := apitest.Setup(t)
	f.Calendar(t, 200, http.MethodPut, "days?app=shop", `{"excluded_dates":["2026-12-25"]}`)
	f.Calendar(
		t,
		200,
		http.MethodPut,
		"hours?app=shop",
		`{"time_zone":"Europe/Berlin","allowed_times":[{"from":"09:00","to":"17:00","weekdays":["mon"]}]}`,
	)
	schedules := []string{
		`{"kind":"cron","specs":["0 9 * * *"],"time_zone":"Europe/Berlin","calendars":["days","hours"],"excluded":"next_allowed"}`,
		`{"kind":"interval","every":"90s","jitter":"5s","start_at":"2030-01-01T00:00:00Z"}`,
		`{"kind":"at","at":"2031-05-06T07:08:09.123Z"}`,
		`{"kind":"fixed_delay","every":"1h"}`,
	}
	more := []string{
		`,"status":"active","labels":{"team":"pay","z":""},"priority":"high"`,
		`,"misfire":{"policy":"fire_all","max_fires":7},"concurrency":{"policy":"queue_all","max_queue":5}`,
		`,"retry":{"attempts":3,"wait":"2s","no_retry":"404,500-501"}`,
		``,
	}
	for i := range n {
		body := apitest.TimerWith(
			schedules[i%4],
			`{"url":"https://example.com/`+fmt.Sprint(
				i,
			)+`","headers":{"X-A":["1","2"]},"body":"{\"a\": {{due}}}"}`,
			more[i%4],
		)
		f.Create(t, 201, strings.Replace(body, `"bill"`, fmt.Sprintf(`"t%d"`, i), 1))
	}
	return f
}

func TestExportsComeBack(t *testing.T) {
	t.Parallel()
	const n = 24
	f := exported(t, n)
	for _, format := range []string{"ndjson", "yaml"} {
		docs := export(t, f, "shop", format)
		other := "to-" + format
		got := importInto(t, f, other, "?dry_run=true", docs)
		require.Equal(t, n+2, got.Created, got.Items)
		require.Equal(t, 404, f.Call(t, http.MethodGet, "/api/v2/apps/"+other, "", nil).Status)
		got = importInto(t, f, other, "", docs)
		require.Equal(t, n+2, got.Created, got.Items)
		require.Equal(t, docs, export(t, f, other, format))

		before, err := f.Store.List(t.Context(), store.Query{App: "shop", Limit: 100})
		require.NoError(t, err)
		for _, query := range []string{"", "?dry_run=true", "?format=" + format} {
			got = importInto(t, f, "shop", query, docs)
			require.Equal(t, n+2, got.Unchanged, got.Items)
		}
		after, err := f.Store.List(t.Context(), store.Query{App: "shop", Limit: 100})
		require.NoError(t, err)
		require.Equal(t, before, after, "no new versions")
	}
}

// TestExportedTextsComeBack exports texts that a reader of YAML can take for another value, refuses
// or changes, and imports them.
func TestExportedTextsComeBack(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	texts := yamltexttest.Few()
	names := make([]string, len(texts))
	for i, text := range texts {
		names[i] = fmt.Sprintf("t%03d", i)
		f.CreateWithText(t, names[i], text)
	}
	for _, format := range []string{"yaml", "ndjson"} {
		docs := export(t, f, "shop", format)
		require.Equal(t, len(texts), importInto(t, f, "shop", "?format="+format, docs).Unchanged)
		got := importInto(t, f, "to-"+format, "", docs)
		require.Equal(t, len(texts), got.Created, got.Items)
		for i, name := range names {
			was, err := f.Store.TimerByName(t.Context(), "shop", name)
			require.NoError(t, err)
			now, err := f.Store.TimerByName(t.Context(), "to-"+format, name)
			require.NoError(t, err)
			require.Equal(t, was.Definition, now.Definition, "%q", texts[i])
		}
	}
}

func TestExportsHaveManyPages(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	var docs strings.Builder
	for i := range 1203 {
		fmt.Fprintf(&docs, `{"name":"t%d","schedule":{"kind":"cron","specs":["@daily"]},`+
			`"target":{"url":"https://example.com/"}}`+"\n", i)
	}
	require.Equal(t, 1203, importInto(t, f, "shop", "", docs.String()).Created)
	lines := strings.Split(strings.TrimSpace(export(t, f, "shop", "ndjson")), "\n")
	require.Len(t, lines, 1203)
	seen := map[string]bool{}
	for _, line := range lines {
		require.False(t, seen[line])
		seen[line] = true
	}
	require.Empty(t, export(t, f, "none", "yaml"))
}

func TestImportsReportEachDocument(t *testing.T) {
	t.Parallel()
	f := exported(t, 1)
	const good = `{"name":"new","schedule":{"kind":"cron","specs":["@daily"]},"target":{"url":"https://example.com/"}}`
	docs := strings.Join([]string{
		good,
		`{"kind":"calendar","name":"days","excluded_dates":["2027-01-01"]}`,
		`{"kind":"job","name":"x"}`,
		`{"name":"odd","schedule":{"kind":"cron","specs":["@daily"]},"targets":7}`,
		`{"name":"field","unknown":1,"schedule":{"kind":"cron","specs":["@daily"]},"target":{"url":"https://example.com/"}}`,
		strings.Replace(good, `{"name"`, `{"app":"desk","name"`, 1),
		good,
		`[]`,
		strings.NewReplacer(`"new"`, `"secret"`, `example.com/"`,
			`example.com/","secret_headers":{"Authorization":"REDACTED"}`).Replace(good),
		`{"kind":"calendar","name":".."}`,
	}, "\n")
	got := importInto(t, f, "shop", "?format=ndjson", docs)
	var results []string
	for _, item := range got.Items {
		results = append(results, item.Result)
	}
	require.Equal(t, []string{
		"created", "changed", "failed", "failed", "failed", "failed", "failed", "failed", "failed",
		"failed",
	}, results, got.Items)
	require.Contains(t, got.Items[4].Error.Errors[0].Location, "unknown")
	require.Contains(t, got.Items[5].Error.Errors[0].Location, "app")
	require.Contains(t, got.Items[6].Error.Errors[0].Message, `once, found "new" as document 6 too`)
	require.Contains(t, fmt.Sprint(got.Items[8].Error), "secret_headers")
	require.Equal(t, "body", got.Items[7].Error.Errors[0].Location)
	empty := f.Problem(t, 422, http.MethodPost, "/api/v2/apps/shop/import?format=ndjson", " ")
	require.Equal(t, "body", empty.Errors[0].Location)
	require.Contains(t, fmt.Sprint(got.Items[9].Error), "choose another name")
	const days = `{"kind":"calendar","name":"days","excluded_dates":["2027-01-01"],"included_dates":[]}`
	require.Equal(
		t,
		1,
		importInto(t, f, "shop", "?format=ndjson", days).Unchanged,
		"an empty list is none",
	)
	a := f.Call(t, http.MethodPost, "/api/v2/apps/shop/import", "# nothing\n", nil)
	require.Equal(t, 422, a.Status, a.Body)
}

// TestExportOfPendingOneShots checks that such an export has no one-shot that an import elsewhere would
// call again.
func TestExportOfPendingOneShots(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	put := func(name, status, schedule string) {
		docs := fmt.Sprintf(
			`{"name":%q,"status":%q,"schedule":%s,"target":{"url":"https://example.com/"}}`,
			name, status, schedule,
		)
		require.Equal(t, 1, importInto(t, f, "shop", "", docs).Created)
	}
	put("past", "active", `{"kind":"at","at":"2020-01-01T00:00:00Z"}`)
	put("later", "active", `{"kind":"at","at":"2090-01-01T00:00:00Z"}`)
	put("soon", "active", `{"kind":"delay","delay":"1h"}`)
	put("draft", "inactive", `{"kind":"at","at":"2020-01-01T00:00:00Z"}`)
	put("daily", "active", `{"kind":"cron","specs":["0 9 * * *"]}`)
	require.Equal(t, 5, strings.Count(export(t, f, "shop", "ndjson"), "\n"))
	docs := export(t, f, "shop", "ndjson&one_shots=pending")
	require.Equal(t, 4, strings.Count(docs, "\n"), docs)
	require.NotContains(t, docs, `"past"`)
}

// TestExportsHideSecrets imports an export with secrets into its app, which keeps them.
func TestExportsHideSecrets(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Create(t, 201, apitest.TimerWith(
		`{"kind":"cron","specs":["@daily"]}`,
		`{"url":"https://example.com/","secret_headers":{"Authorization":"Bearer hunter2"}}`, "",
	))
	docs := export(t, f, "shop", "yaml")
	require.NotContains(t, docs, "hunter2")
	require.Contains(t, docs, "REDACTED")
	require.Equal(t, 1, importInto(t, f, "shop", "", docs).Unchanged)
	require.Equal(t, 1, importInto(t, f, "other", "", docs).Failed)
}

// TestAliasesOfAnImport checks that a short document whose aliases stand for 100 MB is refused.
func TestAliasesOfAnImport(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	doc := "kind: timer\nname: x\na: &a " + strings.Repeat("b", 20_000) +
		"\nc: [" + strings.Repeat("*a,", 5000) + "]\n"
	a := f.Call(t, http.MethodPost, "/api/v2/apps/shop/import", doc,
		map[string]string{"Content-Type": "application/yaml"})
	require.Equal(t, http.StatusOK, a.Status, "%.2000s", a.Body)
	require.Less(t, len(a.Body), 10_000)
	require.Contains(t, a.Body, "fewer aliases")
	require.Contains(t, a.Body, `"failed":1`)
}

// TestNoDocumentOfAnImportIsLeftOut imports documents that a reader of YAML would not separate.
func TestNoDocumentOfAnImportIsLeftOut(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const a, b = "{kind: calendar, name: a}", "{kind: calendar, name: b}"
	got := importInto(t, f, "shop", "", a+"\r\n---\r\n"+b+"\r\n")
	require.Equal(t, 2, got.Created, got.Items)
	for _, between := range []string{"\n...\n", "\n--- ", "\n"} {
		got := importInto(t, f, "shop", "", a+between+b+"\n")
		require.Equal(t, 1, got.Failed, "%q", between)
		require.Contains(
			t,
			got.Items[0].Error.Detail,
			"put --- on a line of its own",
			"%q",
			between,
		)
	}
}

// TestErrorsOfAnImportAreThoseOfARequest compares the error of a document with that of the same body
// as a request of its own. Neither has what the document says, which may be secret.
func TestErrorsOfAnImportAreThoseOfARequest(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const target = `"target":{"url":"https://example.com/","secret_headers":{"Authorization":"hunter2"}}`
	for _, doc := range []string{
		`{"app":"shop","name":"a",` + target + `}`,
		`{"app":"shop","name":"a","unknown":"x","schedule":{"kind":"cron"},` + target + `}`,
		`{"app":"shop","name":"a","schedule":"hunter2","targets":7,` + target + `}`,
		`{"app":"shop","name":"a","schedule":{"kind":"cron","specs":["@daily"]},"target":"` +
			strings.Repeat("hunter2", 20) + `"}`,
	} {
		var answer struct {
			Items []struct{ Error map[string]any }
		}
		a := f.Call(t, http.MethodPost, "/api/v2/apps/shop/import", doc,
			map[string]string{"Content-Type": "application/x-ndjson"})
		a.Into(t, http.StatusOK, &answer)
		require.NotContains(t, a.Body, `"Authorization"`)
		var alone map[string]any
		f.Call(t, http.MethodPost, "/api/v2/timers", doc, nil).
			Into(t, http.StatusUnprocessableEntity, &alone)
		delete(alone, "$schema")
		require.Equal(t, alone, answer.Items[0].Error, doc)
		require.Contains(t, alone["detail"], "found")
	}
}
