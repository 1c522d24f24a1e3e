package dispatch_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
	"github.com/carillon-timer/carillon/libs/window/memwindow"
)

// topics is a publisher that records messages.
type topics struct {
	mu    sync.Mutex
	tasks map[bus.Topic][]timer.Fire
	err   error
	hang  bool
}

func (p *topics) setUnavailable(unavailable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hang = unavailable
}

func (p *topics) Publish(ctx context.Context, topic bus.Topic, msgs ...bus.Message) error {
	p.mu.Lock()
	hang := p.hang
	p.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range msgs {
		f, err := taskwire.Decode(m.Payload)
		if err != nil {
			return err
		}
		p.tasks[topic] = append(p.tasks[topic], f)
	}
	return p.err
}

// published returns the published fires so far.
func (p *topics) published() map[bus.Topic][]timer.Fire {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.tasks)
}

func setup(t *testing.T) (*dispatch.Dispatcher, *memwindow.Window, *topics) {
	t.Helper()
	w := memwindow.New(memwindow.Options{Now: time.Now})
	b := &topics{tasks: make(map[bus.Topic][]timer.Fire)}
	d, err := dispatch.New(dispatch.Options{
		Window:     w,
		Bus:        b,
		Now:        time.Now,
		Logger:     zerolog.Nop(),
		Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	return d, w, b
}

func at(offset time.Duration) timer.Fire {
	run := time.Now().Add(offset).UnixMilli()
	return timer.Fire{
		FireID:  timer.FireID{Timer: 1, DueMS: run},
		RunAtMS: run,
		AppID:   2,
		Version: 1,
	}
}

func inWindow(t *testing.T, w *memwindow.Window, f timer.Fire) bool {
	t.Helper()
	page, err := w.Range(t.Context(), window.SliceOf(&f), f.RunAtMS-1, f.RunAtMS, 10)
	require.NoError(t, err)
	return len(page.Fires) == 1
}

func TestPriorityTopics(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		offset time.Duration
		topic  bus.Topic
		mark   bool
	}{
		"long past":                          {-time.Minute, bus.TasksLow, false},
		"just past":                          {-time.Second, bus.TasksNormal, false},
		"within the lead":                    {time.Second, bus.TasksNormal, false},
		"a window entry might come too late": {4 * time.Second, bus.TasksNormal, true},
		"in good time":                       {10 * time.Second, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d, w, b := setup(t)
				f := at(c.offset)
				d.Committed(t.Context(), []timer.Fire{f})
				require.Equal(t, c.mark, inWindow(t, w, f))
				if c.topic == "" {
					require.Empty(t, b.published())
				} else {
					require.Equal(t, map[bus.Topic][]timer.Fire{c.topic: {f}}, b.published())
				}
			})
		})
	}
}

// TestPublishLowChangesOnlyTheTopic checks that tasks on the low-priority topic have unchanged
// fires.
func TestPublishLowChangesOnlyTheTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, _, b := setup(t)
		normal, high := at(time.Second), at(time.Second)
		high.PriorityLevel = timer.LevelHigh
		require.NoError(t, d.PublishLow(t.Context(), []timer.Fire{normal, high}))
		require.Equal(t, map[bus.Topic][]timer.Fire{bus.TasksLow: {normal, high}}, b.published())
	})
}

func TestCommittedSurvivesTheRequestAndEndsWhenServersHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, w, b := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f := at(time.Hour)
		d.Committed(ctx, []timer.Fire{f})
		require.True(t, inWindow(t, w, f), "a cancelled request does not undo a commit")
		b.setUnavailable(true)
		w.SetUnavailable(true)
		begin := time.Now()
		d.Committed(ctx, []timer.Fire{at(time.Second), at(time.Hour)})
		require.LessOrEqual(t, time.Since(begin), 2*time.Second)
		begin = time.Now()
		d.Committed(ctx, []timer.Fire{at(time.Second), at(time.Hour)})
		require.Zero(t, time.Since(begin), "no wait for servers known to be unavailable")
	})
}

func TestPublishReturnsTheError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, _, b := setup(t)
		b.err = errors.New("away")
		require.ErrorIs(t, d.Publish(t.Context(), []timer.Fire{at(0)}), b.err)
	})
}

