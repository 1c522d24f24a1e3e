package scheduler_test

import (
	"context"
	"errors"
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

// TestOutcomeWhoseCommitStalls is published after the stall.
func TestOutcomeWhoseCommitStalls(t *testing.T) {
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
		time.Sleep(24 * time.Hour)
		st := &stallingStore{}
		_, stop := startWith(t, parts, "one", func(o *scheduler.Options) {
			st.Store, o.Store = o.Store, st
		})
		defer stop()
		time.Sleep(time.Minute)
		st.since.Store(time.Now().UnixMilli())
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
