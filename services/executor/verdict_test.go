package executor_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// outage is a time range, since the start, in which all processes are down.
type outage struct{ from, to time.Duration }

// deployment is an executor and a minimal migrator for one timer.
type deployment struct {
	*servicetest.Parts
	t     *testing.T
	rcv   *receiver
	began time.Time
	id    timer.ID
	plan  store.Planner
	late  atomic.Bool // the migrator is down
	deaf  atomic.Bool // executors that start do not poll the store
	stop  func()
}

// ahead is how far a deployment expands. Fires due later have no row at first.
const ahead = 20 * time.Second

func (d *deployment) up() {
	end := start(
		d.t,
		d.Parts,
		"one",
		d.rcv,
		func(o *executor.Options) {
			if o.PollAhead = time.Second; d.deaf.Load() {
				o.PollAhead = 0
			}
		},
	)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if !d.late.Load() {
				if fires, _, err := d.Store.Expand(ctx, 10, d.plan); err == nil {
					d.Dispatch.Committed(ctx, fires)
				}
			}
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	d.stop = func() {
		cancel()
		<-done
		end()
	}
}

func (d *deployment) at(after time.Duration) { time.Sleep(time.Until(d.began.Add(after))) }

func (d *deployment) set(status timer.Status, until time.Duration) {
	c := store.StatusChange{App: "a", ID: d.id, Status: status}
	if until > 0 {
		c.UntilMS = d.began.Add(until).UnixMilli()
	}
	out, err := d.Store.SetStatus(d.t.Context(), []store.StatusChange{c}, d.plan)
	require.NoError(d.t, err)
	require.NoError(d.t, out[0].Err)
	d.Dispatch.Committed(d.t.Context(), out[0].Fires)
}

// called returns when the calls started, in ms since the start, in order of due time.
func (d *deployment) called() (after []int64) {
	calls, at := d.rcv.seen()
	for i := range calls {
		after = append(after, at[i].Sub(d.began).Milliseconds())
	}
	return after
}

// dues returns the due times that were called, in ms since the start.
func (d *deployment) dues() (dues []int64) {
	calls, _ := d.rcv.seen()
	for i := range calls {
		dues = append(dues, calls[i].Fire.DueMS-d.began.UnixMilli())
	}
	slices.Sort(dues)
	return dues
}

// deployed runs one timer that is active from the start, in a bubble.
func deployed(
	t *testing.T,
	schedule func(began time.Time) timer.Schedule,
	down []outage,
	act func(d *deployment),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		d := &deployment{Parts: parts, t: t, rcv: new(receiver), began: time.Now()}
		planner, err := expansion.New(expansion.Options{ExpandAhead: ahead, Counts: parts.Counts})
		require.NoError(t, err)
		d.plan = planner.Plan
		def := servicetest.Cron("* * * * * *", "http://127.0.0.1/")
		def.Schedule = schedule(d.began)
		if !def.Schedule.Kind.OneShot() {
			def.Misfire = timer.Misfire{
				Policy: timer.MisfireFireAll,
				Grace:  timer.Duration(time.Second),
			}
		}
		made, err := parts.Store.Create(
			t.Context(),
			[]store.NewTimer{{App: "a", Name: "timer", Definition: def, Activate: true}},
			d.plan,
		)
		require.NoError(t, err)
		require.NoError(t, made[0].Err)
		d.id = made[0].Timer.ID
		d.up()
		defer func() { d.stop() }()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, o := range down {
				d.at(o.from)
				d.stop()
				d.at(o.to)
				d.up()
			}
		}()
		act(d)
		<-done
	})
}

// ends returns when an interval ends.
func ends(step time.Duration) time.Duration { return max(12*time.Second, 80*step) }

func every(step time.Duration) func(time.Time) timer.Schedule {
	return func(began time.Time) timer.Schedule {
		end := began.Add(ends(step))
		return timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(step), EndAt: &end}
	}
}

func once(after time.Duration) func(time.Time) timer.Schedule {
	return func(began time.Time) timer.Schedule {
		at := began.Add(after)
		return timer.Schedule{Kind: timer.KindAt, At: &at}
	}
}

