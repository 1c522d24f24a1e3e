package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
