package memwindow_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
	"github.com/carillon-timer/carillon/libs/window/memwindow"
	"github.com/carillon-timer/carillon/libs/window/windowtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	t.Parallel()
	windowtest.Run(t, func(t *testing.T) windowtest.Instance {
		t.Helper()
		var ahead atomic.Int64
		w := memwindow.New(
			memwindow.Options{
				Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			},
		)
		return windowtest.Instance{
			Window: w,
			Flush:  func(*testing.T) { w.Flush() },
			// Remaining finds the expiry by moving the clock.
			Remaining: func(t *testing.T, s window.Slice) time.Duration {
				t.Helper()
				defer ahead.Store(0)
				there := func(d time.Duration) bool {
					ahead.Store(int64(d))
					p, err := w.Range(t.Context(), s, 0, 1<<60, 1)
					require.NoError(t, err)
					return len(p.Fires) > 0 || p.Generation != ""
				}
				low, high := time.Duration(0), time.Hour
				if !there(low) {
					return 0
				}
				for high-low > time.Millisecond {
					if mid := (low + high) / 2; there(mid) {
						low = mid
					} else {
						high = mid
					}
				}
				return high
			},
		}
	})
}

func fireAt(minute int64, bucket int32, ms int64, id timer.ID) timer.Fire {
	run := minute*timer.MinuteMS + ms
	return timer.Fire{FireID: timer.FireID{Timer: id, DueMS: run}, RunAtMS: run, Bucket: bucket}
}

func held(t *testing.T, w *memwindow.Window, minute int64) int {
	t.Helper()
	p, err := w.Range(t.Context(), window.Slice{Minute: minute}, 0, 1<<60, 1<<30)
	require.NoError(t, err)
	return len(p.Fires)
}

func TestFullWindowDropsUnopenedFarSlicesFirst(t *testing.T) {
	t.Parallel()
	now := timer.MinuteOf(time.Now().UnixMilli())
	w := memwindow.New(memwindow.Options{MaxEntries: 100})
	far := window.Slice{Minute: now + 9}
	generation, err := w.Open(t.Context(), far)
	require.NoError(t, err)
	for m := range int64(10) {
		for i := range int64(10) {
			require.NoError(t, w.Put(t.Context(), []timer.Fire{fireAt(now+m, 0, i, 1)}))
		}
	}
	require.Equal(t, 10, held(t, w, now+9))
	require.NoError(t, w.Put(t.Context(), []timer.Fire{fireAt(now, 0, 50, 1)}))
	require.Equal(t, 11, held(t, w, now))
	require.Equal(t, 10, held(t, w, now+9), "an open one is kept while others can go")
	require.Zero(t, held(t, w, now+8))

	many := make([]timer.Fire, 100)
	for i := range many {
		many[i] = fireAt(now+1, 0, int64(i), 5)
	}
	require.NoError(t, w.Put(t.Context(), many))
	require.Equal(t, 100, held(t, w, now+1))
	page, err := w.Range(t.Context(), far, 0, 1<<60, 10)
	require.NoError(t, err)
	require.NotEqual(t, generation, page.Generation, "its readers see that the generation changed")
}

func TestExpiredSlicesAreDroppedWithoutReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := memwindow.New(memwindow.Options{MaxEntries: 1000})
		for range 300 {
			now := timer.MinuteOf(time.Now().UnixMilli())
			for i := range int64(50) {
				require.NoError(t, w.Put(t.Context(), []timer.Fire{fireAt(now, 0, i, 1)}))
			}
			require.Equal(t, 50, held(t, w, now), "never full: 11 minutes of 50")
			time.Sleep(time.Minute)
		}
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	now := timer.MinuteOf(time.Now().UnixMilli())
	put := func(w *memwindow.Window) error {
		fires := make([]timer.Fire, 1000)
		for i := range fires {
			fires[i] = fireAt(now, 0, int64(i), 1)
		}
		return w.Put(t.Context(), fires)
	}
	with := func(f memwindow.Faults) *memwindow.Window { return memwindow.New(memwindow.Options{Faults: &f}) }

	w := with(memwindow.Faults{Seed: 1, Lose: 0.5})
	require.NoError(t, put(w))
	require.InDelta(t, 500, held(t, w, now), 100)
	again := with(memwindow.Faults{Seed: 1, Lose: 0.5})
	require.NoError(t, put(again))
	require.Equal(t, held(t, w, now), held(t, again, now), "one seed, one result")

	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(put(with(memwindow.Faults{Fail: 1}))))
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(put(with(memwindow.Faults{FailAfter: 1}))))

	w = with(memwindow.Faults{Flush: 1})
	require.NoError(t, put(w))
	require.Zero(t, held(t, w, now))

	w = memwindow.New(memwindow.Options{})
	require.NoError(t, put(w))
	w.SetUnavailable(true)
	require.Error(t, w.Ping(t.Context()))
	w.SetUnavailable(false)
	require.Equal(t, 1000, held(t, w, now))
}

func TestDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := memwindow.New(memwindow.Options{Faults: &memwindow.Faults{MaxDelay: time.Second}})
		start := time.Now()
		for range 100 {
			require.NoError(t, w.Ping(t.Context()))
		}
		require.InDelta(t, 50, time.Since(start).Seconds(), 15)
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		require.Equal(t, timer.CodeUnavailable, timer.CodeOf(w.Ping(ctx)))
	})
}

// TestPutsAndRangesAgreeWithASet puts entries at random, twice and in any order, reads in between,
// and compares with a plain map.
func TestPutsAndRangesAgreeWithASet(t *testing.T) {
	t.Parallel()
	now := timer.MinuteOf(time.Now().UnixMilli())
	r := rand.New(rand.NewPCG(1, 1))
	w := memwindow.New(memwindow.Options{})
	want := map[timer.FireID]timer.Fire{}
	for range 2000 {
		batch := make([]timer.Fire, r.IntN(20))
		for i := range batch {
			batch[i] = fireAt(now, 0, r.Int64N(500), timer.ID(1+r.IntN(20)))
			batch[i].Version = r.Int32N(5)
			want[batch[i].FireID] = batch[i]
		}
		require.NoError(t, w.Put(t.Context(), batch))
		if r.IntN(20) > 0 {
			continue
		}
		p, err := w.Range(t.Context(), window.Slice{Minute: now}, 0, 1<<60, 1<<30)
		require.NoError(t, err)
		require.Len(t, p.Fires, len(want))
		for _, f := range p.Fires {
			require.Equal(t, want[f.FireID], f)
		}
		require.True(
			t,
			slices.IsSortedFunc(
				p.Fires,
				func(a, b timer.Fire) int { return int(a.RunAtMS - b.RunAtMS) },
			),
		)
	}
}

func BenchmarkPutAndRange(b *testing.B) {
	now := timer.MinuteOf(time.Now().UnixMilli())
	batch := make([]timer.Fire, 500)
	for i := range batch {
		batch[i] = fireAt(now, 0, int64(i)*100, timer.ID(i+1))
	}
	w := memwindow.New(memwindow.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Put(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Range(b.Context(), window.Slice{Minute: now}, 0, 1<<60, 1000); err != nil {
			b.Fatal(err)
		}
	}
}
