package scheduler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/outcomeevent"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/scheduler"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// outcomesStore is a store that cannot read the outcomes of one session, and records the reads of
// others.
type outcomesStore struct {
	scheduler.Store
	sick timer.ID

	mu    sync.Mutex
	asked map[timer.ID]int
	most  int64 // longest range of one statement, in ms
}

func (s *outcomesStore) PendingEvents(
	ctx context.Context, id timer.ID, after store.OutcomePosition, untilMS int64, limit int,
) ([]timer.Outcome, error) {
	s.mu.Lock()
	s.asked[id]++
	s.most = max(s.most, untilMS-after.FinishedMS)
	s.mu.Unlock()
	if id == s.sick {
		return nil, errors.New("cannot be read")
	}
	return s.Store.PendingEvents(ctx, id, after, untilMS, limit)
}

// TestPendingEventsOfAClockSetBack sets the store's clock back after outcomes were acknowledged. What
// an executor leaves then is later than its position, and what the store records is earlier than its
// own.
func TestPendingEventsOfAClockSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		told := new(collector[int64])
		listen(t, parts.Bus("listener"), bus.Outcomes, "listener", func(m bus.Message) error {
			o := new(carillonv1.Outcome)
			require.NoError(t, proto.Unmarshal(m.Payload, o))
			told.add(o.GetTimerId())
			return nil
		})
		session := parts.IDs.Next()
		require.NoError(
			t,
			parts.Store.OpenSession(
				t.Context(),
				store.Session{ID: session, Kind: store.ExecutorSession, Name: "gone"},
			),
		)
		fires := parts.Create("a", servicetest.Every(time.Now(), 0, 2, "http://127.0.0.1/")...)
		_, err := parts.Store.Claim(t.Context(), session, fires)
		require.NoError(t, err)
		ahead := time.Now().Add(time.Hour).UnixMilli()
		for _, id := range []timer.ID{session, store.SystemSession} {
			at := store.OutcomePosition{FinishedMS: ahead}
			require.NoError(t, parts.Store.AckEvents(t.Context(), id, at))
		}
		lost, _, err := parts.Store.Record(t.Context(), session, []timer.Outcome{{
			Fire: fires[0], Kind: timer.Delivered, FinishedMS: ahead + 1,
			UntilMS: fires[0].DueMS, Count: 1,
		}}, nil)
		require.NoError(t, err)
		require.Empty(t, lost)
		require.NoError(t, parts.Store.CloseSession(t.Context(), session))
		svc, err := scheduler.New(scheduler.Options{
			Store: parts.Store, Bus: parts.Bus("one"), IDs: parts.IDs, Name: "one",
			Now: time.Now, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry(),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- svc.Run(ctx) }()
		time.Sleep(time.Minute)
		require.Contains(t, told.list(), int64(fires[0].Timer))
		at, err := parts.Store.SessionsWithPendingEvents(t.Context())
		require.NoError(t, err)
		require.WithinDuration(
			t, time.Now(), time.UnixMilli(at[store.SystemSession].FinishedMS), time.Minute,
		)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestPendingEventsOfExpiredSessionsArePublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		told := new(collector[int64])
		listen(t, parts.Bus("listener"), bus.Outcomes, "listener", func(m bus.Message) error {
			o := new(carillonv1.Outcome)
			require.NoError(t, proto.Unmarshal(m.Payload, o))
			told.add(o.GetTimerId())
			return nil
		})
		open := func(kind store.SessionKind) timer.ID {
			id := parts.IDs.Next()
			require.NoError(
				t,
				parts.Store.OpenSession(
					t.Context(),
					store.Session{ID: id, Kind: kind, Name: "gone"},
				),
			)
			return id
		}
		session, sick, idle := open(
			store.ExecutorSession,
		), open(
			store.ExecutorSession,
		), open(
			store.SchedulerSession,
		)
		fires := parts.Create("a", servicetest.Every(time.Now(), 0, 3, "http://127.0.0.1/")...)
		record := func(f timer.Fire, finished time.Time) {
			lost, _, err := parts.Store.Record(t.Context(), session, []timer.Outcome{
				{
					Fire:       f,
					Kind:       timer.Delivered,
					FinishedMS: finished.UnixMilli(),
					UntilMS:    f.DueMS,
					Count:      1,
				},
			}, nil)
			require.NoError(t, err)
			require.Empty(t, lost)
		}
		fires, err := parts.Store.Claim(t.Context(), session, fires)
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		record(fires[0], time.Now())
		for _, id := range []timer.ID{session, sick, idle} {
			require.NoError(t, parts.Store.CloseSession(t.Context(), id))
		}
		st := &outcomesStore{Store: parts.Store, sick: sick, asked: make(map[timer.ID]int)}
		svc, err := scheduler.New(scheduler.Options{
			Store:      st,
			Bus:        parts.Bus("one"),
			IDs:        parts.IDs,
			Name:       "one",
			Now:        time.Now,
			Logger:     zerolog.Nop(),
			Registerer: prometheus.NewRegistry(),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- svc.Run(ctx) }()
		time.Sleep(10 * time.Second)
		require.Contains(t, told.list(), int64(fires[0].Timer), "at once")
		record(fires[1], time.Now().Add(-time.Minute)) // it committed after the session had expired
		time.Sleep(time.Minute)
		require.Contains(
			t,
			told.list(),
			int64(fires[1].Timer),
			"although a later one was published before",
		)
		require.NotContains(t, told.list(), int64(fires[2].Timer))
		silent, err := parts.Store.SessionsWithPendingEvents(t.Context())
		require.NoError(t, err)
		require.NotContains(t, silent, session, "done")
		require.Contains(t, silent, sick, "to be retried")
		cancel()
		require.NoError(t, <-ended)
		require.Zero(t, st.asked[idle], "only executors record")
		require.LessOrEqual(
			t,
			st.asked[session],
			2*2*8,
			"five minutes and their margins, twice for each of two topics",
		)
		require.LessOrEqual(t, st.most, time.Minute.Milliseconds())
	})
}

