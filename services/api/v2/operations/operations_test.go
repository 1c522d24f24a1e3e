package operations_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/selfcheck"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/v2/operations"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

type state struct {
	At       string
	Sessions []struct {
		ID, Name, Kind string
		Alive          bool
		InflightFull   bool  `json:"inflight_full"`
		OldestTaskMS   int64 `json:"oldest_task_ms"`
	}
	Cursor struct {
		Minute        string
		LagMS         int64 `json:"lag_ms"`
		ClaimedSlices int64 `json:"claimed_slices"`
	}
	Overdue struct {
		Count   int
		Minimum bool
		Oldest  string
		ByMS    int64 `json:"by_ms"`
		Apps    []struct {
			App   string
			Count int
		}
	}
	Expansion, Jobs struct {
		Count  int
		Oldest string
	}
	Topics []struct {
		Topic, Subscription string
		Messages            *int64
	}
	Canary *struct {
		Due, Status string
		LatenessMS  int64 `json:"lateness_ms"`
	}
	Checks []struct {
		Name, Error  string
		OK, Optional bool
	}
}

func read(t *testing.T, f *apitest.Fixture) (s state) {
	t.Helper()
	f.Call(t, http.MethodGet, "/api/v2/operations", "", nil).Into(t, http.StatusOK, &s)
	return s
}

func TestOperations(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	ctx := t.Context()
	s := read(t, e.Fixture)
	require.Zero(t, s.Overdue.Count)
	require.NotNil(t, s.Overdue.Apps)
	require.Empty(t, s.Overdue.Apps)
	require.Zero(t, s.Jobs)
	require.Nil(t, s.Canary)
	require.Less(t, s.Cursor.LagMS, 2*timer.MinuteMS)

	require.NoError(
		t,
		e.Store.OpenSession(ctx, store.Session{ID: 8, Kind: store.ExecutorSession, Name: "busy"}),
	)
	alive, err := e.Store.RenewSession(ctx, 8, store.Load{InflightFull: true, OldestTaskMS: 1234})
	require.NoError(t, err)
	require.True(t, alive)
	require.NoError(
		t,
		e.Store.OpenSession(ctx, store.Session{ID: 9, Kind: store.SchedulerSession, Name: "<old>"}),
	)
	require.NoError(t, e.Store.CloseSession(ctx, 9))
	e.Active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	e.Call(t, http.MethodPost, "/api/v2/apps/shop/jobs", `{"action":"run","all":true}`, nil)

	s = read(t, e.Fixture)
	require.Len(t, s.Sessions, 3)
	require.Equal(t, "busy", s.Sessions[0].Name, "by kind and name, the ended ones last")
	require.True(t, s.Sessions[0].InflightFull)
	require.EqualValues(t, 1234, s.Sessions[0].OldestTaskMS)
	require.Equal(t, "test", s.Sessions[1].Name)
	require.True(t, s.Sessions[1].Alive)
	require.Equal(t, "<old>", s.Sessions[2].Name)
	require.Equal(t, "scheduler", s.Sessions[2].Kind)
	require.False(t, s.Sessions[2].Alive)
	require.Equal(t, 1, s.Jobs.Count)
	require.NotEmpty(t, s.Jobs.Oldest)
}

func TestOverdueFires(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	won := e.Held(t, "shop", "bill", 2)
	for i := range won {
		won[i].RunAtMS = time.Now().Add(-time.Hour).UnixMilli()
	}
	_, err := e.Store.Release(t.Context(), e.Session, won, nil)
	require.NoError(t, err)
	s := read(t, e.Fixture)
	require.Equal(t, 2, s.Overdue.Count)
	require.False(t, s.Overdue.Minimum)
	require.NotEmpty(t, s.Overdue.Oldest)
	require.GreaterOrEqual(t, s.Overdue.ByMS, time.Hour.Milliseconds())
	require.Len(t, s.Overdue.Apps, 1)
	require.Equal(t, "shop", s.Overdue.Apps[0].App)
	require.Equal(t, 2, s.Overdue.Apps[0].Count)
}

func TestBacklogOfTopics(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	client := f.Broker.Bus("test")
	require.NoError(t, client.Publish(t.Context(), bus.TasksLow, bus.Message{}, bus.Message{}))
	found := make(map[string]int64)
	for _, topic := range read(t, f).Topics {
		require.NotNil(t, topic.Messages)
		found[topic.Topic+" "+topic.Subscription] = *topic.Messages
	}
	require.Equal(t, map[string]int64{
		"slices triggers": 0, "tasks-high executors": 0, "tasks-normal executors": 0,
		"tasks-low executors": 2,
	}, found)
}

