package history

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/memstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/upcoming"
)

// largeTimers is a store whose timers have large bodies.
type largeTimers struct{ Store }

const largeCount = 250

func (largeTimers) Count(context.Context, store.SearchQuery) (store.SearchCount, error) {
	return store.SearchCount{N: largeCount}, nil
}

func (largeTimers) Search(
	_ context.Context,
	q store.SearchQuery,
) (page store.SearchPage, _ error) {
	if q.Status != timer.StatusActive {
		return page, nil
	}
	for id := q.After.ID + 1; id <= largeCount && len(page.Timers) < q.Limit; id++ {
		page.Timers = append(page.Timers, timer.Timer{ID: id, Definition: timer.Definition{
			Schedule: timer.Schedule{Kind: timer.KindCron},
			Target:   timer.Target{Body: strings.Repeat("x", int(id))},
		}})
		page.Next.ID, page.More = id, id < largeCount
	}
	return page, nil
}

// TestLoadKeepsNoTargets checks that the bodies of thousands of timers are not kept at once.
func TestLoadKeepsNoTargets(t *testing.T) {
	t.Parallel()
	s := New(Options{Store: largeTimers{}, Upcoming: &upcoming.Finder{}})
	var left leftOutBody
	timers, err := s.scheduled(t.Context(), "shop", &upcoming.Load{}, &left)
	require.NoError(t, err)
	require.Zero(t, left)
	require.Len(t, timers, largeCount)
	for i := range timers {
		require.Equal(t, timer.KindCron, timers[i].Definition.Schedule.Kind)
		require.Zero(t, timers[i].Definition.Target)
	}
}

// TestLoadOfManyTimers checks that an app with more timers than are examined shows what is due next,
// not what it created first.
func TestLoadOfManyTimers(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	all := memstore.New(clock)
	s := New(Options{
		Store: all, Upcoming: &upcoming.Finder{Store: all, Now: clock}, Now: clock,
	})
	s.maxTimers = 20
	create := func(n int, after time.Duration) {
		t.Helper()
		at := now.Add(after)
		for i := range n {
			made, err := all.Create(t.Context(), []store.NewTimer{{
				App: "shop", Name: fmt.Sprint(after, "-", i), Activate: true,
				Definition: timer.Definition{Schedule: timer.Schedule{Kind: timer.KindAt, At: &at}},
			}}, func(*timer.Timer, int64) store.Plan {
				return store.Plan{NextDueMS: at.UnixMilli(), ExpandAtMS: at.UnixMilli()}
			})
			require.NoError(t, err)
			require.NoError(t, made[0].Err)
		}
	}
	load := func() (total int64, left leftOutBody) {
		t.Helper()
		l := &upcoming.Load{
			FromMS: now.UnixMilli(), ToMS: now.Add(24 * time.Hour).UnixMilli(), Budget: 1000,
		}
		timers, err := s.scheduled(t.Context(), "shop", l, &left)
		require.NoError(t, err)
		require.NoError(t, s.Upcoming.Add(t.Context(), l, timers))
		for _, n := range l.Minutes {
			total += n
		}
		return total, left
	}
	create(20, 72*time.Hour)
	total, left := load()
	require.Zero(t, total)
	require.Zero(t, left)

	create(5, 2*time.Hour)
	total, left = load()
	require.EqualValues(t, 5, total)
	require.Equal(t, leftOutBody{MoreTimers: true}, left)

	create(20, 3*time.Hour)
	create(20, time.Hour)
	total, left = load()
	require.EqualValues(t, 20, total)
	due := "2030-01-02T11:00:00.000Z"
	require.Equal(t, leftOutBody{MoreTimers: true, DueAfter: due}, left)
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