// TestUnsentTasksArePublishedOnceTheBusRecovers checks that they are published in order, even if
// the bus fails again in between.
func TestUnsentTasksArePublishedOnceTheBusRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, _, b := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		b.setUnavailable(true)
		first, second := at(time.Second), at(2*time.Second)
		d.Committed(t.Context(), []timer.Fire{first})
		begin := time.Now()
		d.Committed(t.Context(), []timer.Fire{second})
		require.Zero(t, time.Since(begin), "no wait for a bus known to be unavailable")
		time.Sleep(time.Minute)
		require.Empty(t, b.published())
		b.setUnavailable(false)
		time.Sleep(3 * time.Second)
		require.Equal(
			t,
			map[bus.Topic][]timer.Fire{bus.TasksLow: {first, second}},
			b.published(),
			"they are late by now",
		)

		b.setUnavailable(true)
		third := at(time.Minute)
		third.RunAtMS = time.Now().UnixMilli()
		d.Committed(t.Context(), []timer.Fire{third})
		b.setUnavailable(false)
		time.Sleep(3 * time.Second) // a publish by Run may have begun just before, and hang for 2 s
		require.Equal(t, []timer.Fire{third}, b.published()[bus.TasksNormal])
		time.Sleep(time.Minute)
		require.Len(t, b.published()[bus.TasksNormal], 1, "once")

		cancel()
		require.NoError(t, <-ended)
	})
}

// TestEntriesArePutOnceTheWindowRecovers checks fires that were committed while the window was
// unavailable: those that are due later enter it, and those that it is too late for are published.
func TestEntriesArePutOnceTheWindowRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, w, b := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		w.SetUnavailable(true)
		near, soon, later := at(4*time.Second), at(21*time.Second), at(time.Hour)
		next := at(23500 * time.Millisecond) // triggers poll past it before an entry may arrive
		d.Committed(t.Context(), []timer.Fire{near, soon, next, later})
		time.Sleep(15 * time.Second)
		require.Equal(t, map[bus.Topic][]timer.Fire{bus.TasksNormal: {near}}, b.published(), "once")
		time.Sleep(2 * time.Second)
		require.Equal(
			t,
			map[bus.Topic][]timer.Fire{bus.TasksNormal: {near, soon}},
			b.published(),
			"when it is due soon, though the window stays away",
		)
		time.Sleep(3 * time.Second)
		w.SetUnavailable(false)
		time.Sleep(time.Second)
		require.True(t, inWindow(t, w, later))
		require.False(t, inWindow(t, w, soon))
		time.Sleep(time.Minute)
		require.Equal(
			t,
			map[bus.Topic][]timer.Fire{bus.TasksNormal: {near, soon, next}},
			b.published(),
		)

		cancel()
		require.NoError(t, <-ended)
	})
}

// countedWindow counts calls of Put.
type countedWindow struct {
	window.Window

	puts atomic.Int64
}

func (w *countedWindow) Put(ctx context.Context, fires []timer.Fire) error {
	w.puts.Add(1)
	return w.Window.Put(ctx, fires)
}

// TestUnavailableWindowIsTriedRarely: fires that are due soon do not wait for it one after the other,
// though none of them is held for it.
func TestUnavailableWindowIsTriedRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w, _ := setup(t)
		counted := &countedWindow{Window: w}
		d := runWith(t, counted)
		w.SetUnavailable(true)
		for range 10 {
			d.Committed(t.Context(), []timer.Fire{at(4 * time.Second)})
		}
		require.EqualValues(t, 1, counted.puts.Load())
		w.SetUnavailable(false)
		time.Sleep(2 * time.Second)
		near := at(4 * time.Second)
		d.Committed(t.Context(), []timer.Fire{near})
		require.True(t, inWindow(t, w, near))
	})
}

// TestLateEntriesAreLeftToExecutors checks that fires which became late before the goroutine of the
// window ran take neither an entry nor a task.
func TestLateEntriesAreLeftToExecutors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, w, b := setup(t)
		w.SetUnavailable(true)
		late := at(6 * time.Second)
		d.Committed(t.Context(), []timer.Fire{late})
		w.SetUnavailable(false)
		time.Sleep(20 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		time.Sleep(time.Second)
		require.Empty(t, b.published())
		require.False(t, inWindow(t, w, late))
		cancel()
		require.NoError(t, <-ended)
	})
}

