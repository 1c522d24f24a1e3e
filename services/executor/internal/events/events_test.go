package events

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
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// outcomesStore has the outcomes that a test recorded.
type outcomesStore struct {
	Store
	mu       sync.Mutex
	recorded []timer.Outcome
	noted    int64
	reading  func() // called before each page is read
}

func (s *outcomesStore) PendingEvents(
	_ context.Context,
	id timer.ID,
	after store.OutcomePosition,
	_ int64,
	limit int,
) (out []timer.Outcome, _ error) {
	if s.reading != nil {
		s.reading()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.recorded {
		if o.Owner == id &&
			(o.FinishedMS > after.FinishedMS || o.FinishedMS == after.FinishedMS && timer.CompareFireIDs(o.FireID, after.FireID) > 0) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b timer.Outcome) int { return int(a.FinishedMS - b.FinishedMS) })
	return out[:min(len(out), limit)], nil
}

func (s *outcomesStore) AckEvents(_ context.Context, _ timer.ID, p store.OutcomePosition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted = max(s.noted, p.FinishedMS)
	return nil
}

func (s *outcomesStore) AppsByID(context.Context, []int64) ([]store.App, error) {
	return []store.App{{ID: 1, Name: "a"}, {ID: 2, Name: timer.ReservedApp}}, nil
}

func (s *outcomesStore) record(o timer.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded = append(s.recorded, o)
}

// eventsBus is an outcomes topic that can be unavailable.
type eventsBus struct {
	bus.Publisher
	away atomic.Bool
	told map[int64]string // app by timer
}

func (b *eventsBus) Publish(_ context.Context, _ bus.Topic, msgs ...bus.Message) error {
	if b.away.Load() {
		return errors.New("away")
	}
	for _, m := range msgs {
		o := new(carillonv1.Outcome)
		if err := proto.Unmarshal(m.Payload, o); err != nil {
			return err
		}
		b.told[o.GetTimerId()] = o.GetApp()
	}
	return nil
}

func (s *outcomesStore) ackedMS() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noted
}

// newTestPublisher returns a publisher that queues three events, with its store and bus.
func newTestPublisher(t *testing.T) (*Publisher, *outcomesStore, *eventsBus) {
	t.Helper()
	parts := servicetest.New(t, servicetest.Options{})
	st, b := &outcomesStore{
		Store: parts.Store,
	}, &eventsBus{
		told: make(map[int64]string),
	}
	p := New(Options{
		Store:      st,
		Bus:        b,
		Clock:      parts.Clock,
		Epoch:      func() *session.Epoch { return nil },
		Logger:     parts.Log,
		Registerer: prometheus.NewRegistry(),
	})
	p.max = 3
	return p, st, b
}

// flush publishes what waits for each topic.
func flush(t *testing.T, a *Publisher) {
	t.Helper()
	for _, q := range a.outboxes {
		a.flush(t.Context(), q)
	}
}

func outcomeOf(epoch *session.Epoch, id timer.ID, app int64) Event {
	o := timer.Outcome{
		Fire: timer.Fire{
			FireID: timer.FireID{Timer: id, DueMS: 1},
			AppID:  app,
			Owner:  epoch.ID,
		},
		FinishedMS: time.Now().UnixMilli(),
	}
	return Event{Outcome: o, App: "a", Session: epoch.ID}
}

// TestEveryOutcomeIsPublishedAfterAnOverflow checks results recorded while the overflow is read,
// with an earlier finish time. They are published too, and not acknowledged before.
func TestEveryOutcomeIsPublishedAfterAnOverflow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, st, b := newTestPublisher(t)
		epoch := &session.Epoch{ID: 7}
		b.away.Store(true)
		// The record of both takes long.
		slow, last := outcomeOf(epoch, 100, 1), outcomeOf(epoch, 101, 1)
		a.Expect(epoch, &slow.Outcome)
		a.Expect(epoch, &last.Outcome)
		for i := range timer.ID(10) {
			time.Sleep(time.Second)
			e := outcomeOf(epoch, i+1, 1)
			a.Expect(epoch, &e.Outcome)
			st.record(e.Outcome)
			a.Put(e)
		}
		canary := outcomeOf(epoch, 50, 2)
		st.record(canary.Outcome)
		var once sync.Once
		st.reading = func() {
			once.Do(func() {
				defer func() { st.record(slow.Outcome); a.Put(slow) }()
				e := outcomeOf(epoch, 200, 1) // a later outcome follows at once
				a.Expect(epoch, &e.Outcome)
			})
		}
		b.away.Store(false)
		flush(t, a)
		for i := range int64(10) {
			require.Contains(t, b.told, i+1)
		}
		require.Contains(t, b.told, int64(100), "recorded while the overflow was read")
		require.NotContains(t, b.told, int64(50), "the canary's outcome has no event")
		time.Sleep(time.Minute)
		a.ack(t.Context())
		require.Less(t, st.noted, last.FinishedMS, "one is not recorded yet")
		st.record(last.Outcome)
		a.Put(last)
		flush(t, a)
		require.Contains(t, b.told, int64(101))
		require.False(t, a.outboxes[0].overflowed)
		a.ack(t.Context())
		require.Greater(t, st.noted, last.FinishedMS)
	})
}

func TestResultOfExpiredSessionChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, st, b := newTestPublisher(t)
		old, present := &session.Epoch{ID: 7}, &session.Epoch{ID: 8}
		late, mine := outcomeOf(old, 1, 1), outcomeOf(present, 2, 1)
		a.Expect(old, &late.Outcome)
		a.Expect(present, &mine.Outcome)
		again := outcomeOf(old, 3, 1)
		a.Expect(old, &again.Outcome)
		a.Put(late)
		a.Put(again)
		flush(t, a)
		require.Len(t, b.told, 2)
		time.Sleep(time.Minute)
		a.ack(t.Context())
		require.Less(t, st.noted, mine.FinishedMS, "the count of the current session is unchanged")
	})
}

// TestResultIsNeverBeforeTheAckedPosition checks that a result recorded late does not finish before
// the acknowledged position.
func TestResultIsNeverBeforeTheAckedPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, st, _ := newTestPublisher(t)
		epoch := &session.Epoch{ID: 7}
		first := outcomeOf(epoch, 1, 1)
		a.Expect(epoch, &first.Outcome)
		a.Settle(first)
		slow := outcomeOf(epoch, 2, 1)
		time.Sleep(time.Minute)
		a.ack(t.Context())
		require.Greater(t, st.noted, slow.FinishedMS)
		a.Expect(epoch, &slow.Outcome)
		require.Greater(t, slow.FinishedMS, st.noted)
	})
}

func TestUnknownAppIsReadBeforePublishing(t *testing.T) {
	t.Parallel()
	a, _, b := newTestPublisher(t)
	e := outcomeOf(&session.Epoch{ID: 7}, 1, 1)
	e.App = ""
	a.Put(e)
	flush(t, a)
	require.Equal(t, map[int64]string{1: "a"}, b.told)
}

// oneTopicAway is a bus on which one topic hangs at first.
type oneTopicAway struct {
	bus.Publisher
	away  bus.Topic
	until time.Time

	mu   sync.Mutex
	told map[bus.Topic]map[string]int // by fire
}

func (b *oneTopicAway) Publish(ctx context.Context, to bus.Topic, msgs ...bus.Message) error {
	if to == b.away && time.Now().Before(b.until) {
		<-ctx.Done() // as Pulsar does
		return ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range msgs {
		b.told[to][m.Properties[bus.PropFire]]++
	}
	return nil
}

// newOneTopicAway makes a publisher's topic hang for two minutes.
func newOneTopicAway(a *Publisher, away bus.Topic) *oneTopicAway {
	b := &oneTopicAway{
		away: away, until: time.Now().Add(2 * time.Minute),
		told: map[bus.Topic]map[string]int{bus.Outcomes: {}, bus.TasksDead: {}},
	}
	a.opts.Bus = b
	return b
}

// run runs a publisher for an epoch until the test ends.
func run(t *testing.T, a *Publisher, epoch *session.Epoch) {
	t.Helper()
	a.opts.Epoch = func() *session.Epoch { return epoch }
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { a.Run(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
}

func (b *oneTopicAway) of(topic bus.Topic) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.told[topic])
}

// TestTopicsDoNotWaitForEachOther publishes failed and other outcomes while one of both topics is
// away. The other one has all, once, and the position waits for both.
func TestTopicsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	for _, away := range []bus.Topic{bus.Outcomes, bus.TasksDead} {
		t.Run(string(away), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a, st, _ := newTestPublisher(t)
				b := newOneTopicAway(a, away)
				a.max = 100
				epoch := &session.Epoch{ID: 7}
				run(t, a, epoch)
				began := time.Now().UnixMilli()
				for i := range timer.ID(20) {
					e := outcomeOf(epoch, i+1, 1)
					if e.Kind = timer.Delivered; i%2 == 0 {
						e.Kind = timer.Failed
					}
					a.Expect(epoch, &e.Outcome)
					a.Put(e)
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(30 * time.Second)
				want := map[bus.Topic]int{bus.Outcomes: 20, bus.TasksDead: 10}
				for topic, n := range want {
					if topic == away {
						n = 0
					}
					require.Len(t, b.of(topic), n, topic)
				}
				require.LessOrEqual(t, st.ackedMS(), began)
				time.Sleep(3 * time.Minute)
				for topic, n := range want {
					require.Len(t, b.of(topic), n, topic)
					for fire, n := range b.of(topic) {
						require.Equal(t, 1, n, fire)
					}
				}
				require.Greater(t, st.ackedMS(), began+2000)
			})
		})
	}
}

