package definition_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestV2WholeTarget(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	cert, key := apitest.KeyPair(t)
	target := map[string]any{
		"kind":    "http",
		"name":    "main",
		"url":     "https://example.com/{{label.region}}/ring",
		"method":  "REPORT",
		"headers": map[string]any{"X-A": []string{"{{attempt}}"}},
		"query": map[string]any{
			"q": []string{"{{due}}"},
		},
		"body":      `{"fire":"{{fire.id}}"}`,
		"templates": true,
		"unsigned":  true,
		"async":     "10m",
		"success": map[string]any{
			"statuses": "200-299,409",
			"body":     "ok",
		},
		"redirects":      3,
		"http2":          "never",
		"secret_headers": map[string]any{"X-Api-Key": "hunter2-header"},
		"tls": map[string]any{
			"server_name": "example.org",
			"ca":          cert,
			"cert":        cert,
			"key":         key,
		},
		"oauth2": map[string]any{
			"token_url": "https://id.example.com/token",
			"client_id": "me",
			"secret":    "hunter2-oauth",
			"scopes":    []string{"a"},
			"params":    map[string]any{"audience": "x"},
			"in_body":   true,
		},
	}
	body := apitest.WithTarget(
		`"target":`+apitest.Text(t, target),
		`"labels":{"region":"eu-1"},"priority":"high","retry":{"jitter":0.5,"give_up_after":"6h","no_retry":"400-404,422"},`,
	)
	a := f.Call(t, http.MethodPost, "/api/v2/timers", body, nil)
	var made apitest.V2Timer
	a.Into(t, 201, &made)
	want := target
	want["secret_headers"] = map[string]any{"X-Api-Key": "REDACTED"}
	want["tls"].(map[string]any)["key"] = "REDACTED"
	want["oauth2"].(map[string]any)["secret"] = "REDACTED"
	want["async"] = "10m0s"
	require.JSONEq(t, apitest.Text(t, want), apitest.Text(t, made.Target))
	require.InDelta(t, 0.5, made.Retry["jitter"], 0)
	require.Equal(t, "6h0m0s", made.Retry["give_up_after"])
	require.Equal(t, "400-404,422", made.Retry["no_retry"])
	require.Contains(t, a.Body, `"priority":"high"`)
	require.Contains(t, a.Body, `"labels":{"region":"eu-1"}`)
	require.Equal(
		t,
		200,
		f.Call(t, http.MethodPost, "/api/v2/timers", body, nil).Status,
		"the same again is the same",
	)
	other := strings.Replace(body, "hunter2-header", "hunter3-header", 1)
	require.Equal(
		t,
		409,
		f.Call(t, http.MethodPost, "/api/v2/timers", other, nil).Status,
		"another secret is another definition",
	)

	id, err := timer.ParseID(made.ID)
	require.NoError(t, err)
	stored, err := f.Store.Timer(t.Context(), "shop", id)
	require.NoError(t, err)
	require.Equal(t, timer.PriorityHigh, stored.Definition.Priority)
	require.True(
		t,
		strings.HasPrefix(string(stored.Definition.Target.SecretHeaders["X-Api-Key"]), "cs1.test."),
	)
	for _, secret := range []string{"hunter2", "PRIVATE KEY"} {
		require.NotContains(t, apitest.Text(t, stored), secret)
	}

	// Every kind of change keeps the fields that it does not name.
	path := "/api/v2/timers/" + made.ID + "?app=shop"
	var edited apitest.V2Timer
	f.Call(t, http.MethodPatch, path, `{"labels":{"region":"eu-2"},"priority":"normal"}`, nil).
		Into(t, 200, &edited)
	require.JSONEq(t, apitest.Text(t, want), apitest.Text(t, edited.Target))
	p := f.Problem(t, 422, http.MethodPatch, path, `{"labels":{}}`)
	require.Equal(
		t,
		"body.target.url",
		p.Errors[0].Location,
		"a label that a template names cannot go",
	)
	var plain apitest.V2Timer
	f.Call(t, http.MethodPatch, path, `{"labels":{},"target":{"url":"https://example.com/"}}`, nil).
		Into(t, 200, &plain)
	require.NotContains(
		t,
		apitest.Text(t, plain.Target),
		"REDACTED",
		"a target that is replaced without secrets has none",
	)
}

