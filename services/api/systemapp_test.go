package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestSystemTimersAreReadOnly checks that Carillon's own timers can be read, and changed by neither
// version.
func TestSystemTimersAreReadOnly(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	made, err := f.Store.Create(t.Context(), []store.NewTimer{{
		App: timer.ReservedApp, Name: "canary", Definition: timer.Definition{
			Schedule: timer.Schedule{
				Kind:  timer.KindCron,
				Specs: []string{"@every 10s"},
			},
			Target: timer.Target{Kind: timer.KindCanary},
			Retry:  timer.DefaultRetry(),
		},
	}}, nil)
	require.NoError(t, err)
	id := made[0].Timer.ID
	path := fmt.Sprintf("/api/v2/timers/%d", id)

	var got apitest.V2Timer
	f.Call(t, http.MethodGet, path+"?app=carillon", "", nil).Into(t, 200, &got)
	require.Equal(t, map[string]any{"kind": "canary", "url": ""}, got.Target)
	var list struct{ Items []apitest.V2Timer }
	f.Call(t, http.MethodGet, "/api/v2/timers?app=carillon", "", nil).Into(t, 200, &list)
	require.Len(t, list.Items, 1)
	f.Call(t, http.MethodGet, "/api/v2/timers?app=shop", "", nil).Into(t, 200, &list)
	require.Empty(t, list.Items)
	f.Call(t, http.MethodGet, path+"/fires?app=carillon", "", nil).Into(t, 200, &struct{}{})
	require.Equal(
		t,
		"carillon",
		f.V1(t, 200, http.MethodGet, fmt.Sprintf("/api/timer/v1/def?app=carillon&id=%d", id), "").Data["app"],
	)

	body := `{"app":"carillon","name":"mine","schedule":{"kind":"delay","delay":"1s"},"target":{"url":"https://example.com/"}}`
	p := f.Problem(t, 422, http.MethodPost, "/api/v2/timers", body)
	require.Equal(t, "body.app", p.Errors[0].Location)
	require.Contains(t, p.Errors[0].Message, `"carillon", which is Carillon's own`)
	p = f.Problem(t, 422, http.MethodPatch, path+"?app=carillon", `{"status":"active"}`)
	require.Equal(t, "query.app", p.Errors[0].Location)
	for _, c := range [][3]string{
		{http.MethodDelete, path, ""},
		{http.MethodPatch, path, `{"retry":{}}`},
		{http.MethodPost, path + "/pause", ""},
		{http.MethodPost, path + "/resume", ""},
		{http.MethodPost, path + "/run", ""},
		{http.MethodPost, path + "/reschedule", `{"delay":"1h"}`},
		{http.MethodPost, path + "/backfills", `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`},
		{http.MethodDelete, "/api/v2/backfills/1", ""},
	} {
		p = f.Problem(t, 422, c[0], c[1]+"?app=carillon", c[2])
		require.Equal(t, "query.app", p.Errors[0].Location, c[1])
	}
	p = f.Problem(t, 422, http.MethodDelete, "/api/v2/timers?app=carillon&name=canary", "")
	require.Equal(t, "query.app", p.Errors[0].Location)

	ref := fmt.Sprintf(`{"id":%d,"app":"carillon"}`, id)
	v1 := `{"app":"carillon","name":"mine","cron":"* * * * * *","notifyHTTPParam":{"url":"https://example.com/","method":"POST"}}`
	for _, r := range []apitest.V1Reply{
		f.V1(t, 400, http.MethodPost, "/api/timer/v1/def", v1),
		f.V1(t, 400, http.MethodPost, "/api/timer/v1/enable", ref),
		f.V1(t, 400, http.MethodPost, "/api/timer/v1/unable", ref),
		f.V1(t, 400, http.MethodDelete, "/api/timer/v1/def", ref),
	} {
		require.Contains(t, r.Msg, `found "carillon", which is Carillon's own`)
	}
	still, err := f.Store.Timer(t.Context(), timer.ReservedApp, id)
	require.NoError(t, err)
	require.Equal(t, made[0].Timer, still)

	// Users cannot use the kind of these timers.
	f.Problem(
		t,
		422,
		http.MethodPost,
		"/api/v2/timers",
		`{"app":"shop","name":"mine","schedule":{"kind":"delay","delay":"1s"},"target":{"kind":"canary","url":"https://example.com/"}}`,
	)
}
