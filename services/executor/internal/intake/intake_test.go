package intake

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/pickup"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/hold"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/servicetest"
)

var errLost = errors.New("answer lost")

// faulty is a store whose claims and renewals can be made to fail.
type faulty struct {
	Store

	mu         sync.Mutex
	claim      func() error // after the claim; nil: it is answered
	unrenewed  bool
	claimSizes []int
}

func (f *faulty) Claim(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	won, err := f.Store.Claim(ctx, session, fires)
	f.mu.Lock()
	after := f.claim
	f.claimSizes = append(f.claimSizes, len(fires))
	f.mu.Unlock()
	if after != nil && err == nil {
		err = after()
	}
	return won, err
}

func (f *faulty) RenewSession(ctx context.Context, id timer.ID, l store.Load) (bool, error) {
	f.mu.Lock()
	unrenewed := f.unrenewed
	f.mu.Unlock()
	if unrenewed {
		return false, errors.New("connection lost")
	}
	return f.Store.RenewSession(ctx, id, l)
}

// set changes the faults.
func (f *faulty) set(claim func() error, unrenewed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claim, f.unrenewed = claim, unrenewed
}

// fixture is an intake with an open session.
type fixture struct {
	*Intake

	parts *servicetest.Parts
	store *faulty
	epoch *session.Epoch
	slow  *atomic.Bool // results are written more slowly than calls end
}

// setup returns an intake over parts, which receives and polls only if the test lets it.
func setup(t *testing.T) *fixture {
	t.Helper()
	parts := servicetest.New(t, servicetest.Options{})
	st := &faulty{Store: parts.Store}
	k, err := session.NewHeartbeater(session.Options{
		Store: st, IDs: parts.IDs, Kind: store.ExecutorSession, Name: "one", Logger: parts.Log,
	})
	require.NoError(t, err)
	slow := new(atomic.Bool)
	in, err := New(Options{
		Store:        st,
		Bus:          parts.Bus("one"),
		Clock:        parts.Clock,
		Counts:       parts.Counts,
		Heartbeater:  k,
		Inflight:     inflight.New(1000, slow.Load),
		Wheel:        hold.NewWheel(),
		Load:         func(context.Context, []*inflight.Entry) error { return nil },
		TimerChanged: func(context.Context, bus.Message) {},
		Prefetch:     10,
		Logger:       parts.Log,
		Registerer:   prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	f := &fixture{Intake: in, parts: parts, store: st, slow: slow}
	f.run(t, func(ctx context.Context) { _ = k.Run(ctx) })
	f.epoch, err = k.Wait(t.Context())
	require.NoError(t, err)
	return f
}

// run runs a loop until stop or the end of the test.
func (f *fixture) run(t *testing.T, loop func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { loop(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// fires creates fires that are due in a minute.
func (f *fixture) fires(n int) []timer.Fire {
	return f.parts.Create(
		"a",
		servicetest.Every(time.Now().Add(time.Minute), 0, n, "http://127.0.0.1/")...)
}

// owned returns how many fires the session owns in the store.
func (f *fixture) owned(t *testing.T) int {
	t.Helper()
	fires, err := f.store.Owned(t.Context(), []timer.ID{f.epoch.ID}, 0, timer.NeverMS, 1000)
	require.NoError(t, err)
	return len(fires)
}

// expire expires the session in the store, as another process does when it sees no renewals.
func (f *fixture) expire(t *testing.T) {
	t.Helper()
	live, err := f.store.LiveSessions(t.Context())
	require.NoError(t, err)
	require.Len(t, live, 1)
	expired, err := f.store.ExpireSession(t.Context(), f.epoch.ID, live[0].Renewals)
	require.NoError(t, err)
	require.True(t, expired)
}

func tasks(fires ...timer.Fire) []bus.Message {
	msgs := make([]bus.Message, len(fires))
	for i := range fires {
		msgs[i] = bus.Message{Payload: taskwire.Encode(&fires[i]), Published: time.Now()}
	}
	return msgs
}

func TestReceivedTasksAreClaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		require.Error(t, f.Ready())
		stop := f.run(t, func(ctx context.Context) { require.NoError(t, f.Receive(ctx)) })
		fires := f.fires(20)
		require.NoError(t, f.parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(time.Second)
		require.NoError(t, f.Ready())
		require.Equal(t, 20, f.owned(t))
		require.Equal(t, 20, f.opts.Wheel.Len())
		require.Equal(t, 20, f.opts.Inflight.Len())
		require.Zero(t, testutil.ToFloat64(f.met.tasksWaiting))
		stop()
		require.Error(t, f.Ready())
	})
}

// TestAnExpiredSessionReceivesNothing checks that tasks go to other executors while the store is
// out of reach, that the claims of the session leave the in-flight set once the process knows that
// it has expired, and that the next session receives again.
func TestAnExpiredSessionReceivesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.run(t, func(ctx context.Context) { require.NoError(t, f.Receive(ctx)) })
		f.run(t, f.DropClaims)
		require.NoError(t, f.parts.Dispatch.Publish(t.Context(), f.fires(3)))
		time.Sleep(time.Second)
		require.NoError(t, f.Ready())
		require.Equal(t, 3, f.opts.Inflight.Len())
		f.store.set(nil, true)
		time.Sleep(session.LeaseValidity + time.Second)
		require.NoError(t, f.Ready(), "the service asks for the session, too")
		require.NoError(t, f.parts.Dispatch.Publish(t.Context(), f.fires(2)))
		time.Sleep(time.Second)
		require.Equal(t, 3, f.opts.Inflight.Len(), "nothing is received")
		f.expire(t)
		f.store.set(nil, false)
		time.Sleep(3 * time.Second)
		require.NoError(t, f.Ready())
		require.NotEqual(t, f.epoch.ID, f.opts.Heartbeater.Epoch().ID)
		require.Equal(t, 2, f.opts.Inflight.Len(), "the earlier claims are dropped")
	})
}