func TestV2SeveralTargets(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) {
		o.OwnNamespace = "carillon/main"
		var err error
		o.Topics, err = egress.NewTopics(nil, []string{"public/default"})
		require.NoError(t, err)
	})
	targets := `"mode":"all","targets":[{"name":"a","url":"https://a.example.com/","secret_headers":{"X-K":"hunter2"}},` +
		`{"name":"b","kind":"grpc","url":"grpcs://b.example.com:443"},{"kind":"pulsar","pulsar":{"topic":"persistent://public/default/x"}}]`
	body := apitest.WithTarget(targets, "")
	a := f.Call(t, http.MethodPost, "/api/v2/timers", body, nil)
	require.Equal(t, 201, a.Status, a.Body)
	require.NotContains(t, a.Body, "hunter2")
	var made struct {
		ID      string
		Mode    string
		Targets []map[string]any
		Target  any
	}
	a.Into(t, 201, &made)
	require.Equal(t, "all", made.Mode)
	require.Nil(t, made.Target)
	require.Len(t, made.Targets, 3)
	require.Equal(t, "POST", made.Targets[0]["method"])
	require.NotContains(t, made.Targets[1], "method")

	// An answer can be sent back; targets are matched by name.
	back := []map[string]any{made.Targets[1], made.Targets[0]}
	path := "/api/v2/timers/" + made.ID + "?app=shop"
	f.Call(t, http.MethodPatch, path, `{"targets":`+apitest.Text(t, back)+`}`, nil).
		Into(t, 200, &made)
	require.Equal(t, "all", made.Mode)
	require.Len(t, made.Targets, 2)
	f.Call(t, http.MethodPatch, path, `{"mode":"any"}`, nil).Into(t, 200, &made)
	require.Equal(t, "any", made.Mode)
	f.Call(t, http.MethodPatch, path, `{"target":{"url":"https://example.com/"}}`, nil).
		Into(t, 200, &apitest.V2Timer{})

	for _, c := range []struct{ fields, want string }{
		{`"targets":[{"url":"https://example.com/"}]`, "body.mode"},
		{`"mode":"all","target":{"url":"https://example.com/"}`, "body.mode"},
		{`"mode":"any","targets":[{"url":"https://example.com/"}],"target":{"url":"https://example.com/"}`, "body.targets"},
		{`"mode":"any","targets":[{"name":"x","url":"https://example.com/"},{"name":"x","url":"https://example.com/"}]`, "body.targets[1].name"},
		{`"mode":"all","targets":[{"url":"https://example.com/","async":"1m"}]`, "body.targets[0].async"},
		{`"mode":"any","targets":[{"kind":"pulsar","pulsar":{"topic":"persistent://carillon/main/slices"}}]`, "body.targets[0].pulsar.topic"},
		{`"mode":"any","targets":[{"kind":"pulsar","pulsar":{"topic":"persistent://bank/payments/x"}}]`, "body.targets[0].pulsar.topic"},
		{`"target":{"kind":"pulsar","url":"pulsar://broker.example.com:6650","pulsar":{"topic":"persistent://bank/payments/x"}}`, "body.target.url"},
		{`"status":"inactive"`, "body.target"},
	} {
		p := f.Problem(t, 422, http.MethodPost, "/api/v2/timers", apitest.WithTarget(c.fields, ""))
		require.Equal(t, c.want, p.Errors[0].Location, c.fields)
		require.Len(t, p.Errors, 1, c.fields)
	}
}