// topicAway is a bus on which one topic of outcomes hangs at first.
type topicAway struct {
	bus.Bus
	away  bus.Topic
	until time.Time
	after int // it takes so many fires before

	mu   sync.Mutex
	told map[bus.Topic]map[string]int // by fire
}

func newTopicAway(parts *servicetest.Parts, away bus.Topic, within time.Duration) *topicAway {
	return &topicAway{
		Bus: parts.Bus("one"), away: away, until: time.Now().Add(within),
		told: map[bus.Topic]map[string]int{bus.Outcomes: {}, bus.TasksDead: {}},
	}
}

func (b *topicAway) Publish(ctx context.Context, to bus.Topic, msgs ...bus.Message) error {
	if to == b.away && time.Now().Before(b.until) && len(b.of(to)) >= b.after {
		<-ctx.Done() // as Pulsar does
		return ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told[to] == nil {
		return b.Bus.Publish(ctx, to, msgs...)
	}
	for _, m := range msgs {
		b.told[to][m.Properties[bus.PropFire]]++
	}
	return nil
}

func (b *topicAway) of(topic bus.Topic) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.told[topic])
}

// leave makes an executor's session with ten outcomes, of which five are failures, in two statements
// of a scheduler. The session then ends.
func leave(t *testing.T, parts *servicetest.Parts) (session timer.ID) {
	t.Helper()
	session = parts.IDs.Next()
	require.NoError(
		t,
		parts.Store.OpenSession(
			t.Context(),
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "gone"},
		),
	)
	fires := parts.Create("a", servicetest.Every(time.Now(), 0, 10, "http://127.0.0.1/")...)
	fires, err := parts.Store.Claim(t.Context(), session, fires)
	require.NoError(t, err)
	for half := range slices.Chunk(fires, 5) {
		var outcomes []timer.Outcome
		for i, f := range half {
			o := timer.Outcome{
				Fire: f, Kind: timer.Failed, Reason: timer.ReasonExhausted,
				FinishedMS: time.Now().UnixMilli(), UntilMS: f.DueMS, Count: 1, Attempts: 1,
			}
			if i%2 == 0 {
				o.Kind, o.Reason = timer.Delivered, timer.ReasonNone
			}
			outcomes = append(outcomes, o)
		}
		lost, _, err := parts.Store.Record(t.Context(), session, outcomes, nil)
		require.NoError(t, err)
		require.Empty(t, lost)
		time.Sleep(3 * time.Minute)
	}
	require.NoError(t, parts.Store.CloseSession(t.Context(), session))
	return session
}

// TestDeadLettersOfExpiredSessionsArePublished publishes what an executor had recorded when it died,
// while one of both topics is away. The other one has all, nothing is acknowledged that one of them
// has not, and nothing is repeated.
func TestDeadLettersOfExpiredSessionsArePublished(t *testing.T) {
	t.Parallel()
	for _, away := range outcomeevent.Topics() {
		t.Run(string(away), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				began := time.Now().UnixMilli()
				session := leave(t, parts)
				b := newTopicAway(parts, away, 90*time.Second)
				startWith(t, parts, "one", func(o *scheduler.Options) { o.Bus = b })
				want := map[bus.Topic]int{bus.Outcomes: 10, bus.TasksDead: 4}
				time.Sleep(80 * time.Second)
				for topic, n := range want {
					if topic == away {
						n = 0
					}
					require.Len(t, b.of(topic), n, topic)
				}
				ended, err := parts.Store.SessionsWithPendingEvents(t.Context())
				require.NoError(t, err)
				require.LessOrEqual(t, ended[session].FinishedMS, began)
				time.Sleep(2 * time.Minute)
				for topic, n := range want {
					require.Len(t, b.of(topic), n, topic)
					times := 2 // at once, and when no more can commit
					if topic == away {
						times = 1
					}
					for fire, n := range b.of(topic) {
						require.Equal(t, times, n, fire)
					}
				}
				ended, err = parts.Store.SessionsWithPendingEvents(t.Context())
				require.NoError(t, err)
				require.NotContains(t, ended, session)
			})
		})
	}
}