// oneAway is a bus with a topic that cannot be subscribed to.
type oneAway struct {
	bus.Subscriber
	away bus.Topic
}

func (b *oneAway) Subscribe(
	ctx context.Context, s bus.Subscription, h bus.Handler,
) (bus.Consumer, error) {
	if s.Topic == b.away {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.Subscriber.Subscribe(ctx, s, h)
}

// TestATopicThatIsAwayHoldsUpNoOther starts to receive while one topic cannot be subscribed to. The
// tasks of another are claimed, until the session is no longer valid, and again with the next one.
func TestATopicThatIsAwayHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.opts.Bus = &oneAway{f.opts.Bus, bus.TasksHigh}
		stop := f.run(t, func(ctx context.Context) { require.NoError(t, f.Receive(ctx)) })
		publish := func(n int) {
			require.NoError(t, f.parts.Dispatch.Publish(t.Context(), f.fires(n)))
			time.Sleep(time.Second)
		}
		publish(3)
		require.Equal(t, 3, f.opts.Inflight.Len())
		require.Error(t, f.Ready())
		f.store.set(nil, true)
		time.Sleep(session.LeaseValidity + time.Second)
		publish(2)
		require.Equal(t, 3, f.opts.Inflight.Len(), "nothing is received")
		backlog, err := f.parts.Bus("two").Backlog(t.Context(), bus.TasksNormal, bus.SubExecutors)
		require.NoError(t, err)
		require.EqualValues(t, 2, backlog)
		f.store.set(nil, false)
		time.Sleep(3 * time.Second)
		require.Equal(t, 5, f.opts.Inflight.Len())
		stop()
	})
}

// TestTasksOfAnExpiredSessionAreRedelivered checks that tasks whose claim began before the session
// expired, and won nothing because of that, are not acknowledged.
func TestTasksOfAnExpiredSessionAreRedelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.store.set(nil, true)
		time.Sleep(session.LeaseValidity)
		f.expire(t)
		arrivals := inflight.Arrivals(f.fires(2), timer.PathSlice)
		_, _, err := f.claim(t.Context(), f.epoch, arrivals, inflight.FromTask)
		require.ErrorIs(t, err, errSessionExpired)
		require.Zero(t, f.opts.Inflight.Len())
		require.Zero(t, f.owned(t))
	})
}

