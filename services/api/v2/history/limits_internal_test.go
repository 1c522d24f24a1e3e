package history

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// largeTimers is a store whose timers have large bodies.
type largeTimers struct{ Store }

func (largeTimers) List(_ context.Context, q store.Query) ([]timer.Timer, error) {
	var page []timer.Timer
	for id := q.After + 1; id <= 250 && len(page) < q.Limit && q.Status == timer.StatusActive; id++ {
		page = append(page, timer.Timer{ID: id, Definition: timer.Definition{
			Schedule: timer.Schedule{Kind: timer.KindCron},
			Target:   timer.Target{Body: strings.Repeat("x", int(id))},
		}})
	}
	return page, nil
}

// TestLoadKeepsNoTargets checks that the bodies of thousands of timers are not kept at once.
func TestLoadKeepsNoTargets(t *testing.T) {
	t.Parallel()
	s := &Resource{Options: Options{Store: largeTimers{}}}
	timers, more, err := s.scheduled(t.Context(), "shop")
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, timers, 250)
	for i := range timers {
		require.Equal(t, timer.KindCron, timers[i].Definition.Schedule.Kind)
		require.Zero(t, timers[i].Definition.Target)
	}
}

// oneInstant is a history whose outcomes all finished in one millisecond.
type oneInstant struct{ store.AppHistory }

const instantFires = 30_000

func (oneInstant) Outcomes(
	_ context.Context,
	q store.OutcomeQuery,
) (page store.OutcomePage, _ error) {
	for at := q.After.FireID.Series; len(page.Outcomes) < q.Limit && at < instantFires; {
		at++
		o := timer.Outcome{Kind: timer.Delivered, FinishedMS: 1000, Count: 1}
		o.Fire.FireID = timer.FireID{Timer: 1, DueMS: 1, Series: at}
		page.Outcomes = append(page.Outcomes, o)
		if at < instantFires {
			page.Next = store.PositionOf(&o)
		} else {
			page.Next = store.OutcomePosition{}
		}
	}
	return page, nil
}

// TestCountMakesProgress checks that a truncated count can be continued, however many fires finished in
// one millisecond.
func TestCountMakesProgress(t *testing.T) {
	t.Parallel()
	c := &counter{
		store: oneInstant{}, stepMS: time.Minute.Milliseconds(),
		steps: map[int64]*counts{}, total: newCounts(), fromMS: 1001,
	}
	q := store.OutcomeQuery{App: "shop", FromMS: 1, ToMS: 1001}
	require.NoError(t, c.countRows(t.Context(), q, newLabelMatcher(nil, nil)))
	require.Less(t, c.fromMS, int64(1001))
	require.EqualValues(t, instantFires, c.total.byKind[timer.Delivered])
}
