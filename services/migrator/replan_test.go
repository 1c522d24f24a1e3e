package migrator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/migrator"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// onePage lets a migrator die in its first page, before or after the commit, and before it
// dispatches fires. It leaves everything to the follow-up.
type onePage struct {
	migrator.Store

	die func()
}

func (s *onePage) ContinueReplans(
	ctx context.Context,
	plan store.Planner,
) (fires []timer.Fire, more bool, err error) {
	_, more, err = s.Store.ContinueReplans(ctx, plan)
	s.die()
	<-ctx.Done()
	return nil, more, err
}

func (s *onePage) Expand(
	context.Context,
	int,
	store.Planner,
) (fires []timer.Fire, timers int, err error) {
	return nil, 0, nil
}

// TestFollowUpIsContinuedByOthers lets each of many migrators die after a page.
func TestFollowUpIsContinuedByOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		old := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))
		time.Sleep(1500 * time.Millisecond)
		edited, err := parts.Store.Edit(t.Context(), []store.Edit{{
			App:        "a",
			ID:         old[0].Timer,
			Definition: servicetest.Cron("*/2 * * * * *", "http://127.0.0.1/"),
		}}, parts.Plan)
		require.NoError(t, err)
		require.NoError(t, edited[0].Err)
		small, err := expansion.New(expansion.Options{Counts: parts.Counts, Max: 20})
		require.NoError(t, err)
		deaths := 0
		undecided := func() int {
			ids := make([]timer.FireID, len(old))
			for i := range old {
				ids[i] = old[i].FireID
			}
			left, err := parts.Store.Replanning(t.Context(), ids)
			require.NoError(t, err)
			return len(left)
		}
		require.Greater(t, undecided(), 200)
		parts.Store.SetFaults(sqlstore.Faults{Seed: 1, FailBefore: .3, FailAfter: .3})
		for undecided() > 0 {
			ctx, die := context.WithCancel(t.Context())
			svc, err := migrator.New(migrator.Options{
				Store:      &onePage{Store: parts.Store, die: die},
				Dispatch:   &counter{fires: make(map[timer.FireID]int)},
				Bus:        parts.Bus("migrator"),
				Planner:    small,
				Counts:     parts.Counts,
				Now:        time.Now,
				Workers:    1,
				Logger:     parts.Log,
				Registerer: prometheus.NewRegistry(),
			})
			require.NoError(t, err)
			require.NoError(t, svc.Run(ctx))
			deaths++
			require.Less(t, deaths, 100)
		}
		require.Greater(t, deaths, 4)
		parts.Store.SetFaults(sqlstore.Faults{})
		at := edited[0].Timer.VersionMS
		for _, f := range old {
			rec, err := parts.Store.Fire(t.Context(), "a", f.FireID)
			require.NoError(t, err)
			require.NotNil(t, rec.Open)
			require.Equal(t, f.DueMS > at && f.DueMS%2000 == 0, rec.Open.Version == 2)
		}
		tm, err := parts.Store.Timer(t.Context(), "a", old[0].Timer)
		require.NoError(t, err)
		past, present := int64(0), (tm.NextDueMS-at/2000*2000)/2000-1
		for _, f := range old {
			if f.DueMS <= at {
				past++
			}
		}
		require.Equal(t, past+present, tm.FiresCreated)
	})
}
