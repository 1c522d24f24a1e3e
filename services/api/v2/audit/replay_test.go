package audit_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/services/api/v2/audit"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

const aSecret = "a secret of the test"

// changer makes random changes of one app.
type changer struct {
	t   *testing.T
	f   *apitest.Fixture
	rnd *rand.Rand
}

func (c *changer) one(of ...string) string { return of[c.rnd.IntN(len(of))] }

// body returns a random definition of a timer.
func (c *changer) body(name string) string {
	return fmt.Sprintf(
		`{"app":"shop","name":%q,%s"labels":{"n":"%d"},"schedule":{"kind":"cron","specs":["0 0 %d * * *"]},`+
			`"target":{"kind":"http","url":"https://example.com/","secret_headers":{"X-Key":"%s %d"}}}`,
		name,
		c.one("", `"status":"active",`, `"status":"inactive",`),
		c.rnd.IntN(3),
		c.rnd.IntN(3),
		aSecret,
		c.rnd.IntN(2),
	)
}

// change makes one change, which may be refused, change nothing, or have no answer.
func (c *changer) change() {
	name := c.one("a", "b", "c", "d")
	method, path, body := http.MethodPost, "", ""
	switch c.rnd.IntN(16) {
	case 0, 1:
		path, body = "/timers", c.body(name)
	case 2, 3:
		method, path, body = http.MethodPut, "/timers", c.body(name)
	case 4:
		path = "/timers:batch"
		items := make([]string, 7)
		for i := range items {
			items[i] = c.body(fmt.Sprint(name, i))
		}
		body = `{"put":` + c.one("true", "false") + `,"items":[` + strings.Join(items, ",") + `]}`
	case 5, 6:
		method = http.MethodPatch
		path = c.timerPath(name, "")
		body = c.one(
			`{"status":"active"}`,
			`{"status":"inactive"}`,
			`{"labels":{"n":"7"}}`,
			`{"labels":{"n":"8"},"status":"active"}`,
			`{"priority":"high"}`,
			`{"if_version":1,"priority":"low"}`,
		)
	case 7:
		path, body = c.timerPath(name, "/pause"), `{"reason":"`+c.one("x", "y")+`"}`
	case 8:
		path = c.timerPath(name, "/resume")
	case 9:
		method, path = http.MethodDelete, "/timers?app=shop&name="+name
	case 10:
		method, path = http.MethodPut, "/calendars/"+name+"?app=shop"
		body = `{"excluded_weekdays":["` + c.one("mon", "tue") + `"]}`
	case 11:
		method, path = http.MethodDelete, "/calendars/"+name+"?app=shop"
	case 12:
		method, path = http.MethodPut, "/apps/shop/settings"
		body = c.one(
			`{"rate":1}`,
			`{"rate":2,"allow":["10.0.0.0/8:80"]}`,
			`{}`,
			`{"rate":3,"if_version":2}`,
		)
	case 13:
		path, body = "/apps/shop/freeze", `{"reason":"`+c.one("x", "y")+`"}`
	case 14:
		path = "/apps/shop/unfreeze"
	case 15:
		path = c.timerPath(name, "/run")
	}
	if c.rnd.IntN(8) == 0 && !strings.Contains(path, "batch") {
		path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "dry_run=true"
	}
	for range 1 + c.rnd.IntN(2) { // callers repeat requests
		a := c.f.Call(c.t, method, "/api/v2"+path, body, nil)
		require.Contains(c.t, []int{200, 201, 202, 204, 404, 409, 412, 422, 503}, a.Status, a.Body)
		if a.Status == http.StatusUnprocessableEntity {
			require.Contains(c.t, path, "pause", a.Body)
		}
	}
}

// timerPath returns a path below the timer of a name, 0 if there is none.
func (c *changer) timerPath(name, below string) string {
	id := "0"
	if t, err := c.f.Store.TimerByName(c.t.Context(), "shop", name); err == nil {
		id = t.ID.String()
	}
	return "/timers/" + id + below + "?app=shop"
}

// replayed is what a trail leads to.
type replayed struct {
	timers           map[string]map[string]any // by id
	names            map[string]string
	calendars        map[string]map[string]any
	settings, freeze map[string]any
}

