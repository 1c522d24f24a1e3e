package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/bus/pulsartopics"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/testenv"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/scheduler"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// lostAcks is a store whose first acknowledgement of the audit feed is lost. It counts leases.
type lostAcks struct {
	scheduler.Store
	lost   atomic.Bool
	leases atomic.Int32
}

func (s *lostAcks) LeaseAuditFeed(
	ctx context.Context, lease time.Duration,
) (store.AuditLease, bool, error) {
	s.leases.Add(1)
	return s.Store.LeaseAuditFeed(ctx, lease)
}

func (s *lostAcks) AckAudit(ctx context.Context, seq int64) error {
	if s.lost.CompareAndSwap(false, true) {
		return errors.New("the connection is lost")
	}
	return s.Store.AckAudit(ctx, seq)
}

// TestAuditTrailIsPublished runs two schedulers. Each entry is published in order, and again only
// where its acknowledgement was lost.
func TestAuditTrailIsPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		told := new(collector[string])
		listen(t, parts.Bus("listener"), bus.Audit, "listener", func(m bus.Message) error {
			e := new(carillonv1.AuditEntry)
			require.NoError(t, proto.Unmarshal(m.Payload, e))
			require.Equal(t, m.Key, e.GetApp())
			told.add(e.GetName() + " by " + e.GetActorId())
			return nil
		})
		by := &store.Actor{Kind: store.ActorPerson, ID: "ada"}
		ctx := store.WithActor(t.Context(), by)
		var want []string
		add := func(n int) {
			e, err := store.AuditTestCalled(0, fmt.Sprint("n", n), nil)
			require.NoError(t, err)
			require.NoError(t, parts.Store.AddAudit(ctx, "shop", e))
			want = append(want, fmt.Sprintf("n%d by ada", n))
		}
		add(0)
		add(1)
		st := &lostAcks{Store: parts.Store}
		for _, name := range []string{"one", "two"} {
			_, stop := startWith(t, parts, name, func(o *scheduler.Options) { o.Store = st })
			defer stop()
		}
		time.Sleep(store.AuditDelay - 10*time.Second)
		synctest.Wait()
		require.Empty(t, told.list(), "they are too young")
		require.Zero(t, st.leases.Load(), "without an entry nothing is written")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, append(want, want...), told.list(), "the first time without an answer")
		leased := st.leases.Load()
		time.Sleep(10 * time.Minute)
		require.LessOrEqual(
			t,
			st.leases.Load(),
			leased+2,
			"each scheduler learns once what is published",
		)
		add(2)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, want[2:], told.list()[4:])
	})
}

// failures counts the rounds that failed.
const failures = "carillon_scheduler_errors_total"

// slowFeed is a store and a bus that take their time. It counts leases and releases.
type slowFeed struct {
	scheduler.Store
	bus.Publisher
	read, publish    time.Duration
	leases, releases atomic.Int32
}

func (s *slowFeed) LeaseAuditFeed(
	ctx context.Context, lease time.Duration,
) (store.AuditLease, bool, error) {
	l, ok, err := s.Store.LeaseAuditFeed(ctx, lease)
	if ok {
		s.leases.Add(1)
	}
	return l, ok, err
}

func (s *slowFeed) ReleaseAuditFeed(ctx context.Context, l store.AuditLease) error {
	s.releases.Add(1)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.Store.ReleaseAuditFeed(ctx, l)
}

func (s *slowFeed) PendingAudit(
	ctx context.Context, after int64, delay time.Duration, limit int,
) ([]store.AuditEntry, error) {
	if err := takes(ctx, s.read); err != nil {
		return nil, err
	}
	return s.Store.PendingAudit(ctx, after, delay, limit)
}

func (s *slowFeed) Publish(ctx context.Context, topic bus.Topic, msgs ...bus.Message) error {
	if topic == bus.Audit {
		if err := takes(ctx, s.publish); err != nil {
			return err
		}
	}
	return s.Publisher.Publish(ctx, topic, msgs...)
}

// takes waits as long as a call takes, unless its context ends before.
func takes(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// slowAudit runs a scheduler with a slow feed. told has the names of published entries; add adds n
// entries, whose names are numbers in their order.
func slowAudit(t *testing.T, feed *slowFeed) (
	told *collector[string], add func(n int), reg *prometheus.Registry, stop func(),
) {
	t.Helper()
	parts := servicetest.New(t, servicetest.Options{})
	told = new(collector[string])
	listen(t, parts.Bus("listener"), bus.Audit, "listener", func(m bus.Message) error {
		e := new(carillonv1.AuditEntry)
		require.NoError(t, proto.Unmarshal(m.Payload, e))
		told.add(e.GetName())
		return nil
	})
	ctx := store.WithActor(t.Context(), &store.Actor{Kind: store.ActorPerson, ID: "ada"})
	added := 0
	add = func(n int) {
		for range n {
			e, err := store.AuditTestCalled(0, strconv.Itoa(added), nil)
			require.NoError(t, err)
			require.NoError(t, parts.Store.AddAudit(ctx, "shop", e))
			added++
		}
	}
	reg = prometheus.NewRegistry()
	feed.Store, feed.Publisher = parts.Store, parts.Bus("one")
	_, stop = startWith(t, parts, "one", func(o *scheduler.Options) {
		o.Store, o.Bus, o.Registerer = feed, feed, reg
	})
	return told, add, reg, stop
}

// TestSteadyEntriesEndRounds adds entries all the time, so that no page after the first is empty.
func TestSteadyEntriesEndRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		feed := &slowFeed{read: 100 * time.Millisecond}
		told, add, reg, stop := slowAudit(t, feed)
		defer stop()
		const rounds = 50 * 60
		for n := range rounds {
			add(1)
			time.Sleep(20 * time.Millisecond)
			if at := time.Duration(n) * 20 * time.Millisecond; at > 40*time.Second {
				late := at - store.AuditDelay - 6*time.Second // the tick and a page
				require.GreaterOrEqual(t, len(told.list()), int(late/(20*time.Millisecond)))
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		requireNames(t, told.list(), rounds)
		require.Zero(t, counter(t, reg, failures))
		require.Equal(t, feed.leases.Load(), feed.releases.Load())
		require.Greater(t, feed.leases.Load(), int32(5))
	})
}

