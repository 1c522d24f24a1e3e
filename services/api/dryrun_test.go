package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/signin"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// writesNothing are the operations whose method is not GET although they change nothing.
var writesNothing = map[string]bool{"preview-schedule": true}

// described is what these tests read of the description.
type described map[string]map[string]struct {
	OperationID string
	Parameters  []struct {
		Name, In string
		Schema   struct{ Type any } // a text, or several
	}
}

func describedWrites(t *testing.T, f *apitest.Fixture) map[string]bool {
	t.Helper()
	var doc struct{ Paths described }
	f.Call(t, http.MethodGet, "/api/v2/openapi.json", "", nil).Into(t, http.StatusOK, &doc)
	writes := map[string]bool{} // by id: whether it has dry_run
	for _, item := range doc.Paths {
		for method, op := range item {
			if method == "get" || writesNothing[op.OperationID] {
				continue
			}
			writes[op.OperationID] = false
			for _, p := range op.Parameters {
				if p.Name == "dry_run" && p.In == "query" {
					writes[op.OperationID] = true
				}
			}
		}
	}
	require.Greater(t, len(writes), 25)
	return writes
}

func TestEveryWriteHasADryRun(t *testing.T) {
	t.Parallel()
	for id, has := range describedWrites(t, apitest.Setup(t)) {
		require.True(t, has, "%s has no dry_run", id)
	}
}

// dryCase is a request that is made as a dry run and then in earnest. Text in <> is a placeholder.
type dryCase struct {
	id, path, body string
	// status of the dry run, where it differs from that of the write: those that describe what
	// they would make answer 200.
	status int
}