// TestV2EveryInvalidFieldIsNamed checks that all invalid fields are reported at once.
func TestV2EveryInvalidFieldIsNamed(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	target := `"target":{"url":"ftp://x","method":"FETCH","headers":{"Carillon-X":["1"],"Connection":["x"],"X-Y":["a\nb"]},"body":"{{nope}}","templates":true,` +
		`"secret_headers":{"X Y":"1","X-Empty":"","X-Line":"a\nb"},"async":"200h","redirects":11,"success":{"statuses":"2xx","body":"("},` +
		`"tls":{"insecure":true,"key":"hunter2"},"oauth2":{"token_url":"x","client_id":"","secret":""},"pulsar":{"topic":"x"}}`
	more := `"labels":{"a{":"1","b":"\u0000"},"retry":{"jitter":2,"give_up_after":"-1s","no_retry":"x","attempts":99},`
	a := f.Call(t, http.MethodPost, "/api/v2/timers", apitest.WithTarget(target, more), nil)
	var p apitest.V2Problem
	a.Into(t, 422, &p)
	got := map[string]bool{}
	for _, e := range p.Errors {
		require.False(t, got[e.Location], "%s twice", e.Location)
		got[e.Location] = true
	}
	for _, field := range []string{
		"labels.a{", "labels.b", "retry.jitter", "retry.give_up_after", "retry.no_retry", "retry.attempts", "target.url", "target.method", "target.headers.Carillon-X",
		"target.headers.Connection", "target.headers.X-Y", "target.body", "target.secret_headers.X Y", "target.secret_headers.X-Empty", "target.secret_headers.X-Line",
		"target.async", "target.redirects", "target.success.statuses", "target.success.body", "target.oauth2.token_url", "target.oauth2.secret", "target.pulsar",
	} {
		require.True(t, got["body."+field], "%s is not among %v", field, got)
	}
	require.NotContains(t, a.Body, "hunter2")
}

