package selfcheck_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/selfcheck"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deployment is a store shared by several processes.
type deployment struct {
	*sqlstore.Store

	t           *testing.T
	plan        store.Planner
	unavailable atomic.Bool
	slow        atomic.Bool  // OldestOpen does not answer
	n           atomic.Int64 // dispatched fires
}

func setup(t *testing.T) *deployment {
	t.Helper()
	st, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(t.Context()))
	p, err := expansion.New(expansion.Options{Counts: slicing.NewCounts(slicing.DefaultPerBucket)})
	require.NoError(t, err)
	return &deployment{Store: st, t: t, plan: p.Plan}
}

var errUnavailable = timer.Unavailable("store unavailable", errors.New("cut"))

func (d *deployment) OldestOpen(ctx context.Context) (int64, error) {
	if d.unavailable.Load() {
		return 0, errUnavailable
	}
	if d.slow.Load() {
		<-ctx.Done()
		return 0, timer.Unavailable("reading the oldest open fire", ctx.Err())
	}
	return d.Store.OldestOpen(ctx)
}

func (d *deployment) History(
	ctx context.Context,
	app string,
	id timer.ID,
	before timer.FireID,
	limit int,
) ([]timer.Outcome, error) {
	if d.unavailable.Load() {
		return nil, errUnavailable
	}
	return d.Store.History(ctx, app, id, before, limit)
}

func (d *deployment) Committed(_ context.Context, fires []timer.Fire) { d.n.Add(int64(len(fires))) }

func (d *deployment) watch(interval time.Duration, reg *prometheus.Registry) *selfcheck.Watch {
	d.t.Helper()
	w, err := selfcheck.New(selfcheck.Options{
		Store:      d,
		Dispatch:   d,
		Plan:       d.plan,
		Now:        time.Now,
		Interval:   interval,
		Logger:     zerolog.Nop(),
		Registerer: reg,
	})
	require.NoError(d.t, err)
	return w
}

// start runs a process's Watch until stop is called or the test ends.
func (d *deployment) start(
	interval time.Duration,
) (w *selfcheck.Watch, reg *prometheus.Registry, stop func()) {
	d.t.Helper()
	reg = prometheus.NewRegistry()
	w = d.watch(interval, reg)
	ctx, cancel := context.WithCancel(d.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(d.t, <-ended)
	})
	d.t.Cleanup(stop)
	return w, reg, stop
}

// timers returns the timers of the reserved app.
func (d *deployment) timers() []timer.Timer {
	d.t.Helper()
	ts, err := d.List(d.t.Context(), store.Query{App: timer.ReservedApp, Limit: 10})
	require.NoError(d.t, err)
	return ts
}

// one returns the canary, and requires that it is the only timer.
func (d *deployment) one() timer.Timer {
	d.t.Helper()
	ts := d.timers()
	require.Len(d.t, ts, 1)
	require.Equal(d.t, selfcheck.CanaryName, ts[0].Name)
	return ts[0]
}

// callDue calls the open canary fires that are due, with the given lateness, as executors would.
func (d *deployment) callDue(late time.Duration) {
	d.t.Helper()
	const me = 7
	now := time.Now().UnixMilli()
	_ = d.OpenSession(d.t.Context(), store.Session{ID: me, Kind: store.ExecutorSession, Name: "e"})
	var fires []timer.Fire
	for m := timer.MinuteOf(now) - 3; m <= timer.MinuteOf(now); m++ {
		some, err := d.LoadSlice(d.t.Context(), m, 0, store.Position{}, now, 1000)
		require.NoError(d.t, err)
		fires = append(fires, some...)
	}
	won, err := d.Claim(d.t.Context(), me, fires)
	require.NoError(d.t, err)
	var out []timer.Outcome
	for _, f := range won {
		o := timer.Outcome{
			Fire:       f,
			Kind:       timer.Delivered,
			FinishedMS: now,
			UntilMS:    f.DueMS,
			Count:      1,
			LatenessMS: late.Milliseconds(),
		}
		states, err := d.States(d.t.Context(), []timer.ID{f.Timer})
		require.NoError(d.t, err)
		if states[0].Status != timer.StatusActive {
			o.Kind, o.Reason = timer.Skipped, timer.ReasonInactive
		}
		out = append(out, o)
	}
	_, _, err = d.Record(d.t.Context(), me, out, nil)
	require.NoError(d.t, err)
}

// pass advances time while canaries are called.
func (d *deployment) pass(t time.Duration, late time.Duration) {
	for end := time.Now().Add(t); time.Now().Before(end); {
		time.Sleep(5 * time.Second)
		d.callDue(late)
	}
}