// dryCases has a case for each operation that writes, and some that are refused. Those that delete
// come last.
var dryCases = []dryCase{
	{id: "create-timer", path: "/timers", body: newBody("new"), status: 200},
	{id: "create-timer", path: "/timers", body: strings.Replace(newBody("new"), "PUT", "GET", 1)},
	{id: "put-timer", path: "/timers", body: newBody("put"), status: 200},
	{id: "put-timer", path: "/timers", body: strings.Replace(newBody("put"), "PUT", "GET", 1)},
	{id: "create-timers", path: "/timers:batch", body: `{"items":[` + newBody("b1") + `,` +
		strings.Replace(newBody("put"), "ring", "other", 1) + `]}`},
	{id: "create-timers", path: "/timers:batch", body: `{"put":true,"items":[` + newBody("b2") +
		`,` + strings.Replace(newBody("put"), "ring", "other", 1) + `]}`},
	{id: "test-timer", path: "/timers:test", body: newBody("never")},
	{id: "test-timer", path: "/timers:test", body: strings.Replace(newBody("x"), "PUT", "?", 1)},
	{id: "change-timer", path: "/timers/<timer>?app=shop", body: `{"labels":{"a":"b"}}`},
	{id: "change-timer", path: "/timers/<timer>?app=shop", body: `{"labels":{},"if_version":9}`},
	{id: "change-timer", path: "/timers/1?app=shop", body: `{"labels":{}}`},
	{id: "pause-timer", path: "/timers/<timer>/pause?app=shop", body: `{"reason":"moving"}`},
	{id: "pause-timer", path: "/timers/<other>/pause?app=shop"},
	{id: "pause-timer", path: "/timers/1/pause?app=shop"},
	{id: "resume-timer", path: "/timers/<timer>/resume?app=shop"},
	{id: "resume-timer", path: "/timers/<other>/resume?app=shop"},
	{id: "run-timer", path: "/timers/<timer>/run?app=shop"},
	{id: "run-timer", path: "/timers/1/run?app=shop"},
	{
		id: "reschedule-timer", path: "/timers/<once>/reschedule?app=shop",
		body: `{"at":"2190-01-01T00:00:00Z"}`,
	},
	{id: "reschedule-timer", path: "/timers/<timer>/reschedule?app=shop", body: `{"delay":"1h"}`},
	{
		id: "start-backfill", path: "/timers/<timer>/backfills?app=shop",
		body: `{"from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:10Z"}`,
	},
	{
		id: "start-backfill", path: "/timers/<timer>/backfills?app=shop",
		body: `{"from":"2026-01-01T00:00:00Z","to":"2025-01-01T00:00:10Z"}`,
	},
	{
		id: "complete-fire", path: "/fires/<fire>/complete",
		body: `{"token":"<token>","status":"delivered"}`,
	},
	{
		id: "complete-fire", path: "/fires/<fire>/complete",
		body: `{"token":"<token>","status":"failed"}`,
	},
	{id: "redrive-fires", path: "/apps/shop/redrives", body: `{}`},
	{id: "redrive-fires", path: "/apps/shop/redrives", body: `{"failure":"no such"}`},
	{id: "import-app", path: "/apps/shop/import", body: `{"kind":"calendar","name":"in"}`},
	{id: "put-app-settings", path: "/apps/shop/settings", body: `{"rate":7}`},
	{id: "put-app-settings", path: "/apps/fresh/settings", body: `{"rate":7}`},
	{id: "put-app-settings", path: "/apps/shop/settings", body: `{"rate":8,"if_version":9}`},
	{id: "create-signing-key", path: "/apps/shop/signing-keys", body: `{}`},
	{id: "create-signing-key", path: "/apps/shop/signing-keys", body: `{"kind":"ed25519"}`},
	{id: "create-signing-key", path: "/apps/shop/signing-keys", body: `{}`}, // one too many
	{id: "create-api-key", path: "/apps/shop/keys", body: `{"name":"x","scope":"read"}`},
	{id: "create-admin-key", path: "/keys", body: `{"name":"x","scope":"read"}`},
	{id: "end-sessions", path: "/people/end-sessions", body: `{"subject":"ada"}`},
	{id: "end-sessions", path: "/people/end-sessions", body: `{"subject":" ada"}`},
	{id: "freeze-app", path: "/apps/shop/freeze", body: `{"reason":"why"}`},
	{id: "run-timer", path: "/timers/<timer>/run?app=shop"}, // refused: it is frozen
	{id: "unfreeze-app", path: "/apps/shop/unfreeze"},
	{id: "put-calendar", path: "/calendars/new?app=shop", body: `{"time_zone":"UTC"}`},
	{id: "put-calendar", path: "/calendars/days?app=shop", body: `{"if_version":9}`},
	{id: "import-calendar", path: "/calendars/days/import?app=shop", body: apitest.Holidays},
	{id: "start-job", path: "/apps/shop/jobs", body: `{"action":"run","all":true}`, status: 200},
	{id: "start-job", path: "/apps/nobody/jobs", body: `{"action":"run","all":true}`},
	{id: "cancel-job", path: "/apps/shop/jobs/<job>/cancel"},
	{id: "cancel-job", path: "/apps/shop/jobs/1/cancel"},
	{id: "cancel-backfill", path: "/backfills/<backfill>?app=shop"},
	{id: "retire-signing-key", path: "/apps/shop/signing-keys/<signing>"},
	{id: "retire-signing-key", path: "/apps/shop/signing-keys/<signing>"},
	{id: "revoke-api-key", path: "/apps/shop/keys/<key>"},
	{id: "revoke-api-key", path: "/apps/shop/keys/<key>"},
	{id: "revoke-admin-key", path: "/keys/<admin>"},
	{id: "delete-calendar", path: "/calendars/days?app=shop"},
	{id: "delete-calendar", path: "/calendars/days?app=shop"},
	{id: "delete-timer", path: "/timers/<other>?app=shop"},
	{id: "delete-timer", path: "/timers/<other>?app=shop"},
	{id: "delete-named-timer", path: "/timers?app=shop&name=third"},
	{id: "delete-named-timer", path: "/timers?app=shop&name=third"},
	{id: "delete-app", path: "/apps/shop?confirm=shop"},
	{id: "create-timer", path: "/timers", body: newBody("late")}, // the app is being deleted
}

func newBody(name string) string {
	return strings.NewReplacer(`"bill"`, `"`+name+`"`, `{"app"`, `{"status":"active","app"`).
		Replace(apitest.V2Body)
}

// state returns all that the cases can change, as text.
func state(t *testing.T, e *apitest.Executor, made *strings.Replacer) string {
	t.Helper()
	var all strings.Builder
	for _, path := range []string{
		"/timers?app=shop", "/apps", "/apps/shop/settings", "/apps/shop/signing-keys",
		"/apps/shop/keys", "/keys", "/audit", "/apps/shop/jobs", "/calendars?app=shop",
		"/timers/<timer>/fires?app=shop&state=open", "/backfills/<backfill>?app=shop",
		"/fires/<fire>?app=shop", "/apps/shop/dead-letters",
	} {
		all.WriteString(e.Call(t, http.MethodGet, "/api/v2"+made.Replace(path), "", nil).Body)
	}
	seq, err := e.Store.LastChange(t.Context())
	require.NoError(t, err)
	fmt.Fprint(&all, seq, len(e.Dispatched.All()))
	return all.String()
}

// varies are the fields that two requests cannot have in common, or that only one of them has.
var varies = regexp.MustCompile(
	`"(id|created_at|updated_at|active_since|finished_at|frozen_since|due|next_run|` +
		`dry_run|upcoming|key|secret|public|sample|series|deleting|next_due|created_ms|ended_before)":` +
		`("[^"]*"|true|false|[0-9]+|\[[^\]]*\]),?`,
)

