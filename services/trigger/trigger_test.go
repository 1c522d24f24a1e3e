package trigger_test

import (
	"context"
	"errors"
	"maps"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
	"github.com/carillon-timer/carillon/libs/window/memwindow"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/servicetest"
	"github.com/carillon-timer/carillon/services/trigger"

	"google.golang.org/protobuf/proto"
)

// gate is passed before every outside action of a process. A closed gate freezes the process.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

func (g *gate) pass() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

// loadSlice reads fires of the slice of a test.
type loadSlice func(
	ctx context.Context, after store.Position, untilMS int64, limit int,
) ([]timer.Fire, error)

// process is a trigger whose tasks are counted, not published.
type process struct {
	trigger.Store
	*gate
	svc      *trigger.Service
	reg      *prometheus.Registry
	cut      atomic.Bool // renewals fail
	away     atomic.Bool // the bus does not confirm
	mu       sync.Mutex
	load     loadSlice // instead of the store's; nil: the store's
	tasks    map[timer.FireID]int
	late     int
	finished map[bool]int
	stop     func()
}

func (p *process) AcquireSlice(
	ctx context.Context,
	c store.SliceClaim,
	h timer.ID,
	l time.Duration,
	free bool,
) (bool, error) {
	p.pass()
	return p.Store.AcquireSlice(ctx, c, h, l, free)
}

func (p *process) RenewSlices(
	ctx context.Context,
	h timer.ID,
	cs []store.SliceClaim,
	l time.Duration,
) ([]store.SliceClaim, error) {
	p.pass()
	if p.cut.Load() {
		return nil, errors.New("connection lost")
	}
	return p.Store.RenewSlices(ctx, h, cs, l)
}

func (p *process) FinishSlice(ctx context.Context, c store.SliceClaim) (bool, error) {
	p.pass()
	done, err := p.Store.FinishSlice(ctx, c)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished[done]++
	return done, err
}

func (p *process) LoadSlice(
	ctx context.Context,
	m int64,
	b int32,
	after store.Position,
	until int64,
	n int,
) ([]timer.Fire, error) {
	p.pass()
	p.mu.Lock()
	load := p.load
	p.mu.Unlock()
	if load != nil {
		return load(ctx, after, until, n)
	}
	return p.Store.LoadSlice(ctx, m, b, after, until, n)
}

func (p *process) loadBy(load loadSlice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.load = load
}

func (p *process) Publish(_ context.Context, fires []timer.Fire) error {
	p.pass()
	if p.away.Load() {
		return errors.New("the bus is unavailable")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now().UnixMilli()
	for _, f := range fires {
		p.tasks[f.FireID]++
		if f.RunAtMS < now {
			p.late++
		}
	}
	return nil
}

func (p *process) PublishLow(ctx context.Context, fires []timer.Fire) error {
	return p.Publish(ctx, fires)
}

func (p *process) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tasks)
}

// seen returns the published tasks, how many of them were late, and how many slices this trigger
// finished.
func (p *process) seen() (tasks map[timer.FireID]int, late, finished int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.tasks), p.late, p.finished[true]
}

// counter returns the value of a counter.
func (p *process) counter(t *testing.T, name string) float64 {
	t.Helper()
	families, err := p.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.Fail(t, "no metric "+name)
	return 0
}

func start(t *testing.T, parts *servicetest.Parts, name string) *process {
	t.Helper()
	return startWith(t, parts, name, parts.Window)
}

func startWith(
	t *testing.T,
	parts *servicetest.Parts,
	name string,
	w window.Window,
) *process {
	t.Helper()
	p := &process{
		Store:    parts.Store,
		gate:     newGate(),
		reg:      prometheus.NewRegistry(),
		tasks:    make(map[timer.FireID]int),
		finished: make(map[bool]int),
	}
	svc, err := trigger.New(trigger.Options{
		Store:      p,
		Bus:        parts.Bus(name),
		Window:     w,
		Dispatch:   p,
		Now:        time.Now,
		Holder:     parts.IDs.Next(),
		Logger:     parts.Log,
		Registerer: p.reg,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx) }()
	p.svc = svc
	p.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(p.stop)
	require.Eventually(
		t,
		func() bool { return svc.Ready() == nil },
		30*time.Second,
		time.Millisecond,
	)
	return p
}