// TestOverflowOfOneTopicIsReadOnce lets more events come than are kept while one topic is away. The
// other topic has each once, and no position is acknowledged behind what is still read.
func TestOverflowOfOneTopicIsReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, st, _ := newTestPublisher(t)
		b := newOneTopicAway(a, bus.Outcomes)
		epoch := &session.Epoch{ID: 7}
		run(t, a, epoch)
		began := time.Now().UnixMilli()
		for i := range timer.ID(20) {
			e := outcomeOf(epoch, i+1, 1)
			e.Kind = timer.Failed
			a.Expect(epoch, &e.Outcome)
			st.record(e.Outcome)
			a.Put(e)
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(90 * time.Second)
		require.Len(t, b.of(bus.TasksDead), 20)
		require.Empty(t, b.of(bus.Outcomes))
		require.LessOrEqual(t, st.ackedMS(), began)
		time.Sleep(3 * time.Minute)
		for _, topic := range []bus.Topic{bus.Outcomes, bus.TasksDead} {
			require.Len(t, b.of(topic), 20)
		}
		require.Greater(t, st.ackedMS(), began+1000)
		for fire, n := range b.of(bus.TasksDead) {
			require.Equal(t, 1, n, fire)
		}
	})
}

// TestPositionWaitsForTheReread acknowledges no position while the overflow is read.
func TestPositionWaitsForTheReread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, st, _ := newTestPublisher(t)
		b := newOneTopicAway(a, bus.Outcomes)
		epoch := &session.Epoch{ID: 7}
		a.opts.Epoch = func() *session.Epoch { return epoch }
		e := outcomeOf(epoch, 1, 1)
		a.Expect(epoch, &e.Outcome)
		st.record(e.Outcome)
		a.max = 0 // all overflow
		a.Put(e)
		var reading sync.WaitGroup
		reading.Go(func() { a.flush(t.Context(), a.outboxes[0]) })
		time.Sleep(time.Minute)
		a.mu.Lock()
		require.Zero(t, a.outboxes[0].firstMissedMS, "it is being read")
		a.mu.Unlock()
		a.ack(t.Context())
		require.Less(t, st.ackedMS(), e.FinishedMS)
		reading.Wait()
		a.ack(t.Context())
		require.Greater(t, st.ackedMS(), e.FinishedMS)
		require.Len(t, b.of(bus.Outcomes), 1)
	})
}

// TestQueueIsPublishedBetweenRereads lets events come while the overflow is read, more than are kept,
// each time again.
func TestQueueIsPublishedBetweenRereads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, st, _ := newTestPublisher(t)
		b := &oneTopicAway{told: map[bus.Topic]map[string]int{bus.Outcomes: {}, bus.TasksDead: {}}}
		a.opts.Bus = b
		epoch := &session.Epoch{ID: 7}
		next := timer.ID(0)
		put := func(n int) {
			for range n {
				next++
				e := outcomeOf(epoch, next, 1)
				a.Expect(epoch, &e.Outcome)
				st.record(e.Outcome)
				a.Put(e)
				time.Sleep(time.Millisecond)
			}
		}
		put(5)
		reads := 0
		st.reading = func() {
			if reads++; reads <= 20 {
				put(4) // the queue takes three
			}
		}
		a.flush(t.Context(), a.outboxes[0])
		require.Less(t, reads, 60)
		require.Len(t, b.of(bus.Outcomes), int(next))
		a.mu.Lock()
		defer a.mu.Unlock()
		require.Empty(t, a.outboxes[0].queue)
		require.Empty(t, a.pending)
	})
}

// busyBus is a bus during whose publishes more events come.
type busyBus struct {
	bus.Publisher
	meanwhile func()
	publishes int
	told      map[string]int // by fire
}

func (b *busyBus) Publish(_ context.Context, _ bus.Topic, msgs ...bus.Message) error {
	if b.publishes++; b.publishes < 100 {
		b.meanwhile()
	}
	for _, m := range msgs {
		b.told[m.Properties[bus.PropFire]]++
	}
	return nil
}

// TestOverflowIsReadUnderLoad has an overflow to read while the queue is never empty.
func TestOverflowIsReadUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, st, _ := newTestPublisher(t)
		epoch, next := &session.Epoch{ID: 7}, timer.ID(0)
		put := func() {
			next++
			e := outcomeOf(epoch, next, 1)
			a.Expect(epoch, &e.Outcome)
			st.record(e.Outcome)
			a.Put(e)
			time.Sleep(time.Millisecond)
		}
		b := &busyBus{meanwhile: put, told: make(map[string]int)}
		a.opts.Bus = b
		for range 4 {
			put() // the last one overflows
		}
		q := a.outboxes[0]
		q.overflowed = false // as at the end of a reread, in which it overflowed
		a.max = 1000
		before := 0
		st.reading = func() {
			if before == 0 {
				before = b.publishes
			}
		}
		a.flush(t.Context(), q)
		require.Equal(t, 1, before, "what waited is published, and then the overflow is read")
		a.flush(t.Context(), q) // Run is woken by those that came
		require.Len(t, b.told, int(next))
		require.Zero(t, q.firstMissedMS)
		require.Empty(t, a.pending)
	})
}
