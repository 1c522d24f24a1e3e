package scheduler_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/scheduler"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// start runs a scheduler until the test ends, or until stop is called.
func start(
	t *testing.T,
	parts *servicetest.Parts,
	name string,
) (svc *scheduler.Service, stop func()) {
	t.Helper()
	return startWith(t, parts, name, func(*scheduler.Options) {})
}

func startWith(
	t *testing.T,
	parts *servicetest.Parts,
	name string,
	change func(*scheduler.Options),
) (svc *scheduler.Service, stop func()) {
	t.Helper()
	opts := scheduler.Options{
		Store:      parts.Store,
		Bus:        parts.Bus(name),
		IDs:        parts.IDs,
		Name:       name,
		Now:        time.Now,
		Logger:     parts.Log,
		Registerer: prometheus.NewRegistry(),
	}
	change(&opts)
	svc, err := scheduler.New(opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return svc, stop
}

// collector collects the messages of a topic.
type collector[T any] struct {
	mu  sync.Mutex
	all []T
}

func (h *collector[T]) add(v T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, v)
}

func (h *collector[T]) list() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

func listen(
	t *testing.T,
	b bus.Subscriber,
	topic bus.Topic,
	sub string,
	handle func(bus.Message) error,
) {
	t.Helper()
	c, err := b.Subscribe(
		t.Context(),
		bus.Subscription{Topic: topic, Name: sub, Concurrency: 1, MaxBatch: 1, Prefetch: 1},
		func(_ context.Context, batch []bus.Message) []error { return []error{handle(batch[0])} },
	)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
}

// collectSlices collects slice messages, and finishes the slices at once if finish is set.
func collectSlices(
	t *testing.T,
	parts *servicetest.Parts,
	finish bool,
) *collector[store.SliceClaim] {
	t.Helper()
	h := new(collector[store.SliceClaim])
	listen(t, parts.Bus("slices"), bus.Slices, bus.SubTriggers, func(m bus.Message) error {
		var s carillonv1.Slice
		require.NoError(t, proto.Unmarshal(m.Payload, &s))
		c := store.SliceClaim{Minute: s.GetMinute(), Bucket: s.GetBucket(), Token: s.GetToken()}
		h.add(c)
		if finish {
			_, err := parts.Store.FinishSlice(t.Context(), c)
			return err
		}
		return nil
	})
	return h
}

func minuteNow() int64 { return timer.MinuteOf(time.Now().UnixMilli()) }

func TestTwoSchedulersDispatchEachMinuteOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		h := collectSlices(t, parts, true)
		first := minuteNow()
		start(t, parts, "one")
		start(t, parts, "two")
		time.Sleep(5*time.Minute + 38*time.Second)
		var minutes []int64
		for _, c := range h.list() {
			require.EqualValues(t, 1, c.Token)
			minutes = append(minutes, c.Minute)
		}
		slices.Sort(minutes)
		want := []int64{first, first + 1, first + 2, first + 3, first + 4, first + 5, first + 6}
		require.Equal(t, want, minutes, "the next minute is dispatched 25 s before it starts")
		at, err := parts.Store.Cursor(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, first+5, at, "the cursor is at the current minute")
	})
}

func TestSliceWithoutTriggerIsReassigned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		h := collectSlices(t, parts, false)
		start(t, parts, "one")
		time.Sleep(20 * time.Second)
		var tokens []int64
		for _, c := range h.list() {
			tokens = append(tokens, c.Token)
		}
		require.Equal(
			t,
			[]int64{1, 2, 2, 3, 3, 4, 4},
			tokens[:7],
			"each time with the next token, and from the second time on to two triggers",
		)
	})
}

func TestOutageOfAllSchedulersIsCaughtUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		h := collectSlices(t, parts, true)
		_, stop := start(t, parts, "one")
		time.Sleep(2 * time.Minute)
		stop()
		down := len(h.list())
		time.Sleep(90 * time.Minute)
		back := minuteNow()
		start(t, parts, "two")
		time.Sleep(20 * time.Second)
		got := h.list()[down:]
		require.Equal(t, back, got[0].Minute, "the current minute comes first")
		require.Greater(t, len(got), 85, "then every minute of the outage")
		at, err := parts.Store.Cursor(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, back, at)
	})
}

// metric returns the value of a counter or gauge.
func metric(t *testing.T, reg *prometheus.Registry, name string) int {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return int(m.GetCounter().GetValue() + m.GetGauge().GetValue()) // it has one of them
		}
	}
	require.Fail(t, "no metric of this name", name)
	return 0
}

// TestCursorLagGrowsWithoutTheBus checks that the metrics show an outage of the bus while it lasts.
func TestCursorLagGrowsWithoutTheBus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		collectSlices(t, parts, true)
		reg := prometheus.NewRegistry()
		svc, _ := startWith(t, parts, "one", func(o *scheduler.Options) { o.Registerer = reg })
		time.Sleep(2 * time.Minute)
		lag, dispatched := "carillon_scheduler_cursor_lag_seconds", "carillon_scheduler_slices_total"
		require.LessOrEqual(t, metric(t, reg, lag), 60)
		before := metric(t, reg, dispatched)
		parts.Broker.Pause()
		time.Sleep(10*time.Minute + 30*time.Second)
		require.GreaterOrEqual(t, metric(t, reg, lag), 540)
		require.Equal(t, before, metric(t, reg, dispatched), "none was sent")
		require.NoError(t, svc.Ready(), "executors find the fires")
		parts.Broker.Resume()
		time.Sleep(time.Minute)
		require.LessOrEqual(t, metric(t, reg, lag), 60)
		require.Greater(t, metric(t, reg, dispatched), before)
	})
}

// countingStore counts reads of minutes and of the cursor.
type countingStore struct {
	scheduler.Store
	freezes, cursors atomic.Int64
}

func (a *countingStore) FreezeMinute(ctx context.Context, minute int64) (int32, error) {
	a.freezes.Add(1)
	return a.Store.FreezeMinute(ctx, minute) //nolint:wrapcheck // as the store does
}

func (a *countingStore) Cursor(ctx context.Context, present int64) (int64, error) {
	a.cursors.Add(1)
	return a.Store.Cursor(ctx, present) //nolint:wrapcheck // as the store does
}

// TestTicksReadOnlyWhatMayHaveChanged checks that a tick does not read again what cannot change:
// the buckets of a minute, and the cursor once it is at the current minute.
func TestTicksReadOnlyWhatMayHaveChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		collectSlices(t, parts, true)
		a := &countingStore{Store: parts.Store}
		_, stop := startWith(t, parts, "one", func(o *scheduler.Options) { o.Store = a })
		time.Sleep(10*time.Minute + time.Millisecond) // 600 ticks
		stop()
		cursor, err := parts.Store.Cursor(t.Context(), timer.MinuteOf(time.Now().UnixMilli()))
		require.NoError(t, err)
		require.GreaterOrEqual(t, cursor, timer.MinuteOf(time.Now().UnixMilli())-1)
		require.LessOrEqual(
			t,
			a.freezes.Load(),
			int64(10*(6+3+2)),
			"every ten seconds for the current minute, and for the next one while it is dispatched ahead",
		)
		require.LessOrEqual(t, a.cursors.Load(), int64(10*10))
	})
}
