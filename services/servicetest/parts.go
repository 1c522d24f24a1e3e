// Package servicetest provides embedded parts for tests of services. The parts can inject faults.
package servicetest

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/membus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window/memwindow"
)

// MaxFires is how many fires of a timer an expansion of tests makes at most: more than the default,
// so that one timer of every second gives many fires.
const MaxFires = 300

// Options configure the parts.
type Options struct {
	Store     sqlstore.Faults
	Bus       membus.Faults
	Window    *memwindow.Faults
	PerBucket int // fires per bucket; default 1000
}

// Parts are a store, a bus, a window, and the parts built on them. They are closed at the end of
// the test.
type Parts struct {
	T        testing.TB
	Store    *sqlstore.Store
	Broker   *membus.Broker
	Window   *memwindow.Window
	Counts   *slicing.Counts
	Planner  *expansion.Planner
	Plan     store.Planner // of Planner
	IDs      *timer.IDs
	Clock    *clock.Clock
	Log      zerolog.Logger
	Dispatch *dispatch.Dispatcher
}

// New creates the parts, all in memory except the store's temporary file.
func New(t testing.TB, opts Options) *Parts {
	t.Helper()
	if opts.PerBucket == 0 {
		opts.PerBucket = 1000
	}
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	st, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Logger: log})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(t.Context()))
	st.SetFaults(opts.Store)
	broker := membus.NewBroker(membus.Options{Faults: opts.Bus, Log: log})
	t.Cleanup(func() { require.NoError(t, broker.Close()) })
	p := &Parts{
		T:      t,
		Store:  st,
		Broker: broker,
		Log:    log,
		Counts: slicing.NewCounts(opts.PerBucket),
		IDs:    timer.NewIDs(time.Now),
		Window: memwindow.New(memwindow.Options{Now: time.Now, Faults: opts.Window}),
		Clock:  clock.New(time.Now, st.Now),
	}
	require.NoError(t, p.Clock.Measure(t.Context()))
	planner, err := expansion.New(expansion.Options{Counts: p.Counts, Max: MaxFires})
	require.NoError(t, err)
	p.Planner, p.Plan = planner, planner.Plan
	b := p.Bus("dispatch")
	require.NoError(t, b.Setup(t.Context(), bus.Topics(bus.DefaultTaskPartitions)))
	p.Dispatch, err = dispatch.New(dispatch.Options{
		Window: p.Window, Bus: b, Now: time.Now, Logger: log, Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	return p
}

// Bus connects to the broker like one process.
func (p *Parts) Bus(name string) *membus.Bus { return p.Broker.Bus(name) }

// Create registers active timers of one app and returns the fires that their activation inserted.
// It puts nothing into the window.
func (p *Parts) Create(app string, defs ...timer.Definition) []timer.Fire {
	p.T.Helper()
	items := make([]store.NewTimer, len(defs))
	for i, d := range defs {
		items[i] = store.NewTimer{
			App:        app,
			Name:       p.IDs.Next().String(),
			Definition: d,
			Activate:   true,
		}
	}
	var fires []timer.Fire
	require.Eventually(p.T, func() bool {
		made, err := p.Store.Create(p.T.Context(), items, p.Plan)
		if err != nil {
			return false
		}
		fires = nil
		for _, m := range made {
			require.NoError(p.T, m.Err)
			fires = append(fires, m.Fires...)
		}
		return true
	}, time.Minute, time.Millisecond)
	return fires
}

// Once returns the definition of a timer that is due once and calls url.
func Once(at time.Time, url string) timer.Definition {
	return timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindAt, At: &at}, Retry: timer.DefaultRetry(),
		Target: timer.Target{Kind: timer.KindHTTP, URL: url, Method: "POST"},
	}
}

// Every returns the definitions of n timers that call url. Each is due once, the first at first,
// the others at equal distances.
func Every(first time.Time, apart time.Duration, n int, url string) []timer.Definition {
	defs := make([]timer.Definition, n)
	for i := range defs {
		defs[i] = Once(first.Add(time.Duration(i)*apart), url)
	}
	return defs
}

// Cron returns the definition of a timer that is due by a cron expression and calls url.
func Cron(spec, url string) timer.Definition {
	d := Once(time.Time{}, url)
	d.Schedule = timer.Schedule{Kind: timer.KindCron, Specs: []string{spec}}
	return d
}