// TestV2OutcomesOfTargets checks the result of each target of a timer that calls all.
func TestV2OutcomesOfTargets(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	one := `{"name":"web","url":"https://a.example/"}`
	body := `{"app":"shop","name":"bill","status":"active","schedule":{"kind":"interval","every":"1s"},"targets":[` + one + `,{"url":"https://b.example/"}],"mode":"all"}`
	e.Create(t, 201, body)
	e.Create(t, 201, strings.NewReplacer(`"bill"`, `"any"`, `"all"`, `"any"`).Replace(body))
	due := map[timer.ID][]timer.Fire{}
	for _, f := range e.Dispatched.All() {
		due[f.Timer] = append(due[f.Timer], f)
	}
	type shown struct {
		Targets []map[string]any
	}
	get := func(id timer.FireID) (s shown) {
		e.Call(t, http.MethodGet, "/api/v2/fires/"+id.String()+"?app=shop", "", nil).
			Into(t, 200, &s)
		return s
	}
	for _, fires := range due {
		won, err := e.Store.Claim(t.Context(), e.Session, fires[:4])
		require.NoError(t, err)
		require.Len(t, won, 4)
		var outcomes []timer.Outcome
		var attempts []timer.Attempt
		for i, w := range won[:3] {
			kind := []timer.OutcomeKind{timer.Delivered, timer.Failed, timer.Skipped}[i]
			outcomes = append(
				outcomes,
				timer.Outcome{
					Fire:       w,
					Kind:       kind,
					FinishedMS: w.DueMS + 20,
					UntilMS:    w.DueMS,
					Count:      1,
					Attempts:   1,
				},
			)
			if kind == timer.Skipped {
				continue
			}
			second := timer.Attempt{
				FireID:     w.FireID,
				N:          1,
				StartMS:    w.DueMS,
				Target:     "2",
				StatusCode: 200,
			}
			if kind == timer.Failed {
				second.StatusCode, second.Failure, second.Error = 503, timer.FailureStatus, "answer 503"
			}
			attempts = append(
				attempts,
				timer.Attempt{
					FireID:     w.FireID,
					N:          1,
					StartMS:    w.DueMS,
					Target:     "web",
					StatusCode: 204,
				},
				second,
			)
		}
		lost, _, err := e.Store.Record(t.Context(), e.Session, outcomes, attempts)
		require.NoError(t, err)
		require.Empty(t, lost)
		got := []shown{
			get(won[0].FireID),
			get(won[1].FireID),
			get(won[2].FireID),
			get(won[3].FireID),
		}
		if tm, err := e.Store.Timer(
			t.Context(),
			"shop",
			won[0].Timer,
		); err != nil ||
			tm.Name == "any" {
			require.NoError(t, err)
			require.Equal(t, make([]shown, 4), got, "one of them is enough")
			continue
		}
		web := map[string]any{
			"index":       0.0,
			"target":      "web",
			"kind":        "http",
			"outcome":     "delivered",
			"attempts":    1.0,
			"status_code": 204.0,
		}
		require.Equal(t, []shown{
			{
				Targets: []map[string]any{
					web,
					{
						"index":       1.0,
						"target":      "2",
						"kind":        "http",
						"outcome":     "delivered",
						"attempts":    1.0,
						"status_code": 200.0,
					},
				},
			},
			{
				Targets: []map[string]any{
					web,
					{
						"index":       1.0,
						"target":      "2",
						"kind":        "http",
						"outcome":     "failed",
						"attempts":    1.0,
						"status_code": 503.0,
						"failure":     "status",
					},
				},
			},
			{},
			{Targets: []map[string]any{
				{
					"index":    0.0,
					"target":   "web",
					"kind":     "http",
					"outcome":  "pending",
					"attempts": 0.0,
				},
				{
					"index":    1.0,
					"target":   "2",
					"kind":     "http",
					"outcome":  "pending",
					"attempts": 0.0,
				},
			}},
		}, got)
		for _, bit := range []timer.TargetBits{timer.TargetGivenUp, timer.TargetGone} {
			open := won[3]
			open.Attempt, open.TargetBits = 1, bit<<1
			lost, err := e.Store.RecordAttempts(t.Context(), e.Session, []timer.Fire{open}, nil)
			require.NoError(t, err)
			require.Empty(t, lost)
			got := get(open.FireID).Targets
			require.Equal(t, "pending", got[0]["outcome"])
			require.Equal(t, "failed", got[1]["outcome"], "it is not called again")
		}
	}
}

// TestV2NumbersOutOfRange checks that a number outside the integer range is refused with its field,
// at any depth of a body.
func TestV2NumbersOutOfRange(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	huge := "1" + strings.Repeat("0", 30)
	timerWith := func(more string) string {
		return `{"app":"shop","name":"bill","schedule":{"kind":"interval","every":"1m"},` + more + `}`
	}
	for _, c := range []struct{ method, path, body, location string }{
		{"POST", "/api/v2/timers", timerWith(`"target":{"url":"https://a.example/","redirects":` + huge + `}`), "body.target.redirects"},
		{"POST", "/api/v2/timers", timerWith(`"targets":[{"url":"https://a.example/"},{"url":"https://b.example/","redirects":` + huge + `}]`), "body.targets[1].redirects"},
		{"PUT", "/api/v2/timers", timerWith(`"target":{"url":"https://a.example/"},"retry":{"attempts":-` + huge + `}`), "body.retry.attempts"},
		{"PATCH", "/api/v2/timers/1?app=shop", `{"if_version":4294967296}`, "body.if_version"},
		{"PUT", "/api/v2/apps/shop/settings", `{"burst":` + huge + `}`, "body.burst"},
		{"PUT", "/api/v2/apps/shop/settings", `{"concurrent":9223372036854775808}`, "body.concurrent"},
	} {
		got := f.Problem(t, 422, c.method, c.path, c.body)
		require.Len(t, got.Errors, 1, c.location)
		require.Equal(t, c.location, got.Errors[0].Location)
	}
}
