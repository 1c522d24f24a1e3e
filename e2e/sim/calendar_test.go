package sim_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/membus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store/memstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window/memwindow"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/migrator"
	"github.com/carillon-timer/carillon/services/scheduler"
	"github.com/carillon-timer/carillon/services/trigger"
)

// TestCalendarBoundaries creates a timer through the API shortly before a change of summer time,
// the end of a month, or of a year, and checks the instants of its calls. It runs the whole
// pipeline in a bubble whose clock is moved forward from the year 2000.
func TestCalendarBoundaries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from     string
		duration time.Duration
		schedule client.Schedule
		want     []string
	}{
		"into summer time, a time that does not exist": {
			"2026-03-29T00:10:00Z", 90 * time.Minute,
			client.Schedule{Kind: "cron", Specs: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin"},
			[]string{"2026-03-29T01:00:00Z"},
		},
		"into summer time, left out": {
			"2026-03-29T00:10:00Z", 90 * time.Minute,
			client.Schedule{Kind: "cron", Specs: []string{"30 2,3 * * *"}, TimeZone: "Europe/Berlin", Gap: "skip"},
			[]string{"2026-03-29T01:30:00Z"},
		},
		"out of summer time, the first": {
			"2026-10-25T00:10:00Z", 100 * time.Minute,
			client.Schedule{Kind: "cron", Specs: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin"},
			[]string{"2026-10-25T00:30:00Z"},
		},
		"out of summer time, both": {
			"2026-10-25T00:10:00Z", 100 * time.Minute,
			client.Schedule{Kind: "cron", Specs: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin", Overlap: "both"},
			[]string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		},
		"out of summer time, each hour": {
			"2026-10-24T23:40:00Z", 170 * time.Minute,
			client.Schedule{Kind: "cron", Specs: []string{"0 * * * *"}, TimeZone: "Europe/Berlin"},
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		},
		"the end of a month": {
			"2028-02-29T23:40:00Z", 40 * time.Minute,
			client.Schedule{Kind: "cron", Specs: []string{"0 50 23 L * *", "0 0 0 1 * *"}},
			[]string{"2028-02-29T23:50:00Z", "2028-03-01T00:00:00Z"},
		},
		"the end of a year": {
			"2026-12-31T23:40:00Z", 40 * time.Minute,
			client.Schedule{Kind: "cron", Specs: []string{"59 59 23 31 12 *", "0 0 0 1 1 * 2027", "0 5 0 1 1 * 2026"}},
			[]string{"2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				from, err := time.Parse(time.RFC3339, c.from)
				require.NoError(t, err)
				at := runPipeline(t, from, c.duration, c.schedule)
				var got []string
				for _, called := range at {
					require.Less(
						t,
						called.Sub(called.Truncate(time.Second)),
						100*time.Millisecond,
						"late: %s",
						called,
					)
					got = append(got, called.Truncate(time.Second).Format(time.RFC3339))
				}
				require.Equal(t, c.want, got)
			})
		})
	}
}

// callRecorder records the instants of calls.
type callRecorder struct {
	mu  sync.Mutex
	now func() time.Time
	at  []time.Time
}

func (n *callRecorder) Call(context.Context, *callback.Request) callback.Result {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at = append(n.at, n.now().UTC())
	return callback.Result{Class: callback.Success, StatusCode: http.StatusOK}
}

// offsetBus is a bus with the deployment's clock.
type offsetBus struct {
	*membus.Bus

	offset time.Duration
}

func (d offsetBus) Subscribe(
	ctx context.Context,
	s bus.Subscription,
	h bus.Handler,
) (bus.Consumer, error) {
	return d.Bus.Subscribe(ctx, s, func(ctx context.Context, batch []bus.Message) []error {
		for i := range batch {
			batch[i].Published = batch[i].Published.Add(d.offset)
		}
		return h(ctx, batch)
	})
}