// requireNothingWritten compares the states before and after a dry run. It repeats both when a second
// begins meanwhile, because fires become due then.
func requireNothingWritten(
	t *testing.T, dryRun func() apitest.Answer, state func() string, what string,
) apitest.Answer {
	t.Helper()
	for {
		second := time.Now().Unix()
		before := state()
		dry := dryRun()
		after := state()
		if time.Now().Unix() == second {
			require.Equal(t, before, after, what)
			return dry
		}
	}
}

// TestDryRunsAnswerAsWrites makes each write as a dry run first. The answers are the same, and the
// dry run changes nothing.
func TestDryRunsAnswerAsWrites(t *testing.T) {
	t.Parallel()
	provider, err := signin.New(signin.Options{
		Issuer: "https://id.example.com", ClientID: "page", Now: time.Now, // nobody asks it
	})
	require.NoError(t, err)
	e := apitest.NewExecutor(t, func(o *api.Options) { o.SignIn = provider })
	methods := operationMethods(t, e.Fixture)
	made := everyThing(t, e)
	cases := map[string]bool{}
	for i, c := range dryCases {
		cases[c.id] = true
		path, body := "/api/v2"+made.Replace(c.path), made.Replace(c.body)
		joiner := "?"
		if strings.Contains(path, "?") {
			joiner = "&"
		}
		header := map[string]string{}
		if c.body == apitest.Holidays {
			header["Content-Type"] = "text/calendar"
		}
		if c.id == "import-app" {
			header["Content-Type"] = "application/octet-stream"
		}
		dryRun := func() apitest.Answer {
			return e.Call(t, methods[c.id], path+joiner+"dry_run=true", body, header)
		}
		dry := requireNothingWritten(t, dryRun, func() string { return state(t, e, made) },
			fmt.Sprintf("case %d, %s wrote something", i, c.id))
		done := e.Call(t, methods[c.id], path, body, header)
		want := done.Status
		if c.status != 0 {
			want = c.status
		}
		require.Equal(t, want, dry.Status, "case %d, %s: %s\n%s", i, c.id, dry.Body, done.Body)
		require.Empty(t, dry.Header.Get("Location"))
		require.NotContains(t, dry.Body, "crl_")
		require.NotContains(t, dry.Body, "whsec_")
		if c.id == "start-job" && dry.Status == http.StatusOK || c.id == "delete-app" {
			require.Contains(t, dry.Body, `"total":`)
			continue // describes a job that does not exist
		}
		if c.id == "test-timer" && dry.Status == http.StatusOK {
			require.Contains(t, dry.Body, `"outcome":"not_called"`)
			continue // describes no answer
		}
		require.Equal(t, withoutVaried(done.Body), withoutVaried(dry.Body), "case %d, %s", i, c.id)
	}
	for id := range describedWrites(t, e.Fixture) {
		require.True(t, cases[id], "a write without a case: %s", id)
	}
}

// withoutVaried returns a body without the fields that vary.
func withoutVaried(body string) string {
	return strings.ReplaceAll(varies.ReplaceAllString(body, ""), ",}", "}")
}

func operationMethods(t *testing.T, f *apitest.Fixture) map[string]string {
	t.Helper()
	var doc struct{ Paths described }
	f.Call(t, http.MethodGet, "/api/v2/openapi.json", "", nil).Into(t, http.StatusOK, &doc)
	methods := map[string]string{}
	for _, item := range doc.Paths {
		for method, op := range item {
			methods[op.OperationID] = strings.ToUpper(method)
		}
	}
	return methods
}

// everyThing creates what the cases change.
func everyThing(t *testing.T, e *apitest.Executor) *strings.Replacer {
	t.Helper()
	own := e.ShopsOwn(t, "")
	once := e.Create(t, http.StatusCreated,
		strings.Replace(apitest.With(`{"kind":"at","at":"2180-01-01T00:00:00Z"}`,
			`"status":"active"`), "bill", "once", 1)).ID
	held := e.Held(t, "shop", "held", 2)
	e.Accept(t, held[0])
	e.Fail(t, held[1:], timer.FailureTimeout)
	fire := held[0].FireID
	pairs := []string{
		"<fire>", fire.String(), "<once>", once, "<token>", e.Tokens.Token(fire, 1),
	}
	for _, name := range []string{
		"<timer>", "<other>", "<backfill>", "<job>", "<signing>", "<key>", "<admin>",
	} {
		pairs = append(pairs, name, own.Replace(name))
	}
	return strings.NewReplacer(pairs...)
}