// TestAnUnansweredClaimIsRepeated checks that fires whose claim committed without an answer are in
// flight soon, though their tasks do not come back.
func TestAnUnansweredClaimIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.store.set(func() error { return errLost }, false)
		fires := f.fires(3)
		errs := f.receive(t.Context(), newClaimQueue(1, f.met.tasksWaiting), tasks(fires...), false)
		for _, err := range errs {
			require.ErrorIs(t, err, errLost, "the tasks are redelivered")
		}
		require.Equal(t, 3, f.owned(t))
		require.Zero(t, f.opts.Inflight.Len())
		f.run(t, f.Poll)
		time.Sleep(3 * confirmEvery)
		require.Zero(t, f.opts.Wheel.Len(), "no claim is answered")
		f.store.set(nil, false)
		time.Sleep(2 * confirmEvery)
		require.Equal(t, 3, f.opts.Wheel.Len())
		require.Equal(t, 3, f.opts.Inflight.Len())
	})
}

// TestFiresInFlightAreNotClaimedAgain checks that the look for lost claims leaves out the fires that
// wait in flight for long: it need not wait for room, of which there is none.
func TestFiresInFlightAreNotClaimedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		waiting := newClaimQueue(1, f.met.tasksWaiting)
		fires := f.fires(150)
		for _, err := range f.receive(t.Context(), waiting, tasks(fires...), false) {
			require.NoError(t, err)
		}
		f.slow.Store(true)
		require.Zero(t, f.opts.Inflight.Room())
		time.Sleep(time.Minute + 2*ownedOverdueAfter)
		require.NoError(t, f.confirmOverdue(t.Context(), f.epoch))
		require.Equal(t, 150, f.opts.Inflight.Len())
	})
}

// TestUnconfirmedFiresAreClaimed checks that a fire that left the in-flight set with its owner
// unknown comes back.
func TestUnconfirmedFiresAreClaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.run(t, f.Poll)
		f.Unconfirmed(f.fires(1)[0])
		time.Sleep(2 * confirmEvery)
		require.Equal(t, 1, f.owned(t))
		require.Equal(t, 1, f.opts.Wheel.Len())
	})
}

func TestAPanickingClaimLeavesNothingInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.store.set(func() error { panic("claim") }, false)
		waiting := newClaimQueue(1, f.met.tasksWaiting)
		require.Panics(t, func() {
			f.receive(t.Context(), waiting, tasks(f.fires(2)...), false)
		})
		require.Zero(t, f.opts.Inflight.Len())
		require.Zero(t, testutil.ToFloat64(f.met.tasksWaiting))
		require.Empty(t, waiting.slots, "the slot is free")
	})
}

// TestTasksOfFiresInFlight checks that a task of a claimed fire is done, and that one of a later
// revision is redelivered until the earlier one has left.
func TestTasksOfFiresInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		waiting := newClaimQueue(1, f.met.tasksWaiting)
		fires := f.fires(2)
		batch := append(tasks(fires...), bus.Message{Payload: []byte("no task")})
		errs := f.receive(t.Context(), waiting, batch, false)
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		require.Error(t, errs[2])
		fires[1].Rev++
		errs = f.receive(t.Context(), waiting, tasks(fires...), false)
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], errUnconfirmed)
		require.Equal(t, []int{2}, f.store.claimSizes, "what is in flight is not claimed again")
		require.Equal(t, 2, f.opts.Wheel.Len())
	})
}

// TestCatchUpIsClaimedInSmallBatchesDuringCongestion checks that late starts of on-time fires make
// the claims of the low-priority topic later and smaller.
func TestCatchUpIsClaimedInSmallBatchesDuringCongestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		fires := f.fires(150)
		waiting := newClaimQueue(1, f.met.tasksWaiting)
		f.ObserveStart(congestedLateness)
		require.Zero(t, f.LateRoom())
		began := time.Now()
		for _, err := range f.receive(t.Context(), waiting, tasks(fires...), true) {
			require.NoError(t, err)
		}
		require.Equal(t, []int{minLowBatch, 50}, f.store.claimSizes)
		require.GreaterOrEqual(t, time.Since(began), 3*minCatchUpDelay)
		time.Sleep(congestedFor)
		require.Equal(t, 1000/2-150, f.LateRoom(), "half of the set is for late fires")
	})
}