// runPipeline runs all five services for a duration from an instant on and returns the instants at
// which a timer was called.
func runPipeline(
	t *testing.T,
	from time.Time,
	duration time.Duration,
	schedule client.Schedule,
) []time.Time {
	t.Helper()
	offset := time.Until(from)
	now := func() time.Time { return time.Now().Add(offset) }
	st := memstore.New(now)
	window := memwindow.New(memwindow.Options{Now: now})
	broker := membus.NewBroker(membus.Options{})
	b := offsetBus{broker.Bus("all"), offset}
	require.NoError(t, b.Setup(t.Context(), bus.Topics(bus.DefaultTaskPartitions)))
	counts, ids, log, reg := slicing.NewCounts(
		slicing.DefaultPerBucket,
	), timer.NewIDs(
		now,
	), zerolog.Nop(), prometheus.NewRegistry()
	planner, err := expansion.New(expansion.Options{Counts: counts})
	require.NoError(t, err)
	dispatcher, err := dispatch.New(
		dispatch.Options{Window: window, Bus: b, Now: now, Logger: log, Registerer: reg},
	)
	require.NoError(t, err)
	hostClock := clock.New(now, st.Now)
	require.NoError(t, hostClock.Measure(t.Context()))
	called := &callRecorder{now: now}
	limits, err := limit.New(
		limit.Options{SharedState: memstate.New(now), Executor: "one", Now: now},
	)
	require.NoError(t, err)
	breakers, err := limit.NewBreakers(limit.BreakerOptions{Now: now})
	require.NoError(t, err)

	apiService, err := api.New(api.Options{
		Store:      st,
		Bus:        b,
		Dispatch:   dispatcher,
		Plan:       planner.Plan,
		Successor:  planner,
		Counts:     counts,
		Now:        now,
		Auth:       auth.Rules{Off: true},
		Logger:     log,
		Registerer: reg,
	})
	require.NoError(t, err)
	migratorService, err := migrator.New(
		migrator.Options{
			Store:      st,
			Dispatch:   dispatcher,
			Bus:        b,
			Planner:    planner,
			Counts:     counts,
			Now:        now,
			Logger:     log,
			Registerer: reg,
		},
	)
	require.NoError(t, err)
	schedulerService, err := scheduler.New(
		scheduler.Options{
			Store:      st,
			Bus:        b,
			IDs:        ids,
			Name:       "one",
			Now:        now,
			Logger:     log,
			Registerer: reg,
		},
	)
	require.NoError(t, err)
	triggerService, err := trigger.New(
		trigger.Options{
			Store:      st,
			Bus:        b,
			Window:     window,
			Dispatch:   dispatcher,
			Now:        now,
			Holder:     ids.Next(),
			Logger:     log,
			Registerer: reg,
		},
	)
	require.NoError(t, err)
	executorService, err := executor.New(executor.Options{
		Store:      st,
		Bus:        b,
		Dispatch:   dispatcher,
		Planner:    planner,
		Caller:     called,
		Limits:     limits,
		Breakers:   breakers,
		Clock:      hostClock,
		Counts:     counts,
		IDs:        ids,
		Name:       "one",
		Logger:     log,
		Registerer: reg,
	})
	require.NoError(t, err)

	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, s := range []interface {
		Run(ctx context.Context) error
	}{apiService, migratorService, schedulerService, triggerService, executorService, hostClock, dispatcher} {
		running.Go(func() { _ = s.Run(ctx) })
	}
	_, _, err = client.NewWithTransport(handlerTransport{apiService.Handler()}).
		Create(t.Context(), client.NewTimer{
			App:      "passage",
			Name:     "one",
			Schedule: schedule,
			Target:   client.Post("http://example.com/"),
			Status:   "active",
		})
	require.NoError(t, err)
	time.Sleep(duration)
	end()
	running.Wait()
	require.NoError(t, broker.Close())
	require.NoError(t, st.Close())
	called.mu.Lock()
	defer called.mu.Unlock()
	return slices.Clone(called.at)
}

// handlerTransport sends requests to a handler.
type handlerTransport struct{ http.Handler }

func (h handlerTransport) RoundTrip(q *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, q)
	return rec.Result(), nil
}