// replay follows a trail from its begin. Each entry must begin where the one before it ended.
func replay(t *testing.T, entries []audit.AuditEntryBody) *replayed {
	t.Helper()
	r := &replayed{
		timers: map[string]map[string]any{}, names: map[string]string{},
		calendars: map[string]map[string]any{},
		settings: map[string]any{
			"rate": 0.0, "burst": 0.0, "concurrent": 0.0, "allow": []any{},
		},
		freeze: map[string]any{"frozen": false},
	}
	for _, e := range slices.Backward(entries) {
		switch e.Kind {
		case "settings":
			require.Equal(t, r.settings, e.Before, e.ID)
			r.settings = e.After
		case "app":
			require.Equal(t, r.freeze, e.Before, e.ID)
			r.freeze = e.After
		case "calendar":
			require.Equal(t, r.calendars[e.Resource], e.Before, e.ID)
			if r.calendars[e.Resource] = e.After; e.After == nil {
				delete(r.calendars, e.Resource)
			}
		case "timer":
			r.timer(t, &e)
		default:
			require.Fail(t, "unexpected kind", e.Kind)
		}
	}
	return r
}

func (r *replayed) timer(t *testing.T, e *audit.AuditEntryBody) {
	t.Helper()
	if e.Action == "run" {
		return // it changes no definition
	}
	had := r.timers[e.Resource]
	require.Equal(t, e.Action == "create", had == nil, e.ID)
	for name, value := range e.Before {
		require.Equal(t, had[name], value, "%s of entry %s", name, e.ID)
	}
	if e.Action == "delete" {
		delete(r.timers, e.Resource)
		return
	}
	is := map[string]any{}
	if e.Action == "update" { // it keeps the status
		maps.Copy(is, had)
	} else if had != nil {
		is["definition"] = had["definition"]
	}
	maps.Copy(is, e.After)
	r.timers[e.Resource], r.names[e.Resource] = is, e.Name
}

// TestReplayGivesTheDefinitions makes random changes, some of which lose their answer, and compares
// what the trail leads to with what is there.
func TestReplayGivesTheDefinitions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			f := apitest.Setup(t)
			c := &changer{t, f, rand.New(rand.NewPCG(seed, 1))}
			f.Store.SetFaults(sqlstore.Faults{FailBefore: 0.03, FailAfter: 0.1})
			for range 300 {
				c.change()
			}
			f.Store.SetFaults(sqlstore.Faults{})
			entries := trail(t, f, ofShop, url.Values{"limit": {"100"}}, nil)
			require.Greater(t, len(entries), 100)
			require.NotContains(t, apitest.Text(t, entries), aSecret)
			requirePresent(t, f, replay(t, entries))
		})
	}
}

// requirePresent compares with the app as the API shows it.
func requirePresent(t *testing.T, f *apitest.Fixture, r *replayed) {
	t.Helper()
	var timers struct{ Items []map[string]any }
	f.Call(t, http.MethodGet, "/api/v2/timers?app=shop&limit=1000", "", nil).Into(t, 200, &timers)
	require.Len(t, r.timers, len(timers.Items))
	definitions, calendars := exported(t, f)
	for _, shown := range timers.Items {
		id, _ := shown["id"].(string)
		got := r.timers[id]
		require.Equal(t, shown["name"], r.names[id])
		require.Equal(t, shown["status"], got["status"])
		require.Equal(t, shown["version"], got["version"])
		if paused, ok := shown["paused"].(map[string]any); ok {
			require.Equal(t, paused["reason"], got["reason"])
		}
		require.Equal(t, definitions[r.names[id]], got["definition"])
	}
	require.Equal(t, calendars, r.calendars)
	var settings map[string]any
	f.Call(t, http.MethodGet, "/api/v2/apps/shop/settings", "", nil).Into(t, 200, &settings)
	require.Equal(t, settings["rate"], r.settings["rate"])
	var app map[string]any
	f.Call(t, http.MethodGet, "/api/v2/apps/shop", "", nil).Into(t, 200, &app)
	require.Equal(t, app["frozen"], r.freeze["frozen"])
}

// exported returns the definitions and calendars of the app, by name.
func exported(t *testing.T, f *apitest.Fixture) (definitions, calendars map[string]map[string]any) {
	t.Helper()
	definitions, calendars = map[string]map[string]any{}, map[string]map[string]any{}
	a := f.Call(t, http.MethodGet, "/api/v2/apps/shop/export", "", nil)
	require.Equal(t, http.StatusOK, a.Status)
	for line := range strings.Lines(a.Body) {
		var doc map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &doc))
		kind, name := doc["kind"], fmt.Sprint(doc["name"])
		for _, other := range []string{"kind", "name", "status"} {
			delete(doc, other)
		}
		if kind == "timer" {
			definitions[name] = doc
		} else {
			calendars[name] = doc
		}
	}
	return definitions, calendars
}