// hand dispatches one minute, as a scheduler does.
func hand(
	t *testing.T,
	parts *servicetest.Parts,
	b bus.Publisher,
	minute int64,
) []store.SliceClaim {
	t.Helper()
	n, err := parts.Store.FreezeMinute(t.Context(), minute)
	require.NoError(t, err)
	claims, err := parts.Store.ClaimSlices(t.Context(), minute, n, 5*time.Second, 256)
	require.NoError(t, err)
	for _, c := range claims {
		payload, err := proto.Marshal(
			&carillonv1.Slice{Minute: c.Minute, Bucket: c.Bucket, Token: c.Token},
		)
		require.NoError(t, err)
		require.NoError(t, b.Publish(t.Context(), bus.Slices, bus.Message{Payload: payload}))
	}
	return claims
}

func onceEach(t *testing.T, minute int64, n int) []timer.Definition {
	t.Helper()
	defs := make([]timer.Definition, n)
	for i := range defs {
		defs[i] = servicetest.Once(
			time.UnixMilli(minute*timer.MinuteMS+int64(i)*timer.MinuteMS/int64(n)),
			"http://127.0.0.1/",
		)
	}
	return defs
}

func TestSliceIsPublishedDispatchLeadAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		p := start(t, parts, "a")
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		parts.Create("a", onceEach(t, minute, 60)...)
		hand(t, parts, parts.Bus("s"), minute)
		time.Sleep(time.Until(time.UnixMilli(minute * timer.MinuteMS)))
		require.InDelta(t, 3, p.count(), 1, "a dispatch lead of 2 s")
		time.Sleep(time.Minute)
		tasks, late, finished := p.seen()
		require.Len(t, tasks, 60)
		require.Zero(t, late)
		require.Equal(t, 1, finished)
	})
}

func TestAdditionsAfterTheLoadComeFromTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		p := start(t, parts, "a")
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		hand(t, parts, parts.Bus("s"), minute)
		time.Sleep(time.Until(time.UnixMilli(minute*timer.MinuteMS + 10_000)))
		fires := parts.Create(
			"a",
			servicetest.Once(time.Now().Add(20*time.Second), "http://127.0.0.1/"),
		)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(25 * time.Second)
		tasks, late, _ := p.seen()
		require.Equal(t, map[timer.FireID]int{fires[0].FireID: 1}, tasks)
		require.Zero(t, late)
	})
}

func TestFlushedWindowIsLoadedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		p := start(t, parts, "a")
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		hand(t, parts, parts.Bus("s"), minute)
		time.Sleep(time.Until(time.UnixMilli(minute*timer.MinuteMS + 10_000)))
		fires := parts.Create(
			"a",
			servicetest.Once(time.Now().Add(20*time.Second), "http://127.0.0.1/"),
		)
		parts.Dispatch.Committed(t.Context(), fires)
		parts.Window.Flush()
		time.Sleep(25 * time.Second)
		tasks, late, _ := p.seen()
		require.Equal(t, 1, tasks[fires[0].FireID])
		require.Zero(t, late)
	})
}

// TestLargeSliceIsLoadedFromASlowStore checks a slice whose load takes longer than a page may. Its
// tasks are on time.
func TestLargeSliceIsLoadedFromASlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		parts := servicetest.New(t, servicetest.Options{})
		p := start(t, parts, "a")
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		fires := make([]timer.Fire, n)
		for i := range fires {
			at := minute*timer.MinuteMS + int64(i)*timer.MinuteMS/n
			fires[i] = timer.Fire{
				FireID:  timer.FireID{Timer: timer.ID(i + 1), DueMS: at},
				RunAtMS: at,
				AppID:   int64(i),
			}
		}
		p.loadBy(func(
			ctx context.Context, after store.Position, untilMS int64, limit int,
		) (page []timer.Fire, err error) {
			select {
			case <-time.After(600 * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			from := sort.Search(n, func(i int) bool {
				return fires[i].RunAtMS > after.RunAtMS || fires[i].RunAtMS == after.RunAtMS &&
					timer.CompareFireIDs(fires[i].FireID, after.FireID) > 0
			})
			for _, f := range fires[from:min(n, from+limit)] {
				if f.RunAtMS <= untilMS {
					page = append(page, f)
				}
			}
			return page, nil
		})
		hand(t, parts, parts.Bus("s"), minute)
		time.Sleep(time.Until(time.UnixMilli((minute + 1) * timer.MinuteMS)))
		tasks, late, finished := p.seen()
		require.Len(t, tasks, n)
		require.Zero(t, late)
		require.Equal(t, 1, finished)
	})
}

