package order

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/hold"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight/inflighttest"
)

// fires are the open fires of a timer that is due each millisecond from 1.
type fires struct {
	mu       sync.Mutex
	open     map[int64]bool
	deferred map[int64]bool // those of the open fires that wait for the timer's activation
	oldest   int64          // the oldest open fire that is not deferred
	slow     time.Duration  // how long a read takes
	reads    int
}

func (f *fires) end(due int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, due)
}

// setSlow sets how long a read takes.
func (f *fires) setSlow(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = d
}

// count returns how many reads there were.
func (f *fires) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

func (*fires) Begin(context.Context, timer.ID, []timer.Fire) error { return nil }
func (f *fires) OldestOpen(context.Context) (int64, error)         { return f.oldest, nil }

func (f *fires) OpenAmong(_ context.Context, ids []timer.FireID) (out []timer.Fire, _ error) {
	f.mu.Lock()
	f.reads++
	slow := f.slow
	f.mu.Unlock()
	time.Sleep(slow)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if f.open[id.DueMS] {
			row := timer.Fire{FireID: id, Owner: 1}
			if f.deferred[id.DueMS] {
				row.Owner, row.RunAtMS = 0, timer.DeferredMS
			}
			out = append(out, row)
		}
	}
	return out, nil
}

func (*fires) Before(_ *timer.Timer, due, from, _, _ int64, _ int) (dues []int64, _ error) {
	for d := max(1, from); d < due; d++ {
		dues = append(dues, d)
	}
	return dues, nil
}

func setup(t *testing.T, open ...int64) (*Sequencer, *hold.Wheel, *fires) {
	t.Helper()
	f, w := &fires{open: make(map[int64]bool), oldest: 1}, hold.NewWheel()
	for _, due := range open {
		f.open[due] = true
	}
	now := func(context.Context) (time.Time, error) { return time.Now(), nil }
	alive := []store.Session{{ID: 1, Kind: store.ExecutorSession}}
	q := New(Options{
		Store: f, Planner: f, Inflight: inflight.New(10, inflighttest.NeverSlow), Wheel: w,
		Clock:      clock.New(time.Now, now),
		Claim:      func(context.Context, []timer.Fire) error { return nil },
		Room:       func() int { return 10 },
		Alive:      func() []store.Session { return alive },
		Logger:     zerolog.Nop(),
		Registerer: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { q.Run(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return q, w, f
}

// late returns a late fire of timer 1.
func late(t *testing.T, due int64) *LateFire {
	t.Helper()
	e := &inflight.Entry{Fire: timer.Fire{FireID: timer.FireID{Timer: 1, DueMS: due}}}
	e.Epoch = inflighttest.Epoch(t)
	return &LateFire{Entry: e, Timer: &timer.Timer{ID: 1}, UntilMS: timer.NeverMS, Limit: 100}
}

func TestLateFireWaitsForEarlierOpenOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, w, f := setup(t, 1, 3)
		require.False(t, q.Join(late(t, 3), 0), "not before the store was read")
		time.Sleep(stallAfter / 2)
		require.Zero(t, w.Len(), "another executor has not started the first")
		f.end(1)
		time.Sleep(2 * pollEvery)
		require.Equal(t, 1, w.Len())
		require.Zero(t, testutil.ToFloat64(q.unordered))
	})
}

// TestLateFireWaitsForDeferredOnes checks that a late fire waits for earlier ones that the store
// holds back, although the oldest open fire is younger than these.
func TestLateFireWaitsForDeferredOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, w, f := setup(t, 1, 3)
		f.oldest, f.deferred = 3, map[int64]bool{1: true}
		fire := late(t, 3)
		fire.Deferred = true
		require.False(t, q.Join(fire, 0))
		time.Sleep(stallAfter / 2)
		require.Zero(t, w.Len(), "the store has not released the first")
		f.end(1)
		time.Sleep(2 * pollEvery)
		require.Equal(t, 1, w.Len())
	})
}

// TestLateFiresOfAnInactiveTimerAreDecidedAgain checks that fires of a timer that has become inactive
// do not wait for deferred ones, and that they start in order after the activation.
func TestLateFiresOfAnInactiveTimerAreDecidedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, w, f := setup(t, 1, 2, 3)
		f.deferred = map[int64]bool{1: true}
		second, third := late(t, 2), late(t, 3)
		require.False(t, q.Join(second, 0))
		require.False(t, q.Join(third, 0))
		time.Sleep(2 * pollEvery)
		require.ElementsMatch(t, []*inflight.Entry{second.Entry, third.Entry}, w.Clear())
		require.False(t, second.Ordered || third.Ordered)

		third.Deferred = true // the pause has ended, and the store has not released the first two
		require.False(t, q.Join(third, 0))
		time.Sleep(stallAfter / 2)
		require.Zero(t, w.Len())
		f.end(1)
		f.end(2)
		time.Sleep(2 * pollEvery)
		require.Equal(t, []*inflight.Entry{third.Entry}, w.Clear())
		require.Zero(t, testutil.ToFloat64(q.unordered))
	})
}

func TestLateFiresOfOneTimerStartOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, w, _ := setup(t, 1, 2)
		second, first := late(t, 2), late(t, 1)
		require.False(t, q.Join(second, 0))
		require.False(t, q.Join(first, 0))
		time.Sleep(time.Second)
		require.Equal(t, 1, w.Len())
		require.Equal(t, first.Entry, w.Clear()[0])
		q.Called(first.Entry)
		require.Equal(t, second.Entry, w.Clear()[0])
	})
}

// TestStalledFireStartsOutOfOrder checks that a fire does not wait forever for one without
// progress, and is counted.
func TestStalledFireStartsOutOfOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, w, _ := setup(t, 1, 3)
		require.False(t, q.Join(late(t, 3), 0))
		time.Sleep(stallAfter + 2*pollEvery)
		require.Equal(t, 1, w.Len())
		require.InDelta(t, 1, testutil.ToFloat64(q.unordered), 0)
	})
}

// TestLateFireWaitsForOneInFlight checks that a fire waits for an earlier one in flight here, however
// long that waits for a worker.
func TestLateFireWaitsForOneInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, w, _ := setup(t, 1, 3)
		first := []inflight.Arrival{{Fire: timer.Fire{FireID: timer.FireID{Timer: 1, DueMS: 1}}}}
		reserved, _, err := q.opts.Inflight.Reserve(
			t.Context(), inflighttest.Epoch(t), first, inflight.FromTask, time.Now().UnixMilli())
		require.NoError(t, err)
		require.False(t, q.Join(late(t, 3), 0))
		time.Sleep(2 * stallAfter)
		require.Zero(t, w.Len())
		q.opts.Inflight.Remove(reserved...) // it is lost
		time.Sleep(stallAfter + 2*pollEvery)
		require.Equal(t, 1, w.Len())
		require.InDelta(t, 1, testutil.ToFloat64(q.unordered), 0)
	})
}

// TestPollsTakeAPartOfTheTime checks that a slow store is not asked all the time, although each call
// and each arrival wakes the sequencer, and that a fire starts soon after the answer.
func TestPollsTakeAPartOfTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, w, f := setup(t, 1, 3)
		f.setSlow(pollEvery)
		require.False(t, q.Join(late(t, 3), 0))
		for range 18 {
			time.Sleep(pollEvery)
			q.signal()
		}
		require.InDelta(t, 6, f.count(), 1)
		require.Zero(t, w.Len())
		f.end(1)
		time.Sleep((1 + restShare) * pollEvery)
		require.Equal(t, 1, w.Len())

		f.setSlow(0) // a store that answers at once is asked at each wake
		time.Sleep((1 + restShare) * pollEvery)
		q.Passed(timer.FireID{Timer: 1, DueMS: 3})
		before := f.count()
		for due := range int64(5) {
			require.False(t, q.Join(late(t, 10+due), 0))
			time.Sleep(2 * gatherFor)
		}
		require.Equal(t, 5, f.count()-before)
	})
}

// TestUnreadSequencesDoNotStall lets more timers wait than one poll reads, until others have called
// the earlier fires just before they would count as stalled. What each waits for is read meanwhile.
// Those that the next poll leaves out wait until they are read again, and no fire starts out of order.
func TestUnreadSequencesDoNotStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timers = 3 * readMax / frontMax
		open := make([]int64, frontMax)
		for i := range open {
			open[i] = int64(i) + 1
		}
		q, w, f := setup(t, open...)
		for id := range timer.ID(timers) {
			l := late(t, frontMax+1)
			l.Fire.Timer, l.Timer = id+1, &timer.Timer{ID: id + 1}
			f.end(l.Fire.DueMS) // not counted as one that others wait for
			require.False(t, q.Join(l, 0))
		}
		time.Sleep(stallAfter / 2)
		q.mu.Lock()
		for id, seq := range q.sequences {
			require.EqualValues(t, frontMax+1, seq.knownMS, id)
		}
		q.mu.Unlock()
		time.Sleep(stallAfter/2 - pollEvery/2)
		require.Zero(t, w.Len())
		for _, due := range open {
			f.end(due)
		}
		time.Sleep(time.Minute)
		require.Equal(t, timers, w.Len())
		require.Zero(t, testutil.ToFloat64(q.unordered))
	})
}

func TestCloseReturnsTheWaitingFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, w, _ := setup(t, 1, 3)
		require.False(t, q.Join(late(t, 3), 0))
		require.Len(t, q.Close(), 1)
		require.False(t, q.Join(late(t, 4), 0))
		require.Equal(t, 1, w.Len(), "the drain empties the wheel")
	})
}