// TestUnsentTasksAreBounded checks that excess tasks are left to executors.
func TestUnsentTasksAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, _, b := setup(t)
		b.setUnavailable(true)
		fires := make([]timer.Fire, 30_000)
		for i := range fires {
			fires[i] = at(time.Second)
			fires[i].Timer = timer.ID(i + 1)
		}
		d.Committed(t.Context(), fires)
		d.Committed(t.Context(), fires)
		b.setUnavailable(false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		time.Sleep(time.Minute)
		require.Len(t, b.published()[bus.TasksNormal], 50_000)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestMissingOptionsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := dispatch.New(dispatch.Options{})
	for _, name := range []string{"Window", "Bus", "Now", "Registerer"} {
		require.ErrorContains(t, err, name)
	}
}

// hanging is a window that answers nothing until an instant.
type hanging struct {
	window.Window
	until time.Time
}

func (w *hanging) Put(ctx context.Context, fires []timer.Fire) error {
	if time.Now().Before(w.until) {
		<-ctx.Done()
		return ctx.Err()
	}
	return w.Window.Put(ctx, fires)
}

// runWith runs a dispatcher with another window until the test ends.
func runWith(t *testing.T, w window.Window) *dispatch.Dispatcher {
	t.Helper()
	_, _, b := setup(t)
	return runOn(t, w, b)
}

// runOn runs a dispatcher until the test ends.
func runOn(t *testing.T, w window.Window, b bus.Publisher) *dispatch.Dispatcher {
	t.Helper()
	d, err := dispatch.New(dispatch.Options{
		Window: w, Bus: b, Now: time.Now,
		Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return d
}

// TestAHangingWindowHoldsUpOneCaller commits fires from many callers while the window hangs. Once it
// answers again, they put their fires into it themselves.
func TestAHangingWindowHoldsUpOneCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w, _ := setup(t)
		d := runWith(t, &hanging{w, time.Now().Add(30 * time.Second)})
		begin := time.Now()
		d.Committed(t.Context(), []timer.Fire{at(time.Hour)})
		require.Equal(t, 2*time.Second, time.Since(begin))
		var waited atomic.Int32
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				for range 50 {
					began := time.Now()
					d.Committed(t.Context(), []timer.Fire{at(time.Hour)})
					if time.Since(began) > 0 {
						waited.Add(1)
					}
					time.Sleep(500 * time.Millisecond)
				}
			})
		}
		callers.Wait()
		require.Zero(t, waited.Load())
		time.Sleep(10 * time.Second)
		f := at(time.Hour)
		d.Committed(t.Context(), []timer.Fire{f})
		require.True(t, inWindow(t, w, f))
	})
}

// TestEntriesThatComeTooLateAreNoAnswerOfTheWindow commits more fires than are put at once while the
// window hangs. When it is too late to put the first of them, the window has still taken none, so
// no caller waits for it.
func TestEntriesThatComeTooLateAreNoAnswerOfTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w, _ := setup(t)
		d := runWith(t, &hanging{w, time.Now().Add(time.Minute)})
		fires := make([]timer.Fire, 8000)
		for i := range fires {
			fires[i] = at(10 * time.Second)
			fires[i].Timer = timer.ID(i + 1)
		}
		d.Committed(t.Context(), slices.Concat(fires, []timer.Fire{at(time.Hour)}))
		for range 50 {
			time.Sleep(time.Second)
			began := time.Now()
			d.Committed(t.Context(), []timer.Fire{at(time.Hour)})
			require.Zero(t, time.Since(began))
		}
	})
}

// picky is a window that does not take one fire, nor those put with it, as a node that is down.
type picky struct {
	window.Window
	not timer.FireID
}

func (w *picky) Put(ctx context.Context, fires []timer.Fire) error {
	if slices.ContainsFunc(fires, func(f timer.Fire) bool { return f.FireID == w.not }) {
		return errors.New("a node is down")
	}
	return w.Window.Put(ctx, fires)
}

// TestEntriesDoNotWaitForOneThatIsNotTaken holds more entries than are put at once. Those that are
// not put with the one that is refused enter the window.
func TestEntriesDoNotWaitForOneThatIsNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w, _ := setup(t)
		fires := make([]timer.Fire, 3000)
		for i := range fires {
			fires[i] = at(time.Hour + time.Duration(i)*time.Millisecond)
			fires[i].Timer = timer.ID(i + 1)
		}
		runWith(t, &picky{w, fires[0].FireID}).Committed(t.Context(), fires)
		time.Sleep(time.Minute)
		require.True(t, inWindow(t, w, fires[2999]))
		require.False(t, inWindow(t, w, fires[0]))
	})
}

