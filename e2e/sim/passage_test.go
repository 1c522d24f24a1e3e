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
	"github.com/carillon-timer/carillon/e2e/sim/memstore"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/membus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window/memwindow"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/migrator"
	"github.com/carillon-timer/carillon/services/scheduler"
	"github.com/carillon-timer/carillon/services/trigger"
)

// TestPassages lets a timer be created through the API some time before a change of summer time,
// the end of a month or of a year, and looks at which instants the callbacks come: the whole
// pipeline, in a bubble whose clock is put forward from the year 2000.
func TestPassages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from     string
		lasts    time.Duration
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
				at := pass(t, from, c.lasts, c.schedule)
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

// notes are the calls that came.
type notes struct {
	mu  sync.Mutex
	now func() time.Time
	at  []time.Time
}

func (n *notes) Call(context.Context, *callback.Request) callback.Result {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at = append(n.at, n.now().UTC())
	return callback.Result{Class: callback.Success, StatusCode: http.StatusOK}
}

// dated is a bus whose clock is the deployment's.
type dated struct {
	*membus.Bus

	offset time.Duration
}

func (d dated) Subscribe(
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

// pass runs all five services for a while from an instant on and returns when a timer was called.
func pass(t *testing.T, from time.Time, lasts time.Duration, schedule client.Schedule) []time.Time {
	t.Helper()
	offset := time.Until(from)
	now := func() time.Time { return time.Now().Add(offset) }
	st := memstore.New(now)
	w := memwindow.New(memwindow.Options{Now: now})
	broker := membus.NewBroker(membus.Options{})
	b := dated{broker.Bus("all"), offset}
	require.NoError(t, b.Setup(t.Context(), bus.Topics(bus.DefaultTaskPartitions)))
	counts, ids, log, reg := slicing.NewCounts(
		slicing.DefaultPerBucket,
	), timer.NewIDs(
		now,
	), zerolog.Nop(), prometheus.NewRegistry()
	planner, err := expansion.New(expansion.Options{Counts: counts})
	require.NoError(t, err)
	send, err := dispatch.New(
		dispatch.Options{Window: w, Bus: b, Now: now, Logger: log, Registerer: reg},
	)
	require.NoError(t, err)
	wall := clock.New(now, st.Now)
	require.NoError(t, wall.Measure(t.Context()))
	called := &notes{now: now}
	limits, err := limit.New(
		limit.Options{SharedState: memstate.New(now), Executor: "one", Now: now},
	)
	require.NoError(t, err)
	breakers, err := limit.NewBreakers(limit.BreakerOptions{Now: now})
	require.NoError(t, err)

	front, err := api.New(api.Options{
		Store:      st,
		Bus:        b,
		Dispatch:   send,
		Plan:       planner.Plan,
		Successor:  planner,
		Counts:     counts,
		Now:        now,
		Auth:       api.Auth{Off: true},
		Logger:     log,
		Registerer: reg,
	})
	require.NoError(t, err)
	expands, err := migrator.New(
		migrator.Options{
			Store:      st,
			Dispatch:   send,
			Planner:    planner,
			Counts:     counts,
			Now:        now,
			Logger:     log,
			Registerer: reg,
		},
	)
	require.NoError(t, err)
	hands, err := scheduler.New(
		scheduler.Options{
			Store:      st,
			Bus:        b,
			Dispatch:   send,
			IDs:        ids,
			Name:       "one",
			Now:        now,
			Logger:     log,
			Registerer: reg,
		},
	)
	require.NoError(t, err)
	pulls, err := trigger.New(
		trigger.Options{
			Store:      st,
			Bus:        b,
			Window:     w,
			Dispatch:   send,
			Now:        now,
			Holder:     ids.Next(),
			Logger:     log,
			Registerer: reg,
		},
	)
	require.NoError(t, err)
	calls, err := executor.New(executor.Options{
		Store:      st,
		Bus:        b,
		Dispatch:   send,
		Planner:    planner,
		Caller:     called,
		Limits:     limits,
		Breakers:   breakers,
		Clock:      wall,
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
	}{front, expands, hands, pulls, calls, wall, send} {
		running.Go(func() { _ = s.Run(ctx) })
	}
	_, _, err = client.Over(inMemory{front.Handler()}).Create(t.Context(), client.NewTimer{
		App:      "passage",
		Name:     "one",
		Schedule: schedule,
		Target:   client.Post("http://example.com/"),
		Status:   "active",
	})
	require.NoError(t, err)
	time.Sleep(lasts)
	end()
	running.Wait()
	require.NoError(t, broker.Close())
	require.NoError(t, st.Close())
	called.mu.Lock()
	defer called.mu.Unlock()
	return slices.Clone(called.at)
}

// inMemory brings requests to a handler.
type inMemory struct{ http.Handler }

func (h inMemory) RoundTrip(q *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, q)
	return rec.Result(), nil
}