// TestBacklogOfEntriesIsPublishedInRounds has more full pages than a round can publish. A round that
// is over begins no page, and the next one goes on at once.
func TestBacklogOfEntriesIsPublishedInRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		feed := &slowFeed{publish: 4 * time.Second}
		told, add, reg, stop := slowAudit(t, feed)
		defer stop()
		const pages = 9
		add(pages * store.MaxBatch)
		time.Sleep(store.AuditDelay + 5*time.Second + pages*feed.publish)
		synctest.Wait()
		requireNames(t, told.list(), pages*store.MaxBatch)
		require.Zero(t, counter(t, reg, failures))
		require.Equal(t, feed.leases.Load(), feed.releases.Load())
	})
}

// TestRoundThatIsCutOff is about pages that take nearly as long as a round. The second is cut off,
// which is no error. A round without any page is one.
func TestRoundThatIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		feed := &slowFeed{publish: 12 * time.Second}
		told, add, reg, stop := slowAudit(t, feed)
		add(2 * store.MaxBatch)
		time.Sleep(store.AuditDelay + 90*time.Second)
		synctest.Wait()
		requireNames(t, told.list(), 2*store.MaxBatch)
		require.Zero(t, counter(t, reg, failures))
		require.Equal(t, feed.leases.Load(), feed.releases.Load())
		stop()

		feed = &slowFeed{publish: time.Minute}
		told, add, reg, stop = slowAudit(t, feed)
		add(1)
		time.Sleep(store.AuditDelay + 30*time.Second)
		synctest.Wait()
		require.Empty(t, told.list())
		require.NotZero(t, counter(t, reg, failures))
		require.Zero(t, feed.releases.Load(), "the lease is the pause before the next try")
		stop()
	})
}

// requireNames requires the names 0 to n-1 in order, each once.
func requireNames(t *testing.T, names []string, n int) {
	t.Helper()
	require.Len(t, names, n)
	for i := range names {
		require.Equal(t, strconv.Itoa(i), names[i])
	}
}

// TestWithoutAuditTopicNothingIsPublished is about a bus that nobody outside of the process reads.
func TestWithoutAuditTopicNothingIsPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		told := new(collector[string])
		listen(t, parts.Bus("listener"), bus.Audit, "listener", func(m bus.Message) error {
			told.add(m.Key)
			return nil
		})
		e, err := store.AuditTestCalled(0, "n", nil)
		require.NoError(t, err)
		ctx := store.WithActor(t.Context(), &store.Actor{Kind: store.ActorPerson, ID: "ada"})
		require.NoError(t, parts.Store.AddAudit(ctx, "shop", e))
		st := &lostAcks{Store: parts.Store}
		_, stop := startWith(t, parts, "one", func(o *scheduler.Options) {
			o.Store, o.NoAuditTopic = st, true
		})
		defer stop()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Empty(t, told.list())
		require.Zero(t, st.leases.Load())
	})
}

// TestAuditTrailOnPulsar publishes the trail to a real Pulsar, which keeps it for who comes later.
func TestAuditTrailOnPulsar(t *testing.T) {
	t.Parallel()
	place := testenv.Pulsar(t)
	b, err := pulsarbus.New(pulsarbus.Options{Log: zerolog.Nop(), Config: pulsarbus.Config{
		URL: place.URL, AdminURL: place.AdminURL, Tenant: place.Tenant, Namespace: place.Namespace,
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.NoError(t, b.Setup(t.Context(), bus.Topics(1)))
	topics, err := pulsartopics.New(pulsartopics.Config{
		AdminURL: place.AdminURL, Tenant: place.Tenant, Namespace: place.Namespace,
	})
	require.NoError(t, err)
	defer topics.Close()

	parts := servicetest.New(t, servicetest.Options{})
	ctx := store.WithActor(t.Context(), &store.Actor{Kind: store.ActorKey, ID: "k"})
	for n := range 3 {
		e, err := store.AuditTestCalled(0, fmt.Sprint("n", n), nil)
		require.NoError(t, err)
		require.NoError(t, parts.Store.AddAudit(ctx, "shop", e))
	}
	_, stop := startWith(t, parts, "pulsar", func(o *scheduler.Options) {
		o.Bus, o.AuditDelay = b, time.Nanosecond
	})
	defer stop()
	require.Eventually(t, func() bool {
		msgs, err := topics.PeekLatest(t.Context(), bus.Audit, pulsartopics.MaxPeek)
		var names []string
		for _, m := range msgs {
			e := new(carillonv1.AuditEntry)
			require.NoError(t, proto.Unmarshal(m.Raw, e))
			names = append(names, e.GetName())
		}
		slices.Sort(names) // peeks begin with the latest
		return err == nil && slices.Equal(names, []string{"n0", "n1", "n2"})
	}, time.Minute, 200*time.Millisecond)
}