func TestChecks(t *testing.T) {
	t.Parallel()
	h := health.New(0)
	h.Set("store", func(context.Context) error { return nil })
	h.SetOptional("deployment", func(context.Context) error { return errors.New("they differ") })
	f := apitest.Setup(t, func(o *api.Options) { o.Health = h })
	s := read(t, f)
	require.Len(t, s.Checks, 2)
	require.Equal(t, "store", s.Checks[0].Name)
	require.True(t, s.Checks[0].OK)
	require.False(t, s.Checks[0].Optional)
	require.Empty(t, s.Checks[0].Error)
	require.Equal(t, "deployment", s.Checks[1].Name)
	require.False(t, s.Checks[1].OK)
	require.True(t, s.Checks[1].Optional)
	require.Equal(t, "they differ", s.Checks[1].Error)

	require.Empty(t, read(t, apitest.Setup(t)).Checks)
}

type silentBus struct{}

func (silentBus) Backlog(ctx context.Context, _ bus.Topic, _ string) (int64, error) {
	<-ctx.Done()
	return 0, errors.New("no answer")
}

// TestBusThatDoesNotAnswer checks that everything else is shown.
func TestBusThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.Backlog = silentBus{} })
	s := read(t, f)
	require.Len(t, s.Topics, 4)
	for _, topic := range s.Topics {
		require.Nil(t, topic.Messages)
	}
	require.NotEmpty(t, s.Cursor.Minute)

	f = apitest.Setup(t, func(o *api.Options) { o.Backlog = nil })
	require.Empty(t, read(t, f).Topics)
}

func TestCanary(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	ctx := t.Context()
	planner, err := expansion.New(
		expansion.Options{Counts: slicing.NewCounts(slicing.DefaultPerBucket)})
	require.NoError(t, err)
	made, err := f.Store.Create(ctx, []store.NewTimer{{
		App: timer.ReservedApp, Name: selfcheck.CanaryName, Activate: true,
		Definition: timer.Definition{
			Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{"@every 10s"}},
			Target:   timer.Target{Kind: timer.KindCanary},
		},
	}}, planner.Plan)
	require.NoError(t, err)
	require.Nil(t, read(t, f).Canary, "none has ended")
	require.NoError(
		t,
		f.Store.OpenSession(ctx, store.Session{ID: 7, Kind: store.ExecutorSession, Name: "test"}),
	)
	first := made[0].Fires[:1]
	f.Finish(t, 7, first, timer.Delivered)
	s := read(t, f)
	require.NotNil(t, s.Canary)
	require.Equal(t, "delivered", s.Canary.Status)
	require.Equal(t, apitest.RFC(time.UnixMilli(first[0].DueMS)), s.Canary.Due)
}

func TestSettings(t *testing.T) {
	t.Parallel()
	want := []operations.Setting{{Name: "redis-password", Value: "REDACTED", Source: "file x"}}
	f := apitest.Setup(t, func(o *api.Options) { o.Settings = want })
	var got struct{ Items []operations.Setting }
	f.Call(t, http.MethodGet, "/api/v2/operations/settings", "", nil).Into(t, 200, &got)
	require.Equal(t, want, got.Items)
}

// TestOperationsAreOfTheDeployment checks that a key of an app finds no operations, and that
// settings need the scope admin.
func TestOperationsAreOfTheDeployment(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	reader := f.MakeKey(t, admin, "", "read").Key
	shops := f.MakeKey(t, admin, "shop", "admin").Key
	for _, c := range []struct {
		path, key string
		status    int
	}{
		{"/operations", admin, 200},
		{"/operations", reader, 200},
		{"/operations", shops, 404},
		{"/operations/settings", admin, 200},
		{"/operations/settings", reader, 403},
		{"/operations/settings", shops, 404},
	} {
		a := f.Call(t, http.MethodGet, "/api/v2"+c.path, "", apitest.Bearer(c.key))
		require.Equal(t, c.status, a.Status, "%s: %s", c.path, a.Body)
	}
	for key, want := range map[string]string{
		admin:  `{"deployment":true,"scope":"admin"}`,
		reader: `{"deployment":true,"scope":"read"}`,
		shops:  `{"app":"shop","deployment":false,"scope":"admin"}`,
	} {
		a := f.Call(t, http.MethodGet, "/api/v2/caller", "", apitest.Bearer(key))
		require.Equal(t, want, strings.TrimSpace(a.Body))
	}
	keyless := apitest.Setup(t).Call(t, http.MethodGet, "/api/v2/caller", "", nil)
	require.JSONEq(t, `{"deployment":true,"scope":"admin"}`, keyless.Body)
}
