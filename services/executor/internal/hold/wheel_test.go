package hold

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

func entry(app int64, id timer.ID, run time.Time) *inflight.Entry {
	return &inflight.Entry{Fire: timer.Fire{
		FireID: timer.FireID{
			Timer: id,
			DueMS: run.UnixMilli(),
		},
		RunAtMS: run.UnixMilli(),
		AppID:   app,
	}}
}

func steadyNow() (time.Time, bool) { return time.Now(), true }

func TestP1WheelIsNeverEarlyAndOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWheel()
		start := time.Now().Add(300 * time.Microsecond) // not at a whole millisecond
		for i := range 50 {
			w.Add(entry(1, timer.ID(i+1), start.Add(time.Duration(50-i)*37*time.Millisecond)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := 0
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(ctx, steadyNow, func(es []*inflight.Entry) {
				for _, e := range es {
					late := time.Since(time.UnixMilli(e.Fire.RunAtMS))
					if late < 0 || late > time.Millisecond {
						t.Errorf("late by %v", late)
					}
					got++
				}
			})
		}()
		time.Sleep(3 * time.Second)
		cancel()
		<-ended
		require.Equal(t, 50, got)
		require.Zero(t, w.Len())
	})
}

func TestWheelWakesForAnEarlierEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWheel()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		var at []time.Duration
		begin := time.Now()
		go func() {
			defer close(ended)
			w.Run(ctx, steadyNow, func([]*inflight.Entry) { at = append(at, time.Since(begin)) })
		}()
		w.Add(entry(1, 1, begin.Add(90*time.Millisecond)))
		synctest.Wait()
		w.Add(entry(1, 2, begin.Add(10*time.Millisecond)))
		time.Sleep(time.Second)
		cancel()
		<-ended
		require.Equal(t, []time.Duration{10 * time.Millisecond, 90 * time.Millisecond}, at)
	})
}

func TestWheelStopsWhileClockIsUnsteady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWheel()
		var steady atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		var n atomic.Int64
		w.Add(entry(1, 1, time.Now()))
		go func() {
			defer close(ended)
			w.Run(
				ctx,
				func() (time.Time, bool) { return time.Now(), steady.Load() },
				func(es []*inflight.Entry) { n.Add(int64(len(es))) },
			)
		}()
		time.Sleep(time.Second)
		require.Zero(t, n.Load())
		steady.Store(true)
		time.Sleep(time.Second)
		require.EqualValues(t, 1, n.Load())
		cancel()
		<-ended
	})
}

func TestBurstIsOneSlot(t *testing.T) {
	t.Parallel()
	w := NewWheel()
	at := time.UnixMilli(1_000_000)
	for i := range 10_000 {
		w.Add(entry(1, timer.ID(i+1), at))
	}
	require.Len(t, w.order, 1)
	due, next := w.pop(at.UnixMilli() - 1)
	require.Empty(t, due)
	require.Equal(t, at.UnixMilli(), next)
	due, next = w.pop(at.UnixMilli())
	require.Len(t, due, 10_000)
	require.Zero(t, next)
}

func BenchmarkWheelAddPop(b *testing.B) {
	w := NewWheel()
	es := make([]*inflight.Entry, 10_000)
	for i := range es {
		es[i] = entry(1, timer.ID(i+1), time.UnixMilli(int64(i%2000)))
	}
	for b.Loop() {
		w.Add(es...)
		w.pop(2000)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(es)), "ns/fire")
}

// TestWheelAdvancesTheSoonest checks that only entries of an app that wait for its calls are
// advanced, the soonest first, and that those claimed ahead of their run time may run then.
func TestWheelAdvancesTheSoonest(t *testing.T) {
	t.Parallel()
	const toGiveBack = 101
	w, now := NewWheel(), time.Now()
	add := func(app int64, id timer.ID, after time.Duration, waits timer.Wait) {
		e := entry(app, id, now.Add(after))
		e.Fire.WaitedFor, e.Fire.WaitingSinceMS = waits, 1
		e.ToGiveBack = id == toGiveBack
		w.Add(e)
	}
	for i := range 20 {
		after := time.Duration(20-i) * time.Second
		add(int64(1+i%2), timer.ID(i+1), after, timer.WaitLimits)
	}
	add(1, 99, 20*time.Millisecond, timer.WaitWorker)
	add(1, 100, time.Second, timer.WaitBreaker)
	add(1, toGiveBack, time.Second, timer.WaitLimits)
	add(3, 102, time.Second, timer.WaitBreaker)
	chosen := 0
	advance := func(app int64, most int) int {
		return w.Advance(now.UnixMilli(), app, most, func(*inflight.Entry) { chosen++ })
	}
	require.Zero(t, advance(3, 3))
	require.Equal(t, 3, advance(1, 3))
	require.Equal(t, 24, w.Len())
	due, _ := w.pop(now.UnixMilli())
	require.Len(t, due, 3)
	for i, e := range due {
		require.Equal(t, timer.ID(19-2*i), e.Fire.Timer)
	}
	require.Equal(t, 7, advance(1, 100))
	require.Equal(t, 21, w.Len())
	require.Equal(t, 10, advance(2, 100))
	w.pop(now.Add(time.Minute).UnixMilli())
	require.Empty(t, w.calls)
	require.Equal(t, 20, chosen)
}
