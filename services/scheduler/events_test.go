package scheduler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
			require.NoError(t, parts.Store.OpenSession(t.Context(), id, kind, "gone"))
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

// topicAway is a bus on which one topic hangs at first.
type topicAway struct {
	bus.Bus
	away bus.Topic

	mu        sync.Mutex
	tries     int
	published map[bus.Topic]map[string]int // by fire
}

func (b *topicAway) Publish(ctx context.Context, to bus.Topic, msgs ...bus.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if to == b.away {
		if b.tries++; b.tries <= 3 {
			b.mu.Unlock()
			<-ctx.Done() // as Pulsar does
			b.mu.Lock()
			return ctx.Err()
		}
	}
	if b.published[to] == nil {
		return b.Bus.Publish(ctx, to, msgs...)
	}
	for _, m := range msgs {
		b.published[to][m.Properties[bus.PropFire]]++
	}
	return nil
}

// TestDeadLettersOfExpiredSessionsArePublished publishes what an executor had recorded when it died,
// while one of both topics is away. What the other one has is not repeated for that.
func TestDeadLettersOfExpiredSessionsArePublished(t *testing.T) {
	t.Parallel()
	for _, away := range []bus.Topic{bus.Outcomes, bus.TasksDead} {
		t.Run(string(away), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				session := parts.IDs.Next()
				require.NoError(t,
					parts.Store.OpenSession(t.Context(), session, store.ExecutorSession, "gone"))
				fires := parts.Create(
					"a",
					servicetest.Every(time.Now(), 0, 10, "http://127.0.0.1/")...)
				fires, err := parts.Store.Claim(t.Context(), session, fires)
				require.NoError(t, err)
				outcomes := make([]timer.Outcome, len(fires))
				for i, f := range fires {
					outcomes[i] = timer.Outcome{
						Fire: f, Kind: timer.Failed, Reason: timer.ReasonExhausted,
						FinishedMS: time.Now().UnixMilli(), UntilMS: f.DueMS, Count: 1, Attempts: 1,
					}
					if i%2 == 0 {
						outcomes[i].Kind, outcomes[i].Reason = timer.Delivered, timer.ReasonNone
					}
				}
				for _, half := range [][]timer.Outcome{outcomes[:5], outcomes[5:]} { // two statements
					for i := range half {
						half[i].FinishedMS = time.Now().UnixMilli()
					}
					lost, _, err := parts.Store.Record(t.Context(), session, half, nil)
					require.NoError(t, err)
					require.Empty(t, lost)
					time.Sleep(3 * time.Minute)
				}
				require.NoError(t, parts.Store.CloseSession(t.Context(), session))
				b := &topicAway{
					Bus: parts.Bus("one"), away: away,
					published: map[bus.Topic]map[string]int{bus.Outcomes: {}, bus.TasksDead: {}},
				}
				svc, err := scheduler.New(scheduler.Options{
					Store:      parts.Store,
					Bus:        b,
					IDs:        parts.IDs,
					Name:       "one",
					Now:        time.Now,
					Logger:     zerolog.Nop(),
					Registerer: prometheus.NewRegistry(),
				})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- svc.Run(ctx) }()
				time.Sleep(2 * time.Minute)
				cancel()
				require.NoError(t, <-ended)
				require.Len(t, b.published[bus.Outcomes], len(fires))
				require.Len(t, b.published[bus.TasksDead], len(fires)/2)
				for topic, of := range b.published {
					for fire, n := range of {
						require.Equal(
							t,
							2,
							n,
							"%s of %s: at once, and when no more can commit",
							fire,
							topic,
						)
					}
				}
			})
		})
	}
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