// TestLoadedFiresDoNotWaitForAReload checks a window that is flushed while the store answers only
// small questions in time. What was loaded before, and what is added, is on time, and each once. Once
// the store answers all, the window is used again.
func TestLoadedFiresDoNotWaitForAReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		p := start(t, parts, "a")
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		parts.Create("a", onceEach(t, minute, 60)...)
		hand(t, parts, parts.Bus("s"), minute)
		begin := time.UnixMilli(minute * timer.MinuteMS)
		add := func(second int) {
			t.Helper()
			time.Sleep(time.Until(begin.Add(time.Duration(second) * time.Second)))
			added := parts.Create("a", servicetest.Once(
				time.Now().Add(7*time.Second+time.Millisecond), "http://127.0.0.1/",
			))
			parts.Dispatch.Committed(t.Context(), added)
		}
		time.Sleep(time.Until(begin.Add(10 * time.Second)))
		var hung atomic.Int64
		answer := func(large func(ctx context.Context) error) {
			p.loadBy(func(
				ctx context.Context, after store.Position, untilMS int64, limit int,
			) ([]timer.Fire, error) {
				if untilMS-after.RunAtMS > (4 * time.Second).Milliseconds() {
					if err := large(ctx); err != nil {
						return nil, err
					}
				}
				return parts.Store.LoadSlice(ctx, minute, 0, after, untilMS, limit)
			})
		}
		hang := func(ctx context.Context) error {
			hung.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}
		answer(hang)
		parts.Window.Flush()
		add(15)
		time.Sleep(time.Until(begin.Add(30 * time.Second)))
		require.EqualValues(t, 2, hung.Load(), "the second time 2 s after the first one's 10 s")
		answer(func(context.Context) error {
			time.Sleep(3 * time.Second)
			return nil
		})
		add(40)
		require.InDelta(t, 2, p.counter(t, "carillon_trigger_loads_total"), 0)
		p.loadBy(func(context.Context, store.Position, int64, int) ([]timer.Fire, error) {
			t.Error("the window has what is added")
			return nil, nil
		})
		time.Sleep(time.Until(begin.Add(52 * time.Second)))
		answer(hang)
		parts.Window.Flush()
		time.Sleep(time.Until(begin.Add(time.Minute)))
		require.EqualValues(t, 3, hung.Load())
		tasks, late, finished := p.seen()
		require.Len(t, tasks, 62)
		for id, times := range tasks {
			require.Equal(t, 1, times, id)
		}
		require.Zero(t, late)
		require.Equal(t, 1, finished, "a reload does not hold up the end of the slice")
	})
}

// evicting is a window that keeps no slice for long, such as a Redis that evicts what expires next.
type evicting struct{ *memwindow.Window }

func (w evicting) Open(ctx context.Context, s window.Slice) (string, error) {
	defer w.Flush()
	return w.Window.Open(ctx, s)
}

// TestWindowThatKeepsNothingIsLikeNone checks a window that has lost the slice at each poll. Not each
// poll loads the slice, and additions are on time.
func TestWindowThatKeepsNothingIsLikeNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		p := startWith(t, parts, "a", evicting{parts.Window})
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		parts.Create("a", onceEach(t, minute, 60)...)
		hand(t, parts, parts.Bus("s"), minute)
		begin := time.UnixMilli(minute * timer.MinuteMS)
		time.Sleep(time.Until(begin.Add(10 * time.Second)))
		fires := parts.Create(
			"a",
			servicetest.Once(begin.Add(30*time.Second+time.Millisecond), "http://127.0.0.1/"),
		)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(time.Until(begin.Add(time.Minute)))
		tasks, late, finished := p.seen()
		require.Len(t, tasks, 61)
		require.Zero(t, late)
		require.Equal(t, 1, finished)
		const opened = 120 / 2 // times, in the two minutes that the slice is held
		require.LessOrEqual(t, p.counter(t, "carillon_trigger_loads_total"), opened+1.0)
	})
}

// closed is a window that does not answer.
type closed struct{ *memwindow.Window }

func (closed) Open(context.Context, window.Slice) (string, error) {
	return "", errors.New("the window is unavailable")
}

// TestUnavailableWindowCausesNoLoads checks that a slice is loaded once while the window is
// unavailable, and that additions are on time.
func TestUnavailableWindowCausesNoLoads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		p := startWith(t, parts, "a", closed{parts.Window})
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		hand(t, parts, parts.Bus("s"), minute)
		begin := time.UnixMilli(minute * timer.MinuteMS)
		time.Sleep(time.Until(begin.Add(10 * time.Second)))
		parts.Create("a", servicetest.Once(begin.Add(30*time.Second), "http://127.0.0.1/"))
		time.Sleep(time.Until(begin.Add(time.Minute)))
		tasks, late, finished := p.seen()
		require.Len(t, tasks, 1)
		require.Zero(t, late)
		require.Equal(t, 1, finished)
		require.InDelta(t, 1, p.counter(t, "carillon_trigger_loads_total"), 0)
	})
}