// TestOneShotsSurviveDelays checks that a one-shot due while its timer is inactive is called once,
// when the timer is active again. Its row may or may not exist by then, and any process may have
// been down.
func TestOneShotsSurviveDelays(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		due  time.Duration
		down []outage
		off  func(d *deployment)
		want time.Duration
	}{
		"paused, resumed": {due: 10 * time.Second, off: func(d *deployment) {
			d.set(timer.StatusPaused, 0)
			d.at(30 * time.Second)
			d.set(timer.StatusActive, 0)
		}, want: 30 * time.Second},
		"inactive, active": {due: 10 * time.Second, off: func(d *deployment) {
			d.set(timer.StatusInactive, 0)
			d.at(30 * time.Second)
			d.set(timer.StatusActive, 0)
		}, want: 30 * time.Second},
		"paused until later":        {due: 10 * time.Second, off: func(d *deployment) { d.set(timer.StatusPaused, 30*time.Second) }, want: 30 * time.Second},
		"paused until the instant":  {due: 10 * time.Second, off: func(d *deployment) { d.set(timer.StatusPaused, 10*time.Second) }, want: 10 * time.Second},
		"paused until just before":  {due: 10 * time.Second, off: func(d *deployment) { d.set(timer.StatusPaused, 9900*time.Millisecond) }, want: 10 * time.Second},
		"all down during the pause": {due: 10 * time.Second, down: []outage{{7 * time.Second, 40 * time.Second}}, off: func(d *deployment) { d.set(timer.StatusPaused, 30*time.Second) }, want: 40 * time.Second},
		"paused for longer meanwhile": {due: 10 * time.Second, off: func(d *deployment) {
			d.set(timer.StatusPaused, 20*time.Second)
			d.at(15 * time.Second)
			d.set(timer.StatusPaused, 30*time.Second)
		}, want: 30 * time.Second},
		"resumed before the pause end": {due: 10 * time.Second, off: func(d *deployment) {
			d.set(timer.StatusPaused, time.Hour)
			d.at(20 * time.Second)
			d.set(timer.StatusActive, 0)
		}, want: 20 * time.Second},
		"no row, paused, resumed": {due: 40 * time.Second, off: func(d *deployment) {
			d.set(timer.StatusPaused, 0)
			d.at(60 * time.Second)
			d.set(timer.StatusActive, 0)
		}, want: 60 * time.Second},
		"no row, paused until later":       {due: 40 * time.Second, off: func(d *deployment) { d.set(timer.StatusPaused, 60*time.Second) }, want: 60 * time.Second},
		"no row, paused until the instant": {due: 40 * time.Second, off: func(d *deployment) { d.set(timer.StatusPaused, 40*time.Second) }, want: 40 * time.Second},
		"down when due, and then paused": {due: 10 * time.Second, down: []outage{{9 * time.Second, 15 * time.Second}}, off: func(d *deployment) {
			d.at(12 * time.Second)
			d.set(timer.StatusPaused, 30*time.Second)
		}, want: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deployed(t, once(tt.due), tt.down, func(d *deployment) {
				d.at(5 * time.Second)
				tt.off(d)
				d.at(90 * time.Second)
				called := d.called()
				require.Len(d.t, called, 1)
				require.GreaterOrEqual(d.t, called[0], tt.want.Milliseconds())
				require.Less(d.t, called[0], (tt.want + 4*time.Second).Milliseconds())
			})
		})
	}
}

// TestWaitingOneShotsMayBeEdited checks that a waiting one-shot is called by the definition at its
// activation, and not at all if it was moved meanwhile.
func TestWaitingOneShotsMayBeEdited(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(d *timer.Definition, began time.Time)
		want time.Duration
	}{
		"target": {edit: func(d *timer.Definition, _ time.Time) { d.Target.URL = "http://127.0.0.2/" }, want: 30 * time.Second},
		"instant": {edit: func(d *timer.Definition, began time.Time) {
			at := began.Add(45 * time.Second)
			d.Schedule.At, d.Target.URL = &at, "http://127.0.0.2/"
		}, want: 45 * time.Second},
		"instant that is past as well": {edit: func(d *timer.Definition, began time.Time) {
			at := began.Add(20 * time.Second)
			d.Schedule.At, d.Target.URL = &at, "http://127.0.0.2/"
		}, want: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deployed(t, once(10*time.Second), nil, func(d *deployment) {
				d.at(5 * time.Second)
				d.set(timer.StatusPaused, 0)
				d.at(15 * time.Second)
				tm, err := d.Store.Timer(d.t.Context(), "a", d.id)
				require.NoError(d.t, err)
				def := tm.Definition
				tt.edit(&def, d.began)
				out, err := d.Store.Edit(
					d.t.Context(),
					[]store.Edit{{App: "a", ID: d.id, Definition: def}},
					d.plan,
				)
				require.NoError(d.t, err)
				require.NoError(d.t, out[0].Err)
				d.at(30 * time.Second)
				d.set(timer.StatusActive, 0)
				d.at(90 * time.Second)
				calls, _ := d.rcv.seen()
				require.Len(d.t, calls, 1)
				require.Equal(d.t, "http://127.0.0.2/", calls[0].Target.URL)
				require.GreaterOrEqual(d.t, d.called()[0], tt.want.Milliseconds())
				require.Less(d.t, d.called()[0], (tt.want + 2*time.Second).Milliseconds())
			})
		})
	}
}

