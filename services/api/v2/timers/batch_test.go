package timers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

type batchAnswer struct {
	Created, Existed, Failed int
	Items                    []struct {
		Name, Result, ID string
		Version          int
		Warnings         []struct{ Location, Message string }
		Error            struct {
			Status int
			Detail string
			Errors []struct{ Location, Message string }
		}
	}
}

// batch sends a batch of timers.
func batch(t *testing.T, f *apitest.Fixture, more string, items ...string) (out batchAnswer) {
	t.Helper()
	body := `{"items":[` + strings.Join(items, ",") + `]` + more + `}`
	f.Call(t, http.MethodPost, "/api/v2/timers:batch", body, nil).Into(t, http.StatusOK, &out)
	require.Len(t, out.Items, len(items))
	return out
}

// named returns a timer due every some minutes.
func named(name string, minutes int) string {
	return fmt.Sprintf(
		`{"app":"shop","name":%q,"status":"active","schedule":{"kind":"interval","every":"%dm"},`+
			`"target":{"url":"https://example.com/"}}`,
		name, minutes,
	)
}

func TestBatchCreatesEachItemByItself(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	items := make([]string, 1000)
	for i := range items {
		items[i] = named(fmt.Sprintf("tick-%d", i), 10)
	}
	out := batch(t, f, "", items...)
	require.Equal(t, 1000, out.Created)
	for i := range out.Items {
		require.Equal(t, fmt.Sprintf("tick-%d", i), out.Items[i].Name, "in their order")
		require.Equal(t, "created", out.Items[i].Result)
	}
	var page struct{ Items []apitest.V2Timer }
	f.Call(t, http.MethodGet, "/api/v2/timers?app=shop&limit=1000", "", nil).
		Into(t, http.StatusOK, &page)
	require.Len(t, page.Items, 1000)
	require.Equal(t, "active", page.Items[0].Status)

	out = batch(
		t,
		f,
		"",
		items[0],
		named("tick-1", 20),
		strings.Replace(named("bad", 10), "10m", "10", 1),
		named("new", 5),
	)
	require.Equal(t, []int{1, 1, 2}, []int{out.Created, out.Existed, out.Failed})
	require.Equal(t, "existed", out.Items[0].Result)
	require.Equal(t, http.StatusConflict, out.Items[1].Error.Status)
	require.Equal(t, http.StatusUnprocessableEntity, out.Items[2].Error.Status)
	require.Equal(t, "body.schedule.every", out.Items[2].Error.Errors[0].Location)
	require.Equal(t, "created", out.Items[3].Result)

	out = batch(t, f, `,"put":true`, named("tick-1", 20), named("tick-2", 10), named("other", 7))
	require.Equal(t, []int{1, 2, 0}, []int{out.Created, out.Existed, out.Failed})
	require.Equal(t, 2, out.Items[0].Version)
	require.Equal(t, 1, out.Items[1].Version, "the same definition makes no version")
}

// TestBatchWarns checks that an item has the warnings that a request of its own would have.
func TestBatchWarns(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	item := func(name, schedule string) string {
		return `{"app":"shop","name":"` + name + `","status":"active","schedule":` + schedule +
			`,"target":{"url":"https://example.com/"}}`
	}
	items := []string{
		named("tick", 10),
		item("past", `{"kind":"at","at":"2020-01-01T00:00:00Z"}`),
		item("never", `{"kind":"cron","specs":["0 0 0 1 1 * 2020"]}`),
		item("bad", `{"kind":"cron","specs":["0 0 30 2 *"]}`),
	}
	for _, more := range []string{"", `,"put":true`} {
		for _, dry := range []string{"?dry_run=true", ""} {
			var out batchAnswer
			f.Call(
				t,
				http.MethodPost,
				"/api/v2/timers:batch"+dry,
				`{"items":[`+strings.Join(
					items,
					",",
				)+`]`+more+`}`,
				nil,
			).Into(t, http.StatusOK, &out)
			require.Empty(t, out.Items[0].Warnings, more+dry)
			require.Len(t, out.Items[1].Warnings, 1, more+dry)
			require.Contains(t, out.Items[1].Warnings[0].Message, "due at once")
			require.Len(t, out.Items[2].Warnings, 1, more+dry)
			require.Equal(t, "body.schedule.specs", out.Items[2].Warnings[0].Location)
			require.Empty(t, out.Items[3].Warnings, "it is refused")
		}
	}
}

func TestBatchRefusesWhatNoItemMay(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for body, want := range map[string]string{
		`{"items":[]}`: "items",
		`{"items":[` + named("a", 1) + `,` + named("a", 2) + `]}`:                     "items[1].name",
		`{"items":[{"app":"shop"}]}`:                                                  "items[0]",
		`{"items":[` + strings.Repeat(named("a", 1)+",", 1000) + named("b", 1) + `]}`: "items",
	} {
		p := f.Problem(
			t,
			http.StatusUnprocessableEntity,
			http.MethodPost,
			"/api/v2/timers:batch",
			body,
		)
		require.Contains(t, apitest.Text(t, p), want)
	}
	require.Equal(
		t,
		http.StatusNotFound,
		f.Call(t, http.MethodGet, "/api/v2/timers/1?app=shop", "", nil).Status,
	)
}

func TestBatchOfAnotherAppIsRefused(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	key := apitest.Bearer(f.MakeKey(t, admin, "shop", "write").Key)
	other := strings.Replace(named("b", 1), "shop", "bank", 1)
	a := f.Call(
		t,
		http.MethodPost,
		"/api/v2/timers:batch",
		`{"items":[`+named("a", 1)+`,`+other+`]}`,
		key,
	)
	require.Equal(t, http.StatusNotFound, a.Status)
	a = f.Call(t, http.MethodGet, "/api/v2/timers?app=shop", "", key)
	require.NotContains(t, a.Body, `"name":"a"`, "nothing was written")
}

func TestBatchSaysThatTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Faults.Set(timer.Unavailable("the store is away", errors.New("no route")))
	out := batch(t, f, "", named("a", 1))
	require.Equal(t, 1, out.Failed)
	require.Equal(t, http.StatusServiceUnavailable, out.Items[0].Error.Status)
	text, err := json.Marshal(out)
	require.NoError(t, err)
	require.NotContains(t, string(text), "no route", "the cause is for the log")
}

// TestBatchesHaveAnOrigin checks that the fires of timers which a batch creates link to its request,
// as those of a single create.
func TestBatchesHaveAnOrigin(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	single := strings.Replace(apitest.V2Body, `"bill"`, `"single"`, 1)
	for path, body := range map[string]string{
		"/api/v2/timers":       single,
		"/api/v2/timers:batch": `{"items":[` + apitest.V2Body + `]}`,
	} {
		a := f.Call(t, http.MethodPost, path, body, map[string]string{"Traceparent": parent})
		require.Less(t, a.Status, http.StatusBadRequest, a.Body)
	}
	for _, name := range []string{"single", "bill"} {
		tm, err := f.Store.TimerByName(t.Context(), "shop", name)
		require.NoError(t, err)
		require.Equal(t, parent, tm.Origin, name)
	}
}