// TestSliceOfALongPastMinuteIsLoadedOnce checks a slice whose entries have expired in the window. That
// is no flush of the window.
func TestSliceOfALongPastMinuteIsLoadedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		parts.Create("a", onceEach(t, minute, 60)...)
		time.Sleep(20 * time.Minute)
		p := start(t, parts, "a")
		hand(t, parts, parts.Bus("s"), minute)
		time.Sleep(time.Second)
		tasks, _, finished := p.seen()
		require.Len(t, tasks, 60)
		require.Equal(t, 1, finished)
		require.InDelta(t, 1, p.counter(t, "carillon_trigger_loads_total"), 0)
		require.Zero(t, p.counter(t, "carillon_trigger_window_resets_total"))
	})
}

// TestStaleTokenOfAPausedTriggerChangesNothing checks a trigger that is paused past its lease. When
// it continues, another trigger has the slice, and its own FinishSlice changes no row.
func TestStaleTokenOfAPausedTriggerChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		paused := start(t, parts, "paused")
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		parts.Create("a", onceEach(t, minute, 60)...)
		b := parts.Bus("s")
		first := hand(t, parts, b, minute)
		require.Len(t, first, 1)
		time.Sleep(time.Until(time.UnixMilli(minute*timer.MinuteMS + 20_000)))
		before := paused.count()
		require.Positive(t, before)
		require.Empty(t, hand(t, parts, b, minute), "a renewed lease is not claimed")

		paused.freeze()
		other := start(t, parts, "other")
		// The broker has not noticed, and may deliver messages to the frozen process.
		for range 20 {
			time.Sleep(time.Second)
			hand(t, parts, b, minute)
		}
		require.Positive(t, other.count(), "the other trigger continued the slice")
		done, err := parts.Store.FinishSlice(t.Context(), first[0])
		require.NoError(t, err)
		require.False(t, done, "FinishSlice with a stale token")

		paused.thaw()
		time.Sleep(time.Minute)
		union := make(map[timer.FireID]bool)
		for p, want := range map[*process]int{paused: 0, other: 1} {
			tasks, _, finished := p.seen()
			require.Equal(t, want, finished)
			for id := range tasks {
				union[id] = true
			}
		}
		require.Len(t, union, 60)
	})
}

// TestTakenOverSliceLeavesOutClaimedFires checks a trigger that takes over a slice within its
// minute. It publishes what is still open, and nothing that the window has besides.
func TestTakenOverSliceLeavesOutClaimedFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		first := start(t, parts, "first")
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		fires := parts.Create("a", onceEach(t, minute, 60)...)
		parts.Dispatch.Committed(t.Context(), fires)
		b := parts.Bus("s")
		hand(t, parts, b, minute)
		begin := time.UnixMilli(minute * timer.MinuteMS)
		time.Sleep(time.Until(begin.Add(30 * time.Second)))
		first.stop()
		given, _, _ := first.seen()
		require.Greater(t, len(given), 30)
		executor := parts.IDs.Next()
		require.NoError(t, parts.Store.OpenSession(
			t.Context(), store.Session{ID: executor, Kind: store.ExecutorSession, Name: "one"},
		))
		won, err := parts.Store.Claim(t.Context(), executor, fires[:len(given)-1])
		require.NoError(t, err)
		require.Len(t, won, len(given)-1)

		second := start(t, parts, "second")
		for range 10 {
			hand(t, parts, b, minute)
			time.Sleep(time.Second)
		}
		added := parts.Create(
			"a", servicetest.Once(begin.Add(50*time.Second), "http://127.0.0.1/"),
		)
		parts.Dispatch.Committed(t.Context(), added)
		time.Sleep(time.Minute)
		want := map[timer.FireID]int{added[0].FireID: 1}
		for i := range fires[len(won):] {
			want[fires[len(won)+i].FireID] = 1
		}
		tasks, _, finished := second.seen()
		require.Equal(t, want, tasks)
		require.Equal(t, 1, finished)
	})
}