// TestAnEditDuringAPauseLosesNoInstant checks that an edit during a pause is planned when the pause
// ends. Due times of both versions are called, however late that is.
func TestAnEditDuringAPauseLosesNoInstant(t *testing.T) {
	t.Parallel()
	deployed(t, every(time.Second), nil, func(d *deployment) {
		d.at(3050 * time.Millisecond)
		d.set(timer.StatusPaused, 8*time.Second)
		d.at(5500 * time.Millisecond)
		tm, err := d.Store.Timer(d.t.Context(), "a", d.id)
		require.NoError(d.t, err)
		def := tm.Definition
		def.Misfire.Grace = timer.Duration(time.Minute)
		out, err := d.Store.Edit(
			d.t.Context(),
			[]store.Edit{{App: "a", ID: d.id, Definition: def}},
			d.plan,
		)
		require.NoError(d.t, err)
		require.NoError(d.t, out[0].Err)
		d.late.Store(true)
		d.at(11 * time.Second)
		d.late.Store(false)
		d.at(100 * time.Second)
		var want []int64
		for due := time.Second; due < ends(time.Second); due += time.Second {
			if due < 3050*time.Millisecond || due >= 8*time.Second {
				want = append(want, due.Milliseconds())
			}
		}
		require.Equal(d.t, want, d.dues())
	})
}

// TestVerdictDependsOnDueInstantOnly checks that exactly the fires due in [from, until) are
// skipped, for the reason of the inactivity. It tests with and without their rows, on time and
// after an outage.
func TestVerdictDependsOnDueInstantOnly(t *testing.T) {
	t.Parallel()
	const step = time.Second
	for name, tt := range map[string]struct {
		step        time.Duration
		from, until time.Duration
		status      timer.Status
		resume      bool // resumed explicitly, at until
		down        []outage
	}{
		"paused until":               {step: step, from: 5050 * time.Millisecond, until: 8 * time.Second, status: timer.StatusPaused},
		"paused, resumed":            {step: step, from: 5050 * time.Millisecond, until: 8050 * time.Millisecond, status: timer.StatusPaused, resume: true},
		"inactive, active":           {step: step, from: 5050 * time.Millisecond, until: 8050 * time.Millisecond, status: timer.StatusInactive, resume: true},
		"until within an outage":     {step: time.Second, from: 5050 * time.Millisecond, until: 30 * time.Second, status: timer.StatusPaused, down: []outage{{10 * time.Second, 39 * time.Second}}},
		"until at an outage's end":   {step: time.Second, from: 5050 * time.Millisecond, until: 39 * time.Second, status: timer.StatusPaused, down: []outage{{10 * time.Second, 39 * time.Second}}},
		"from within an outage":      {step: time.Second, from: 10050 * time.Millisecond, until: 30 * time.Second, status: timer.StatusPaused, down: []outage{{5 * time.Second, 20 * time.Second}}},
		"from within, resumed":       {step: time.Second, from: 10050 * time.Millisecond, until: 30050 * time.Millisecond, status: timer.StatusInactive, resume: true, down: []outage{{5 * time.Second, 20 * time.Second}}},
		"all of it within an outage": {step: time.Second, from: 10050 * time.Millisecond, until: 30 * time.Second, status: timer.StatusPaused, down: []outage{{5 * time.Second, 50 * time.Second}}},
		"beyond what is expanded":    {step: time.Second, from: 5050 * time.Millisecond, until: 50 * time.Second, status: timer.StatusPaused, down: []outage{{7 * time.Second, 59500 * time.Millisecond}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deployed(t, every(tt.step), tt.down, func(d *deployment) {
				d.at(tt.from)
				until := tt.until
				if tt.resume {
					until = 0
				}
				d.set(tt.status, until)
				d.at(tt.until)
				if tt.resume {
					d.set(timer.StatusActive, 0)
				}
				d.at(100 * time.Second)
				var want []int64
				for due := tt.step; due < ends(tt.step); due += tt.step {
					if due < tt.from || due >= tt.until {
						want = append(want, due.Milliseconds())
					}
				}
				require.Equal(d.t, want, d.dues())
				for before := (timer.FireID{}); ; {
					page, err := d.Store.History(d.t.Context(), "a", d.id, before, 500)
					require.NoError(d.t, err)
					if len(page) == 0 {
						break
					}
					for _, o := range page {
						before = o.FireID
						if o.Kind == timer.Skipped {
							require.Equal(d.t, map[timer.Status]timer.Reason{
								timer.StatusPaused: timer.ReasonPaused, timer.StatusInactive: timer.ReasonInactive,
							}[tt.status], o.Reason)
						}
					}
				}
			})
		})
	}
}

