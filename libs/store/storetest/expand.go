package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// everySecond plans the next n seconds of a timer, and is due for expansion again at once.
func everySecond(n int) store.Planner {
	return func(t *timer.Timer, nowMS int64) store.Plan {
		from := max(t.NextDueMS, (nowMS/1000+1)*1000)
		p := store.Plan{NextDueMS: from + int64(n)*1000, ExpandAtMS: nowMS}
		for i := range n {
			p.Fires = append(p.Fires, timer.Fire{
				FireID: timer.FireID{
					Timer: t.ID,
					DueMS: from + int64(i)*1000,
				},
				RunAtMS: from + int64(i)*1000,
			})
		}
		return p
	}
}

// toExpand creates n active timers that are due for expansion.
func (s *setup) toExpand(n int) []timer.Timer {
	s.t.Helper()
	var out []timer.Timer
	for range n {
		item := s.newTimer()
		item.Activate = true
		out = append(out, s.create(item, func(t *timer.Timer, nowMS int64) store.Plan {
			return store.Plan{NextDueMS: t.NextDueMS, ExpandAtMS: nowMS}
		}).Timer)
	}
	return out
}

// expandsInTurns makes many timers due for expansion, and then two more: one as them, and an active
// one. The first call takes these, too, and no timer is left.
func expandsInTurns(t *testing.T, s *setup) {
	const many, limit = 30, 10
	later := func(_ *timer.Timer, nowMS int64) store.Plan {
		return store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: nowMS + time.Hour.Milliseconds()}
	}
	for name, made := range map[string]func(n int) []timer.Timer{
		"active": s.toExpand,
		"pauses that end": func(n int) []timer.Timer {
			ts := s.toExpand(n)
			for _, tm := range ts {
				s.pause(tm, "short", s.nowMS()-1, noFires)
			}
			return ts
		},
	} {
		made(many)
		s.until(s.nowMS() + 2)
		latest := append(s.toExpand(1), made(1)...)
		n, oldestMS, err := s.st().ExpandBacklog(t.Context(), 1000)
		require.NoError(t, err)
		require.Equal(t, many+2, n, name)
		require.Less(t, oldestMS, latest[0].ExpandAtMS, name)
		taken := map[timer.ID]bool{}
		for calls := 0; ; calls++ {
			_, n, err := s.st().
				Expand(t.Context(), limit, func(tm *timer.Timer, nowMS int64) store.Plan {
					require.False(t, taken[tm.ID], name)
					taken[tm.ID] = true
					return later(tm, nowMS)
				})
			require.NoError(t, err)
			require.LessOrEqual(t, n, limit, name)
			if calls == 0 {
				require.True(t, taken[latest[0].ID], name)
				require.True(t, taken[latest[1].ID], name)
			}
			if 4*n < limit {
				break
			}
		}
		require.Len(t, taken, many+2, name)
	}
}

func expandOnceEach(t *testing.T, s *setup) {
	const timers, each = 60, 5
	made := s.toExpand(timers)
	n, oldest, err := s.st().ExpandBacklog(t.Context(), 1000)
	require.NoError(t, err)
	require.Equal(t, timers, n)
	require.InDelta(t, s.nowMS(), oldest, 120_000)
	n, _, err = s.st().ExpandBacklog(t.Context(), 7)
	require.NoError(t, err)
	require.Equal(t, 7, n)

	var mu sync.Mutex
	seen := map[timer.FireID]int{}
	taken := 0
	plan := func(tm *timer.Timer, nowMS int64) store.Plan {
		p := everySecond(each)(tm, nowMS)
		p.ExpandAtMS = nowMS + time.Hour.Milliseconds()
		return p
	}
	s.together(8, func(ctx context.Context, _ int, st store.Store) error {
		for {
			fires, n, err := st.Expand(ctx, 7, plan)
			if err != nil {
				return err
			}
			mu.Lock()
			taken += n
			for _, f := range fires {
				seen[f.FireID]++
			}
			mu.Unlock()
			if n == 0 {
				// Other calls may still have some locked, and will finish them.
				return nil
			}
		}
	})
	for {
		fires, n, err := s.st().Expand(t.Context(), 7, plan)
		require.NoError(t, err)
		for _, f := range fires {
			seen[f.FireID]++
		}
		if taken += n; n == 0 {
			break
		}
	}
	require.Equal(t, timers, taken)
	require.Len(t, seen, timers*each)
	for id, n := range seen {
		require.Equal(t, 1, n, "%v", id)
	}
	for _, tm := range made {
		got, err := s.st().Timer(t.Context(), "app", tm.ID)
		require.NoError(t, err)
		require.EqualValues(t, each, got.FiresCreated)
		require.Equal(t, timer.StatusActive, got.Status)
		require.Equal(t, tm.Name, got.Name)
	}
	n, oldest, err = s.st().ExpandBacklog(t.Context(), 1000)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Zero(t, oldest)
}