// oneAway is a publisher with one topic that hangs. It refuses a call whose context has ended, as
// the client of Pulsar does.
type oneAway struct {
	*topics
	away bus.Topic
}

func (p *oneAway) Publish(ctx context.Context, topic bus.Topic, msgs ...bus.Message) error {
	if topic == p.away {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return p.topics.Publish(ctx, topic, msgs...)
}

// runWithout runs a dispatcher with a topic that hangs until the test ends.
func runWithout(t *testing.T, away bus.Topic) (*dispatch.Dispatcher, *topics) {
	t.Helper()
	_, w, b := setup(t)
	return runOn(t, w, &oneAway{b, away}), b
}

// TestATopicThatIsAwayHoldsUpNoOther commits fires for two topics, one of which hangs for a minute.
func TestATopicThatIsAwayHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, b := runWithout(t, bus.TasksHigh)
		var want []timer.Fire
		for range 60 {
			high, f := at(time.Second), at(time.Second)
			high.PriorityLevel, f.AppID = timer.LevelHigh, 3
			d.Committed(t.Context(), []timer.Fire{high})
			began := time.Now()
			d.Committed(t.Context(), []timer.Fire{f})
			require.Zero(t, time.Since(began))
			want = append(want, f)
			time.Sleep(time.Second)
		}
		got := b.published()
		require.Equal(t, want, got[bus.TasksNormal], "once each")
		require.Empty(t, got[bus.TasksHigh])
		require.NotEmpty(t, got[bus.TasksLow], "those that are late")
		for _, f := range got[bus.TasksLow] {
			require.Equal(t, timer.LevelHigh, f.PriorityLevel)
		}
	})
}

// TestATopicThatIsAwayHoldsUpNothingOfItsBatch commits fires for all topics at once. Each topic
// that takes its fires has them at once, and never again.
func TestATopicThatIsAwayHoldsUpNothingOfItsBatch(t *testing.T) {
	t.Parallel()
	for _, away := range []bus.Topic{bus.TasksHigh, bus.TasksNormal, bus.TasksLow} {
		t.Run(string(away), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d, b := runWithout(t, away)
				high, normal, low := at(3*time.Second), at(3*time.Second), at(3*time.Second)
				high.PriorityLevel, low.PriorityLevel = timer.LevelHigh, timer.LevelLow
				want := map[bus.Topic][]timer.Fire{
					bus.TasksHigh: {high}, bus.TasksNormal: {normal}, bus.TasksLow: {low},
				}
				delete(want, away)
				batch := []timer.Fire{low, high, normal}
				began := time.Now()
				go d.Committed(t.Context(), batch)
				time.Sleep(time.Millisecond)
				require.Equal(t, want, b.published(), "at once")
				time.Sleep(5 * time.Second)
				require.Equal(t, want, b.published(), "once")
				require.ErrorIs(t, publishFor(d, batch), context.DeadlineExceeded)
				for topic := range want {
					want[topic] = append(want[topic], want[topic][0])
				}
				require.Equal(t, want, b.published(), "so do those of a slice")
				require.Less(t, time.Since(began), 8*time.Second)
			})
		})
	}
}

func publishFor(d *dispatch.Dispatcher, fires []timer.Fire) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return d.Publish(ctx, fires)
}

// TestLateTasksOfATopicThatIsAwayTakeTheLowOne checks that a fire that becomes late while its topic
// is away is published once, on the low-priority topic, and that its topic is tried again
// afterwards.
func TestLateTasksOfATopicThatIsAwayTakeTheLowOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, b := runWithout(t, bus.TasksNormal)
		f := at(time.Second)
		d.Committed(t.Context(), []timer.Fire{f})
		time.Sleep(time.Minute)
		require.Equal(t, map[bus.Topic][]timer.Fire{bus.TasksLow: {f}}, b.published())
		began := time.Now()
		d.Committed(t.Context(), []timer.Fire{at(time.Second)})
		require.Equal(
			t,
			2*time.Second,
			time.Since(began),
			"nothing else would find that it is back",
		)
	})
}