// TestMaxFiresCountsCalls checks that max_fires counts calls: skipped fires do not reduce them.
func TestMaxFiresCountsCalls(t *testing.T) {
	t.Parallel()
	const most = 10
	schedule := func(time.Time) timer.Schedule {
		return timer.Schedule{
			Kind:     timer.KindInterval,
			Every:    timer.Duration(time.Second),
			MaxFires: most,
		}
	}
	for name, down := range map[string][]outage{"up": nil, "down": {{3500 * time.Millisecond, 20 * time.Second}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deployed(t, schedule, down, func(d *deployment) {
				d.at(3500 * time.Millisecond)
				d.set(timer.StatusPaused, 0)
				d.at(30 * time.Second)
				d.set(timer.StatusActive, 0)
				d.at(90 * time.Second)
				require.Equal(d.t, []int64{1000, 2000, 3000}, d.dues()[:3])
				require.Len(d.t, d.dues(), most)
				tm, err := d.Store.Timer(d.t.Context(), "a", d.id)
				require.NoError(d.t, err)
				require.EqualValues(d.t, most, tm.FiresCreated)
			})
		})
	}
}

// TestMaxFiresOfAFixedDelayOutliveAResume checks that the fire which an activation supersedes does
// not count, whether or not an executor has claimed it by then.
func TestMaxFiresOfAFixedDelayOutliveAResume(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		most   int64
		resume time.Duration
	}{
		"the only one":          {most: 1, resume: 5 * time.Second},
		"the first of three":    {most: 3, resume: 5 * time.Second},
		"claimed, the only one": {most: 1, resume: 9800 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schedule := func(time.Time) timer.Schedule {
				return timer.Schedule{
					Kind:     timer.KindFixedDelay,
					Every:    timer.Duration(10 * time.Second),
					MaxFires: tt.most,
				}
			}
			deployed(t, schedule, nil, func(d *deployment) {
				d.at(3 * time.Second)
				d.set(timer.StatusPaused, 0)
				d.at(tt.resume)
				d.set(timer.StatusActive, 0)
				d.at(2 * time.Minute)
				require.Len(d.t, d.dues(), int(tt.most))
				require.Equal(d.t, (tt.resume + 10*time.Second).Milliseconds(), d.dues()[0])
				tm, err := d.Store.Timer(d.t.Context(), "a", d.id)
				require.NoError(d.t, err)
				require.Equal(d.t, tt.most, tm.FiresCreated)
			})
		})
	}
}