func gauges(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		out[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	return out
}

func TestCanaryIsCreatedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		for range 5 {
			d.start(10 * time.Second)
		}
		time.Sleep(time.Second)
		c := d.one()
		require.Equal(t, timer.StatusActive, c.Status)
		require.Equal(t, timer.KindCanary, c.Definition.Target.Kind)
		require.EqualValues(t, 1, c.ActiveEpoch)
		require.Equal(t, c.FiresCreated, d.n.Load(), "its fires are marked, once")
		d.start(10 * time.Second) // a process that starts later
		time.Sleep(time.Second)
		require.Equal(t, c, d.one())
	})
}

// TestMySQLCanaryIsCreatedOnce runs on MySQL in real time, with lock waits and processes of
// different settings.
func TestMySQLCanaryIsCreatedOnce(t *testing.T) {
	t.Parallel()
	st, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: testenv.MySQL(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(t.Context()))
	d := &deployment{Store: st, t: t, plan: setup(t).plan}
	for round := range 5 {
		var all errgroup.Group
		for i := range 8 {
			w := d.watch(time.Duration(10+(round+i%2)%3)*time.Second, prometheus.NewRegistry())
			all.Go(func() error { return w.Ensure(t.Context()) })
		}
		require.NoError(t, all.Wait())
		require.Equal(t, timer.StatusActive, d.one().Status)
	}
}

func TestCanaryIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		w, reg, _ := d.start(10 * time.Second)
		time.Sleep(time.Second)
		require.NoError(t, w.Check(t.Context()), "the first is still to come")
		require.Equal(t, selfcheck.Report{Interval: "10s", AgeMS: 1000}, w.Report())

		d.pass(time.Minute, 3*time.Millisecond)
		require.NoError(t, w.Check(t.Context()))
		r := w.Report()
		require.Equal(t, string(timer.Delivered), r.Outcome)
		require.EqualValues(t, 3, r.LatenessMS)
		require.Equal(t, time.Since(r.Due).Milliseconds(), r.AgeMS)
		require.Less(t, r.AgeMS, int64(22_000))
		g := gauges(t, reg)
		require.InDelta(t, .003, g["carillon_canary_lateness_seconds"], 1e-9)
		require.InDelta(t, float64(r.AgeMS)/1000, g["carillon_canary_age_seconds"], .1)
		require.InDelta(t, 10, g["carillon_canary_interval_seconds"], 0)

		d.pass(20*time.Second, 1500*time.Millisecond)
		require.ErrorContains(t, w.Check(t.Context()), "the latest canary call was 1.5s late")
		time.Sleep(50 * time.Second) // no canary is called
		require.ErrorContains(t, w.Check(t.Context()), "no canary call for")
		require.Greater(t, gauges(t, reg)["carillon_canary_age_seconds"], 40.)
		d.pass(20*time.Second, 0)
		require.NoError(t, w.Check(t.Context()), "and it is well again")
	})
}

// TestSlowSearchHidesNoCanary checks that the canary is polled while the search for the oldest open
// fire takes longer than a poll waits for it.
func TestSlowSearchHidesNoCanary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		w, _, _ := d.start(10 * time.Second)
		d.pass(time.Minute, 0)
		d.slow.Store(true)
		d.pass(2*time.Minute, 0)
		require.NoError(t, w.Check(t.Context()))
	})
}

// TestLatenessIsShownWhileItIsKnown checks that a process shows no lateness before the first canary,
// and none while it cannot read the canary: it would hide what the others see.
func TestLatenessIsShownWhileItIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		_, reg, _ := d.start(10 * time.Second)
		const name = "carillon_canary_lateness_seconds"
		time.Sleep(6 * time.Second)
		require.NotContains(t, gauges(t, reg), name, "before the first")
		d.pass(30*time.Second, 2*time.Millisecond)
		require.InDelta(t, .002, gauges(t, reg)[name], 1e-9)

		d.unavailable.Store(true)
		time.Sleep(9 * time.Second)
		require.InDelta(t, .002, gauges(t, reg)[name], 1e-9, "errors that pass do not show")
		time.Sleep(13 * time.Second)
		require.NotContains(t, gauges(t, reg), name, "for 22 s")

		d.unavailable.Store(false)
		d.pass(20*time.Second, 4*time.Second)
		require.InDelta(t, 4, gauges(t, reg)[name], 1e-9, "and it is known again")
	})
}

// TestCanaryIntervalChanges: starting processes with another interval replace the canary. Running
// ones accept it and do not replace it back.
func TestCanaryIntervalChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		old, _, _ := d.start(10 * time.Second)
		d.pass(30*time.Second, 0)
		first := d.one()
		for range 3 {
			d.start(20 * time.Second)
		}
		d.pass(2*time.Minute, 0)
		second := d.one()
		require.NotEqual(t, first.ID, second.ID)
		require.Equal(t, []string{"@every 20s"}, second.Definition.Schedule.Specs)
		d.pass(5*time.Minute, 0)
		require.Equal(t, second.ID, d.one().ID)
		require.NoError(t, old.Check(t.Context()))
		require.Equal(t, "20s", old.Report().Interval)
	})
}