func expandContinues(t *testing.T, s *setup) {
	tm := s.toExpand(1)[0]
	s.toExpand(1)
	s.setStatus(s.toExpand(1)[0], timer.StatusInactive, noFires)
	var mine []timer.Fire
	for range 3 {
		fires, n, err := s.st().Expand(t.Context(), 10, everySecond(400))
		require.NoError(t, err)
		require.Equal(t, 2, n, "an inactive timer is not expanded")
		for _, f := range fires {
			if f.Timer == tm.ID {
				mine = append(mine, f)
			}
		}
	}
	require.Len(t, mine, 1200)
	for i, f := range mine {
		require.Equal(t, mine[0].DueMS+int64(i)*1000, f.DueMS)
		require.Equal(t, tm.AppID, f.AppID)
		require.EqualValues(t, 1, f.Epoch)
	}
	got, err := s.st().Timer(t.Context(), "app", tm.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1200, got.FiresCreated)
	require.Equal(t, mine[1199].DueMS+1000, got.NextDueMS)
}

func failingPlanStopsNoOther(t *testing.T, s *setup) {
	made := s.toExpand(4)
	plan := func(tm *timer.Timer, nowMS int64) store.Plan {
		p := everySecond(2)(tm, nowMS)
		p.ExpandAtMS = nowMS + time.Hour.Milliseconds()
		switch tm.ID {
		case made[0].ID: // fails and names a later instant
			p.Err = errors.New("no such zone")
		case made[1].ID: // fails without naming one
			p = store.Plan{Err: errors.New("no such zone")}
		case made[2].ID: // repeats a fire, which must not be inserted
			p.Fires = append(p.Fires, p.Fires[1])
		}
		return p
	}
	fires, n, err := s.st().Expand(t.Context(), 10, plan)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	require.Len(t, fires, 2)
	require.Equal(t, made[3].ID, fires[0].Timer)
	_, n, err = s.st().Expand(t.Context(), 10, plan)
	require.NoError(t, err)
	require.Zero(t, n, "those that failed are postponed")
	for _, tm := range made[:3] {
		got, err := s.st().Timer(t.Context(), "app", tm.ID)
		require.NoError(t, err)
		require.Zero(t, got.FiresCreated)
		require.Zero(t, got.NextDueMS)
		require.Greater(t, got.ExpandAtMS, s.nowMS())
	}
}

func bucketsGrowUntilFrozen(t *testing.T, s *setup) {
	grow := func(gs ...slicing.Growth) []slicing.MinuteCount {
		t.Helper()
		out, err := s.st().GrowMinutes(t.Context(), gs)
		require.NoError(t, err)
		return out
	}
	got := grow(
		slicing.Growth{Minute: 7, Added: 10, Buckets: 1},
		slicing.Growth{Minute: 8, Added: 20, Buckets: 3},
	)
	require.ElementsMatch(t, []slicing.MinuteCount{
		{Minute: 7, Buckets: 1, Estimate: 10}, {Minute: 8, Buckets: 3, Estimate: 20},
	}, got)
	require.Equal(t, []slicing.MinuteCount{{Minute: 8, Buckets: 3, Estimate: 25}},
		grow(slicing.Growth{Minute: 8, Added: 5, Buckets: 2}), "it never shrinks")
	for range 2 {
		n, err := s.st().FreezeMinute(t.Context(), 8)
		require.NoError(t, err)
		require.EqualValues(t, 3, n)
	}
	require.Equal(t, []slicing.MinuteCount{{Minute: 8, Buckets: 3, Estimate: 30, Frozen: true}},
		grow(slicing.Growth{Minute: 8, Added: 5, Buckets: 9}))
	n, err := s.st().FreezeMinute(t.Context(), 9)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	counts, err := s.st().MinuteCounts(t.Context(), 7, 8)
	require.NoError(t, err)
	require.Len(t, counts, 2)
}

func concurrentGrowth(t *testing.T, s *setup) {
	const callers = 12
	frozen := make([]int32, callers)
	seen := make([]int32, callers)
	s.together(callers, func(ctx context.Context, i int, st store.Store) error {
		if i%4 == 3 {
			n, err := st.FreezeMinute(ctx, 5)
			frozen[i] = n
			return err
		}
		//nolint:gosec // small
		out, err := st.GrowMinutes(
			ctx,
			[]slicing.Growth{{Minute: 5, Added: 1, Buckets: int32(i + 1)}},
		)
		if err == nil {
			seen[i] = out[0].Buckets
		}
		return err
	})
	final, err := s.st().FreezeMinute(t.Context(), 5)
	require.NoError(t, err)
	for i := range callers {
		require.LessOrEqual(t, seen[i], final, "a returned count is committed")
		if i%4 == 3 {
			require.Equal(t, final, frozen[i])
		}
	}
	counts, err := s.st().MinuteCounts(t.Context(), 5, 5)
	require.NoError(t, err)
	require.EqualValues(t, callers*3/4, counts[0].Estimate)
}