// TestFiresClaimedDuringBusOutageAreNotPublished checks that unpublished fires are published once
// the bus recovers, except those that executors claimed meanwhile.
func TestFiresClaimedDuringBusOutageAreNotPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		p := start(t, parts, "one")
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		fires := parts.Create("a", onceEach(t, minute, 60)...)
		hand(t, parts, parts.Bus("s"), minute)
		begin := time.UnixMilli(minute * timer.MinuteMS)
		time.Sleep(time.Until(begin.Add(9500 * time.Millisecond)))
		p.away.Store(true)
		time.Sleep(20 * time.Second)
		before := p.count()
		require.Equal(t, 12, before)
		executor := parts.IDs.Next()
		require.NoError(
			t,
			parts.Store.OpenSession(
				t.Context(),
				store.Session{ID: executor, Kind: store.ExecutorSession, Name: "one"},
			),
		)
		won, err := parts.Store.Claim(t.Context(), executor, fires[12:30])
		require.NoError(t, err)
		require.Len(t, won, 18)
		// It has another revision now.
		given, err := parts.Store.Release(t.Context(), executor, won[17:], nil)
		require.NoError(t, err)
		require.Len(t, given, 1)
		time.Sleep(time.Second)
		p.away.Store(false)
		time.Sleep(time.Second)
		tasks, _, _ := p.seen()
		require.Len(t, tasks, 12+4, "the fires that became due, and none that were claimed")
		time.Sleep(time.Minute)
		tasks, _, finished := p.seen()
		require.Len(t, tasks, 42)
		require.Equal(t, 1, finished)
	})
}

// TestSliceGoesOnWhenItsLeaseIsRenewedLate checks a trigger whose renewals fail. It publishes
// nothing after the end of its lease. It continues with the next successful renewal, without
// waiting for a scheduler, if nobody took over the slice.
func TestSliceGoesOnWhenItsLeaseIsRenewedLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		p := start(t, parts, "one")
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		parts.Create("a", onceEach(t, minute, 60)...)
		require.Len(t, hand(t, parts, parts.Bus("s"), minute), 1)
		begin := time.UnixMilli(minute * timer.MinuteMS)
		time.Sleep(time.Until(begin.Add(20 * time.Second)))
		p.cut.Store(true)
		time.Sleep(6 * time.Second)
		before := p.count()
		require.Less(t, before, 30)
		time.Sleep(10 * time.Second)
		require.Equal(t, before, p.count(), "published without a valid lease")
		p.cut.Store(false)
		time.Sleep(1500 * time.Millisecond)
		require.Greater(t, p.count(), 37)
		time.Sleep(time.Minute)
		tasks, _, finished := p.seen()
		require.Len(t, tasks, 60)
		require.Equal(t, 1, finished)
	})
}

// TestBusyMinuteIsSharedByTwoTriggers checks that a minute of 50,000 fires has several buckets, and
// that two triggers share them.
func TestBusyMinuteIsSharedByTwoTriggers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		parts := servicetest.New(t, servicetest.Options{PerBucket: 2000})
		ctx, cancel := context.WithCancel(t.Context())
		flushed := make(chan struct{})
		go func() {
			defer close(flushed)
			_ = expansion.FlushCounts(
				ctx,
				parts.Counts,
				parts.Store,
				time.Now,
				time.Hour,
				parts.Log,
			)
		}()
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 2
		for defs := onceEach(t, minute, n); len(defs) > 0; defs = defs[2500:] {
			parts.Create("a", defs[:2500]...)
			time.Sleep(2 * time.Second)
		}
		cancel()
		<-flushed
		two := []*process{start(t, parts, "one"), start(t, parts, "two")}
		claims := hand(t, parts, parts.Bus("s"), minute)
		require.GreaterOrEqual(t, len(claims), 4)
		time.Sleep(time.Until(time.UnixMilli((minute + 1) * timer.MinuteMS)))
		union := make(map[timer.FireID]bool)
		for _, p := range two {
			tasks, _, finished := p.seen()
			require.Positive(t, finished, "each trigger has some")
			for id, times := range tasks {
				require.Equal(t, 1, times)
				union[id] = true
			}
		}
		require.Len(t, union, n)
	})
}

func TestUnreadableSliceIsADeadLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		start(t, parts, "a")
		b := parts.Bus("s")
		require.NoError(t, b.Setup(t.Context(), []bus.TopicSpec{
			{Topic: bus.TasksDead, Subscriptions: []string{"listeners"}},
		}))
		require.NoError(t, b.Publish(t.Context(), bus.Slices, bus.Message{Payload: []byte("junk")}))
		time.Sleep(time.Second)
		dead, err := b.Backlog(t.Context(), bus.TasksDead, "listeners")
		require.NoError(t, err)
		require.EqualValues(t, 1, dead)
		left, err := b.Backlog(t.Context(), bus.Slices, bus.SubTriggers)
		require.NoError(t, err)
		require.Zero(t, left)
	})
}