func TestCanaryIsDisabled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start(0)
		time.Sleep(time.Second)
		require.Empty(t, d.timers())

		running, _, stop := d.start(10 * time.Second)
		d.pass(30*time.Second, 0)
		_, reg, _ := d.start(0)
		d.pass(5*time.Minute, 0)
		require.Equal(
			t,
			timer.StatusInactive,
			d.one().Status,
			"a process that has not heard of it yet does not switch it on again",
		)
		require.Error(t, running.Check(t.Context()))
		require.NotContains(t, gauges(t, reg), "carillon_canary_age_seconds")
		stop()
		d.start(10 * time.Second)
		time.Sleep(time.Second)
		require.Equal(t, timer.StatusActive, d.one().Status)
	})
}

func TestDeletedCanaryIsRecreated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		a, _, _ := d.start(10 * time.Second)
		b, _, _ := d.start(10 * time.Second)
		d.pass(30*time.Second, 0)
		first := d.one()
		_, err := d.SetStatus(
			t.Context(),
			[]store.StatusChange{
				{App: timer.ReservedApp, ID: first.ID, Status: timer.StatusDeleted},
			},
			d.plan,
		)
		require.NoError(t, err)
		require.Empty(t, d.timers())
		d.pass(2*time.Minute, 0)
		require.NotEqual(t, first.ID, d.one().ID)
		require.NoError(t, a.Check(t.Context()))
		require.NoError(t, b.Check(t.Context()))
	})
}

// TestCanaryAfterAWeekOff: a deployment that was off for a week starts with a current canary, not
// with sixty thousand missed ones.
func TestCanaryAfterAWeekOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		_, _, stop := d.start(10 * time.Second)
		time.Sleep(time.Second)
		stop()
		time.Sleep(7 * 24 * time.Hour)
		w, _, _ := d.start(10 * time.Second)
		time.Sleep(time.Second)
		c := d.one()
		require.EqualValues(t, 2, c.ActiveEpoch)
		require.Greater(t, c.NextDueMS, time.Now().UnixMilli())
		fires, _, err := d.Expand(t.Context(), 10, d.plan)
		require.NoError(t, err)
		require.Empty(t, fires)
		d.pass(time.Minute, 0)
		require.NoError(t, w.Check(t.Context()))
	})
}

func TestOldestOpenFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		w, reg, _ := d.start(0)
		const name = "carillon_oldest_open_fire_seconds"
		time.Sleep(time.Minute)
		require.Zero(t, gauges(t, reg)[name], "there is none")

		at := time.Now().Add(30 * time.Second)
		made, err := d.Create(
			t.Context(),
			[]store.NewTimer{{App: "a", Name: "a", Activate: true, Definition: timer.Definition{
				Schedule: timer.Schedule{
					Kind: timer.KindAt,
					At:   &at,
				},
				Target: timer.Target{Kind: timer.KindHTTP},
				Retry:  timer.DefaultRetry(),
			}}},
			d.plan,
		)
		require.NoError(t, err)
		require.NoError(t, made[0].Err)
		time.Sleep(29 * time.Second)
		require.Zero(t, gauges(t, reg)[name], "it is not due")
		time.Sleep(21 * time.Second)
		require.InDelta(t, 20, w.OldestOverdue().Seconds(), 6, "as of the latest look")

		d.unavailable.Store(true)
		time.Sleep(time.Minute)
		require.InDelta(
			t,
			80,
			w.OldestOverdue().Seconds(),
			.01,
			"nothing can have been recorded meanwhile",
		)
		d.unavailable.Store(false)
		time.Sleep(10 * time.Second)
		d.callDue(0)
		time.Sleep(10 * time.Second)
		require.Zero(t, w.OldestOverdue())

		d.unavailable.Store(true)
		time.Sleep(time.Minute)
		require.InDelta(
			t,
			63,
			w.OldestOverdue().Seconds(),
			3.01,
			"fires that became due since the last poll may be open",
		)
	})
}

func TestCaller(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	c := selfcheck.NewCaller(reg)
	at := time.Now().Truncate(time.Millisecond)
	r := c.Call(
		t.Context(),
		&callback.Request{Start: at.Add(2 * time.Millisecond), PlannedMS: at.UnixMilli()},
	)
	require.Equal(t, callback.Result{Class: callback.Success}, r)
	families, err := reg.Gather()
	require.NoError(t, err)
	h := families[0].GetMetric()[0].GetHistogram()
	require.EqualValues(t, 1, h.GetSampleCount())
	require.InDelta(t, .002, h.GetSampleSum(), 1e-9)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := selfcheck.New(selfcheck.Options{Interval: 1500 * time.Millisecond})
	for _, want := range []string{"Store", "Dispatch", "Plan", "Now", "Registerer", "Interval"} {
		require.ErrorContains(t, err, want, fmt.Sprint(err))
	}
}