// TestRoundsGoOnWhereATopicWentAway publishes a part of the outcomes of a session before their topic
// goes away. The rounds until it is back repeat none of them.
func TestRoundsGoOnWhereATopicWentAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		leave(t, parts)
		b := newTopicAway(parts, bus.Outcomes, 25*time.Second)
		b.after = 5
		startWith(t, parts, "one", func(o *scheduler.Options) { o.Bus = b })
		time.Sleep(20 * time.Second)
		require.Len(t, b.of(bus.Outcomes), 5)
		time.Sleep(2 * time.Minute)
		require.Len(t, b.of(bus.Outcomes), 10)
		for fire, n := range b.of(bus.Outcomes) {
			require.Equal(t, 2, n, "at once, and when no more can commit: %s", fire)
		}
	})
}

// TestHangingTopicTakesTheTimeOfOneSession lets several executors die while dead letters cannot be
// published. The outcome events of all are published in the first round.
func TestHangingTopicTakesTheTimeOfOneSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		for range 4 {
			leave(t, parts)
		}
		b := newTopicAway(parts, bus.TasksDead, time.Hour)
		startWith(t, parts, "one", func(o *scheduler.Options) { o.Bus = b })
		time.Sleep(18 * time.Second)
		require.Len(t, b.of(bus.Outcomes), 40)
		require.Empty(t, b.of(bus.TasksDead))
	})
}

// TestSkipsThatNoExecutorRecordsAreLogged checks the line about instants that were missed while no
// migrator expanded their timer.
func TestSkipsThatNoExecutorRecordsAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		d := servicetest.Cron("0 0 * * * *", "http://127.0.0.1/")
		d.Misfire = timer.Misfire{Policy: timer.MisfireSkip, Grace: timer.Duration(time.Second)}
		parts.Create("a", d)
		time.Sleep(24*time.Hour + time.Minute)
		_, timers, err := parts.Store.Expand(t.Context(), 10, parts.Plan)
		require.NoError(t, err)
		require.Equal(t, 1, timers)
		log := new(bytes.Buffer)
		svc, err := scheduler.New(scheduler.Options{
			Store:      parts.Store,
			Bus:        parts.Bus("one"),
			IDs:        parts.IDs,
			Name:       "one",
			Now:        time.Now,
			Logger:     zerolog.New(zerolog.SyncWriter(log)),
			Registerer: prometheus.NewRegistry(),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- svc.Run(ctx) }()
		time.Sleep(5 * time.Minute)
		cancel()
		require.NoError(t, <-ended)
		var skips []map[string]any
		for text := range strings.Lines(log.String()) {
			var line map[string]any
			require.NoError(t, json.Unmarshal([]byte(text), &line))
			if line[zerolog.MessageFieldName] == logging.FireSkipped {
				skips = append(skips, line)
			}
		}
		require.Len(t, skips, 1, "once")
		require.Equal(t, "a", skips[0][logging.App])
		require.NotEmpty(t, skips[0][logging.TimerName])
		require.Equal(t, string(timer.ReasonMisfired), skips[0][logging.Reason])
		require.Greater(t, skips[0][logging.Count], 20.0)
	})
}

// slowEvents is a store that reads a range of outcomes in a second.
type slowEvents struct{ scheduler.Store }

func (s slowEvents) PendingEvents(
	ctx context.Context, id timer.ID, after store.OutcomePosition, untilMS int64, limit int,
) ([]timer.Outcome, error) {
	if err := takes(ctx, time.Second); err != nil {
		return nil, err
	}
	return s.Store.PendingEvents(ctx, id, after, untilMS, limit)
}

// TestManyOutcomesArePublishedInRounds reads an hour of outcomes, a minute in a second. That takes
// two rounds. That the first ends before is no error.
func TestManyOutcomesArePublishedInRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		told := new(collector[int64])
		listen(t, parts.Bus("listener"), bus.Outcomes, "listener", func(m bus.Message) error {
			o := new(carillonv1.Outcome)
			require.NoError(t, proto.Unmarshal(m.Payload, o))
			told.add(o.GetTimerId())
			return nil
		})
		d := servicetest.Cron("0 0 * * * *", "http://127.0.0.1/")
		d.Misfire = timer.Misfire{Policy: timer.MisfireSkip, Grace: timer.Duration(time.Second)}
		parts.Create("a", d)
		time.Sleep(24*time.Hour + time.Minute)
		_, _, err := parts.Store.Expand(t.Context(), 10, parts.Plan)
		require.NoError(t, err)
		time.Sleep(store.VisibilityDelay)
		reg := prometheus.NewRegistry()
		_, stop := startWith(t, parts, "one", func(o *scheduler.Options) {
			o.Store, o.Registerer = slowEvents{o.Store}, reg
		})
		defer stop()
		time.Sleep(40 * time.Second)
		synctest.Wait()
		require.Empty(t, told.list(), "the first round is over")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Len(t, told.list(), 1)
		require.Zero(t, counter(t, reg, failures))
	})
}
