package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/scheduler"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// stallingStore is a store whose commits stall while its reads go on: what was recorded since is not
// visible.
type stallingStore struct {
	scheduler.Store
	since atomic.Int64 // when the stall began, in ms; 0: no stall
}

func (s *stallingStore) RenewSession(
	ctx context.Context, id timer.ID, load store.Load,
) (bool, error) {
	if s.since.Load() > 0 {
		<-ctx.Done()
		return false, errors.New("no answer to a commit")
	}
	return s.Store.RenewSession(ctx, id, load)
}

func (s *stallingStore) PendingEvents(
	ctx context.Context, id timer.ID, after store.OutcomePosition, untilMS int64, limit int,
) ([]timer.Outcome, error) {
	if at := s.since.Load(); at > 0 {
		untilMS = min(untilMS, at)
	}
	return s.Store.PendingEvents(ctx, id, after, untilMS, limit)
}

// PendingAudit leaves out the entries with the name "stalled".
func (s *stallingStore) PendingAudit(
	ctx context.Context, after int64, delay time.Duration, limit int,
) ([]store.AuditEntry, error) {
	page, err := s.Store.PendingAudit(ctx, after, delay, limit+1)
	if s.since.Load() > 0 {
		page = slices.DeleteFunc(page, func(e store.AuditEntry) bool { return e.Name == "stalled" })
	}
	return page[:min(limit, len(page))], err
}

// start runs a scheduler on the store for ten seconds. Then the stall begins.
func (s *stallingStore) start(t *testing.T, parts *servicetest.Parts) (stop func()) {
	t.Helper()
	_, stop = startWith(t, parts, "one", func(o *scheduler.Options) {
		s.Store, o.Store = o.Store, s
	})
	time.Sleep(10 * time.Second)
	s.since.Store(time.Now().UnixMilli())
	return stop
}

// outcomesOf collects the timers of the published outcomes.
func outcomesOf(t *testing.T, parts *servicetest.Parts) *collector[int64] {
	t.Helper()
	told := new(collector[int64])
	listen(t, parts.Bus("listener"), bus.Outcomes, "listener", func(m bus.Message) error {
		o := new(carillonv1.Outcome)
		require.NoError(t, proto.Unmarshal(m.Payload, o))
		told.add(o.GetTimerId())
		return nil
	})
	return told
}

// TestOutcomeWhoseCommitStalls is published after the stall.
func TestOutcomeWhoseCommitStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		told := outcomesOf(t, parts)
		d := servicetest.Cron("0 0 * * * *", "http://127.0.0.1/")
		d.Misfire = timer.Misfire{Policy: timer.MisfireSkip, Grace: timer.Duration(time.Second)}
		parts.Create("a", d)
		time.Sleep(24 * time.Hour)
		st := new(stallingStore)
		defer st.start(t, parts)()
		_, _, err := parts.Store.Expand(t.Context(), 10, parts.Plan)
		require.NoError(t, err)
		time.Sleep(10 * store.VisibilityDelay)
		synctest.Wait()
		require.Empty(t, told.list())
		st.since.Store(0)
		time.Sleep(2 * store.VisibilityDelay)
		synctest.Wait()
		require.Len(t, told.list(), 1)
	})
}

// TestLastOutcomeWhoseCommitStalls: the outcomes of an expired session are published, too.
func TestLastOutcomeWhoseCommitStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		told := outcomesOf(t, parts)
		session := parts.IDs.Next()
		require.NoError(
			t, parts.Store.OpenSession(t.Context(), store.Session{
				ID: session, Kind: store.ExecutorSession, Name: "gone",
			}),
		)
		fires := parts.Create("a", servicetest.Every(time.Now(), 0, 1, "http://127.0.0.1/")...)
		_, err := parts.Store.Claim(t.Context(), session, fires)
		require.NoError(t, err)
		st := new(stallingStore)
		defer st.start(t, parts)()
		lost, _, err := parts.Store.Record(t.Context(), session, []timer.Outcome{{
			Fire: fires[0], Kind: timer.Delivered, FinishedMS: time.Now().UnixMilli() + 1,
			UntilMS: fires[0].DueMS, Count: 1,
		}}, nil)
		require.NoError(t, err)
		require.Empty(t, lost)
		require.NoError(t, parts.Store.CloseSession(t.Context(), session))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		require.Empty(t, told.list())
		st.since.Store(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotEmpty(t, told.list())
	})
}

// TestAuditEntryWhoseCommitStalls is published after the stall.
func TestAuditEntryWhoseCommitStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		told := new(collector[string])
		listen(t, parts.Bus("listener"), bus.Audit, "listener", func(m bus.Message) error {
			e := new(carillonv1.AuditEntry)
			require.NoError(t, proto.Unmarshal(m.Payload, e))
			told.add(e.GetName())
			return nil
		})
		st := new(stallingStore)
		defer st.start(t, parts)()
		for _, name := range []string{"stalled", "later"} {
			e, err := store.AuditTestCalled(0, name, nil)
			require.NoError(t, err)
			by := store.WithActor(t.Context(), &store.Actor{Kind: store.ActorPerson, ID: "ada"})
			require.NoError(t, parts.Store.AddAudit(by, "shop", e))
		}
		time.Sleep(3 * store.AuditDelay)
		st.since.Store(0)
		time.Sleep(3 * store.AuditDelay)
		synctest.Wait()
		require.Equal(t, []string{"stalled", "later"}, told.list())
	})
}
