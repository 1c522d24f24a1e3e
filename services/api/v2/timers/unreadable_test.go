package timers_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// unreadable is a store that cannot read the first version of any definition.
type unreadable struct{ api.Store }

func mark(t *timer.Timer) {
	if t.Version == 1 {
		t.Definition = timer.Definition{Unreadable: "a newer release wrote it"}
	}
}

func (s unreadable) Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error) {
	t, err := s.Store.Timer(ctx, app, id)
	mark(&t)
	return t, err
}

func (s unreadable) Search(ctx context.Context, q store.SearchQuery) (store.SearchPage, error) {
	page, err := s.Store.Search(ctx, q)
	for i := range page.Timers {
		mark(&page.Timers[i])
	}
	return page, err
}

func (s unreadable) Definitions(
	ctx context.Context, keys []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	defs, err := s.Store.Definitions(ctx, keys)
	for k := range defs {
		t := timer.Timer{Version: k.Version}
		mark(&t)
		defs[k] = &t.Definition
	}
	return defs, err
}

// TestUnreadableTimers checks that the API says of a timer that its definition cannot be read, refuses
// what needs it, and does the rest.
func TestUnreadableTimers(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.Store = unreadable{o.Store} })
	tm := f.Create(t, http.StatusCreated, named("tick", 10))
	path, app := "/api/v2/timers/"+tm.ID, "?app=shop"
	type shown struct{ ID, Name, Status, Unreadable string }
	var one, replaced shown
	f.Call(t, http.MethodGet, path+app, "", nil).Into(t, http.StatusOK, &one)
	require.Equal(t, "tick", one.Name)
	require.Equal(t, "a newer release wrote it", one.Unreadable)
	var list struct{ Items []shown }
	f.Call(t, http.MethodGet, "/api/v2/timers"+app, "", nil).Into(t, http.StatusOK, &list)
	require.Equal(t, []shown{one}, list.Items)

	past := `{"from":"2026-01-01T00:00:00Z","to":"2026-01-01T01:00:00Z"}`
	const refused = "replace it as a whole"
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{http.MethodPatch, path + app, `{"priority":"high"}`, http.StatusConflict, refused},
		{http.MethodPost, path + "/backfills" + app, past, http.StatusConflict, refused},
		{http.MethodPost, path + "/reschedule" + app, `{"delay":"1h"}`, http.StatusConflict, refused},
		{http.MethodGet, path + "/fires" + app, "", http.StatusOK, ""},
		{
			http.MethodGet, path + "/explain" + app + "&at=2026-01-01T00:00:00Z", "",
			http.StatusOK, "cannot be read: a newer release",
		},
		{http.MethodPost, path + "/run" + app, `{}`, http.StatusAccepted, `"status":"open"`},
		{http.MethodPatch, path + app, `{"status":"inactive"}`, http.StatusOK, "inactive"},
		{http.MethodPut, "/api/v2/timers", named("tick", 20), http.StatusOK, `"version":2`},
	} {
		a := f.Call(t, c.method, c.path, c.body, nil)
		require.Equal(t, c.status, a.Status, "%s %s: %s", c.method, c.path, a.Body)
		require.Contains(t, a.Body, c.says, "%s %s", c.method, c.path)
	}
	f.Call(t, http.MethodGet, path+app, "", nil).Into(t, http.StatusOK, &replaced)
	require.Empty(t, replaced.Unreadable)
}