// TestReadmittedFiresAreDue checks that the fires of an app that wait for its limits are claimed,
// due now, and no others.
func TestReadmittedFiresAreDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		fires := f.fires(3)
		soon := time.Now().Add(time.Minute)
		other := f.parts.Create("b", servicetest.Once(soon, "http://127.0.0.1/"))
		deferred := slices.Concat(fires[:2], other)
		before := timer.ID(1)
		require.NoError(
			t,
			f.store.OpenSession(
				t.Context(),
				store.Session{ID: before, Kind: store.ExecutorSession, Name: "before"},
			),
		)
		won, err := f.store.Claim(t.Context(), before, deferred)
		require.NoError(t, err)
		for i := range won {
			won[i].State = timer.FireDeferred
		}
		_, err = f.parts.Store.Release(t.Context(), before, won, nil)
		require.NoError(t, err)
		require.NoError(t, f.Readmit(t.Context(), fires[0].AppID, "a"))
		require.Equal(t, 2, f.owned(t))
		for _, e := range f.opts.Wheel.Clear() {
			require.LessOrEqual(t, e.Fire.RunAtMS, time.Now().UnixMilli())
			require.Equal(t, timer.PathReadmit, e.Hops(e.Fire.RunAtMS).Path)
		}
	})
}

// TestTheLoadSaysWhetherTopicsKeepUp checks what the poller and the heartbeat are told about tasks.
func TestTheLoadSaysWhetherTopicsKeepUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		p := f.pressure()
		require.True(t, p.Idle)
		require.False(t, p.Behind || p.LowBehind || p.Dispatched)
		require.Equal(t, 1000/inflight.CrowdedShare, p.Room)
		require.Zero(t, f.OldestTaskMS())

		done := f.low.receiving()
		time.Sleep(pickup.Every)
		p = f.pressure()
		require.True(t, p.LowBehind, "a batch has waited since the last poll")
		require.Equal(t, pickup.Every.Milliseconds(), f.OldestTaskMS())
		require.False(t, p.Behind)
		done()
		require.False(t, f.pressure().LowBehind && f.low.age.fresh())

		old := &task{published: time.Now()}
		time.Sleep(2 * time.Second)
		f.onTime.receiving()()
		f.noteTaskAge([]*task{old}, false)
		p = f.pressure()
		require.True(t, p.Behind, "the task was old at its claim")
		require.True(t, p.Dispatched)
		require.False(t, p.Idle)
		require.EqualValues(t, 2000, f.OldestTaskMS())
		require.InDelta(t, 2, testutil.ToFloat64(f.met.taskAge), 0)
		time.Sleep(taskAgeValidFor + time.Millisecond)
		require.Zero(t, f.OldestTaskMS())
		time.Sleep(noTasksAfter)
		p = f.pressure()
		require.True(t, p.Idle)
		require.False(t, p.Behind)
	})
}

// TestTasksAreFreshByTheStoresClock receives tasks at once while the clock of the store is ahead of
// all hosts. They are not old.
func TestTasksAreFreshByTheStoresClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		c := clock.New(time.Now, func(context.Context) (time.Time, error) {
			return time.Now().Add(time.Minute), nil
		})
		require.NoError(t, c.Measure(t.Context()))
		f.opts.Clock = c
		d, err := dispatch.New(dispatch.Options{
			Window: f.parts.Window, Bus: f.parts.Bus("two"), Now: c.Now,
			Logger: f.parts.Log, Registerer: prometheus.NewRegistry(),
		})
		require.NoError(t, err)
		f.run(t, func(ctx context.Context) { require.NoError(t, f.Receive(ctx)) })
		fires := f.fires(3)
		require.NoError(t, d.Publish(t.Context(), fires))
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 3, f.opts.Inflight.Len())
		require.LessOrEqual(t, f.OldestTaskMS(), (100 * time.Millisecond).Milliseconds())
		require.False(t, f.pressure().Behind)
		for _, e := range f.opts.Wheel.Clear() {
			at := c.Now().UnixMilli()
			require.InDelta(t, at, e.Hops(at).DispatchedMS, 100)
		}
	})
}

// TestWaitForValidEpochEndsWithItsConsumer checks that a wait for a valid session ends when the
// consumer closes and ends the context of its handlers. It must not retry without pause.
func TestWaitForValidEpochEndsWithItsConsumer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.store.set(nil, true)
	// In real time, because a loop without pause would stop the clock of a bubble.
	require.Eventually(
		t,
		func() bool { return !f.epoch.Valid() },
		5*session.LeaseValidity,
		10*time.Millisecond,
	)
	closed, stop := context.WithCancel(t.Context())
	stop()
	answer := make(chan error, 1)
	go func() {
		_, err := f.validEpoch(closed)
		answer <- err
	}()
	select {
	case err := <-answer:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(2 * time.Second):
		require.FailNow(t, "still waiting for a valid session")
	}
}
