package trigger_test

import (
	"context"
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
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest"
	"github.com/carillon-timer/carillon/services/trigger"
)

// oneAway is a publisher with one topic that hangs for a while. It refuses a call whose context has
// ended, as the client of Pulsar does.
type oneAway struct {
	full  bool // the topic has no room, and nothing else is wrong
	mu    sync.Mutex
	away  bus.Topic
	tasks map[bus.Topic]map[timer.FireID][]time.Duration // how long before its run time each came
}

func (p *oneAway) setAway(topic bus.Topic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = topic
}

func (p *oneAway) Publish(ctx context.Context, topic bus.Topic, msgs ...bus.Message) error {
	p.mu.Lock()
	away := topic == p.away
	p.mu.Unlock()
	if away {
		<-ctx.Done()
	}
	if away && p.full {
		return bus.ErrFull
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range msgs {
		f, err := taskwire.Decode(m.Payload)
		if err != nil {
			return err
		}
		if p.tasks[topic] == nil {
			p.tasks[topic] = make(map[timer.FireID][]time.Duration)
		}
		ahead := time.Until(time.UnixMilli(f.RunAtMS))
		p.tasks[topic][f.FireID] = append(p.tasks[topic][f.FireID], ahead)
	}
	return nil
}

// published returns the tasks on a topic.
func (p *oneAway) published(topic bus.Topic) map[timer.FireID][]time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tasks[topic]
}

// startWithout runs a trigger with a topic that hangs.
func startWithout(t *testing.T, parts *servicetest.Parts, away bus.Topic) *oneAway {
	t.Helper()
	p := &oneAway{away: away, tasks: make(map[bus.Topic]map[timer.FireID][]time.Duration)}
	p.start(t, parts, parts.Store)
	return p
}

// start runs a trigger that publishes by p.
func (p *oneAway) start(t *testing.T, parts *servicetest.Parts, st trigger.Store) {
	t.Helper()
	d, err := dispatch.New(dispatch.Options{
		Window: parts.Window, Bus: p, Now: time.Now,
		Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	svc, err := trigger.New(trigger.Options{
		Store:      st,
		Bus:        parts.Bus("trigger"),
		Window:     parts.Window,
		Dispatch:   d,
		Now:        time.Now,
		Holder:     parts.IDs.Next(),
		Logger:     parts.Log,
		Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	synctest.Wait()
}

// countedLoads counts the reads of slices.
type countedLoads struct {
	trigger.Store

	n atomic.Int64
}

func (s *countedLoads) LoadSlice(
	ctx context.Context, minute int64, bucket int32, after store.Position, untilMS int64, limit int,
) ([]timer.Fire, error) {
	s.n.Add(1)
	return s.Store.LoadSlice(ctx, minute, bucket, after, untilMS, limit)
}

// TestAFullTopicCausesNoReads checks that fires wait for room on a full topic, and are not looked for
// in the store meanwhile: in overload each trigger read all that waits, every few seconds.
func TestAFullTopicCausesNoReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		p := &oneAway{
			full:  true,
			away:  bus.TasksLow,
			tasks: make(map[bus.Topic]map[timer.FireID][]time.Duration),
		}
		st := &countedLoads{Store: parts.Store}
		p.start(t, parts, st)
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		fires := parts.Create("a", onceEach(t, minute, 60)...)
		time.Sleep(time.Until(time.UnixMilli((minute+1)*timer.MinuteMS + 10_000))) // all are late
		hand(t, parts, parts.Bus("s"), minute)
		time.Sleep(time.Minute)
		require.Empty(t, p.published(bus.TasksLow))
		loads := st.n.Load()
		require.LessOrEqual(t, loads, int64(2), "the slice itself")
		p.setAway("")
		time.Sleep(10 * time.Second)
		require.Equal(t, loads, st.n.Load())
		require.Len(t, p.published(bus.TasksLow), len(fires))
		for _, times := range p.published(bus.TasksLow) {
			require.Len(t, times, 1, "once")
		}
	})
}

// TestATopicThatIsAwayHoldsUpNoOther has two slices with a fire of high priority among others,
// while that topic is away. The others of both slices are published in time and once. The fires of
// high priority take the low-priority topic when they are late, and their slices are done.
func TestATopicThatIsAwayHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		p := startWithout(t, parts, bus.TasksHigh)
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		var others, high []timer.Fire
		for m := minute; m <= minute+1; m++ {
			defs := onceEach(t, m, 60)
			for _, i := range []int{10, 59} {
				defs[i].Priority = timer.PriorityHigh
			}
			for _, f := range parts.Create("a", defs...) {
				if f.PriorityLevel == timer.LevelHigh {
					high = append(high, f)
				} else {
					others = append(others, f)
				}
			}
		}
		b := parts.Bus("s")
		hand(t, parts, b, minute)
		hand(t, parts, b, minute+1)
		time.Sleep(time.Until(time.UnixMilli((minute + 2) * timer.MinuteMS)))
		got := p.published(bus.TasksNormal)
		require.Len(t, got, len(others))
		for _, f := range others {
			require.Len(t, got[f.FireID], 1, "once")
			require.Greater(t, got[f.FireID][0], 1500*time.Millisecond, "in time")
		}
		require.Empty(t, p.published(bus.TasksHigh))
		time.Sleep(15 * time.Second)
		require.Len(t, p.published(bus.TasksLow), len(high))
		for _, times := range p.published(bus.TasksLow) {
			require.Len(t, times, 1)
			require.Less(t, times[0], -dispatch.LateAfter)
		}
		left, err := b.Backlog(t.Context(), bus.Slices, bus.SubTriggers)
		require.NoError(t, err)
		require.Zero(t, left, "both slices are done")
	})
}

// TestATopicThatIsBackGetsWhatNobodyClaimed checks that fires wait for their topic, without those
// that executors claimed meanwhile, and that those of the topic before are not published again.
func TestATopicThatIsBackGetsWhatNobodyClaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		p := startWithout(t, parts, bus.TasksHigh)
		minute := timer.MinuteOf(time.Now().UnixMilli()) + 1
		defs := onceEach(t, minute, 60)
		for i := 0; i < len(defs); i += 2 {
			defs[i].Priority = timer.PriorityHigh
		}
		fires := parts.Create("a", defs...)
		hand(t, parts, parts.Bus("s"), minute)
		time.Sleep(time.Until(time.UnixMilli(fires[4].RunAtMS)))
		executor := parts.IDs.Next()
		require.NoError(
			t,
			parts.Store.OpenSession(
				t.Context(),
				store.Session{ID: executor, Kind: store.ExecutorSession, Name: "one"},
			),
		)
		won, err := parts.Store.Claim(t.Context(), executor, fires[:4])
		require.NoError(t, err)
		require.Len(t, won, 4)
		p.setAway("")
		time.Sleep(time.Minute)
		high, normal := p.published(bus.TasksHigh), p.published(bus.TasksNormal)
		require.Empty(t, p.published(bus.TasksLow))
		require.Len(t, normal, 30)
		for i, f := range fires {
			switch {
			case i < 4 && i%2 == 0:
				require.Empty(t, high[f.FireID], "claimed")
			case i%2 == 0:
				require.Len(t, high[f.FireID], 1)
			default:
				require.Len(t, normal[f.FireID], 1)
			}
		}
	})
}