// TestMaxFiresHoldAfterAnEditAndAPause checks that fires which an edit took back and a pause skipped
// are taken off max_fires once.
func TestMaxFiresHoldAfterAnEditAndAPause(t *testing.T) {
	t.Parallel()
	const most = 10
	schedule := func(began time.Time) timer.Schedule {
		return timer.Schedule{
			Kind:     timer.KindInterval,
			Every:    timer.Duration(time.Second),
			Anchor:   &began,
			MaxFires: most,
		}
	}
	deployed(t, schedule, nil, func(d *deployment) {
		d.at(3500 * time.Millisecond)
		tm, err := d.Store.Timer(d.t.Context(), "a", d.id)
		require.NoError(d.t, err)
		tm.Definition.Schedule.Every = timer.Duration(2 * time.Second)
		edited, err := d.Store.Edit(
			d.t.Context(),
			[]store.Edit{{App: "a", ID: d.id, Definition: tm.Definition}},
			d.plan,
		)
		require.NoError(d.t, err)
		require.NoError(d.t, edited[0].Err)
		d.at(3600 * time.Millisecond)
		d.set(timer.StatusPaused, 0)
		d.at(60 * time.Second)
		d.set(timer.StatusActive, 0)
		d.at(3 * time.Minute)
		require.Len(d.t, d.dues(), most)
	})
}

// lostDeferral is a store whose answer to a deferral is lost after the commit.
type lostDeferral struct {
	executor.Store

	lost atomic.Int32
}

func (s *lostDeferral) Defer(
	ctx context.Context,
	session timer.ID,
	fires []store.Deferral,
) ([]timer.FireID, error) {
	active, err := s.Store.Defer(ctx, session, fires)
	if err == nil {
		s.lost.Add(1)
		err = errCut
	}
	return active, err
}

// TestALostDeferralIsNoClaim checks that a fire is not called after a committed deferral whose
// answer was lost. Its timer may be active by then, and another executor may own the fire.
func TestALostDeferralIsNoClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r, st := new(receiver), &lostDeferral{Store: parts.Store}
		start(t, parts, "one", r, func(o *executor.Options) { o.Store = st })
		fires := parts.Create("a", soon(1, time.Second)...)
		parts.Dispatch.Committed(t.Context(), fires)
		set := func(status timer.Status) []timer.Fire {
			out, err := parts.Store.SetStatus(t.Context(), []store.StatusChange{
				{App: "a", ID: fires[0].Timer, Status: status},
			}, parts.Planner.Plan)
			require.NoError(t, err)
			require.NoError(t, out[0].Err)
			return out[0].Fires
		}
		time.Sleep(500 * time.Millisecond)
		set(timer.StatusPaused)
		time.Sleep(time.Second)
		require.Positive(t, st.lost.Load())
		const other = 42
		require.NoError(
			t,
			parts.Store.OpenSession(
				t.Context(),
				store.Session{ID: other, Kind: store.ExecutorSession, Name: "other"},
			),
		)
		won, err := parts.Store.Claim(t.Context(), other, set(timer.StatusActive))
		require.NoError(t, err)
		require.Len(t, won, 1)
		time.Sleep(2 * time.Second)
		calls, _ := r.seen()
		require.Empty(t, calls, "it is the other's")
	})
}

// TestAnEditCallsADeliveredOneShotOnlyAtANewInstant checks that an edit which keeps the instant does
// not make a delivered one-shot due again.
func TestAnEditCallsADeliveredOneShotOnlyAtANewInstant(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit  func(d *timer.Definition)
		calls int
	}{
		"misfire": {func(d *timer.Definition) { d.Misfire.Grace = timer.Duration(5 * time.Minute) }, 1},
		"jitter":  {func(d *timer.Definition) { d.Schedule.Jitter = timer.Duration(time.Second) }, 1},
		"target":  {func(d *timer.Definition) { d.Target.URL = "http://127.0.0.2/" }, 1},
		"instant": {func(d *timer.Definition) {
			at := d.Schedule.At.Add(time.Minute)
			d.Schedule.At = &at
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deployed(t, once(10*time.Second), nil, func(d *deployment) {
				d.at(20 * time.Second)
				tm, err := d.Store.Timer(d.t.Context(), "a", d.id)
				require.NoError(d.t, err)
				edited := tm.Definition
				test.edit(&edited)
				out, err := d.Store.Edit(
					d.t.Context(),
					[]store.Edit{{App: "a", ID: d.id, Definition: edited}},
					d.plan,
				)
				require.NoError(d.t, err)
				require.NoError(d.t, out[0].Err)
				d.at(90 * time.Second)
				calls, _ := d.rcv.seen()
				require.Len(d.t, calls, test.calls)
			})
		})
	}
}
