package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func searchesSelect(t *testing.T, s *setup) { searchRandomly(newSearcher(s)) }

// Searches is the test of S34 for a store whose searches examine little at once. It leaves out the
// order by the latest outcomes, which such a store cannot sort.
func Searches(t *testing.T, env Env) {
	t.Helper()
	r := newSearcher(newSetup(t, env))
	r.small = true
	searchRandomly(r)
}

func searchRandomly(r *searcher) {
	r.t.Helper()
	r.makeTimers(150)
	for range 3 {
		r.recordOutcomes()
		for range 80 {
			r.requireSame(r.query())
		}
		r.changeTimers()
	}
	r.requireSame(store.SearchQuery{Filter: store.Filter{App: "app"}, Limit: 500})
	r.requireSame(store.SearchQuery{Filter: store.Filter{App: "nobody"}, Limit: 5})
}

// searchesFindFirstFires searches for timers that are due several times before they are expanded
// again.
func searchesFindFirstFires(t *testing.T, s *setup) {
	now := s.nowMS()
	dues := map[timer.ID][]int64{}
	var q store.SearchQuery
	q.App, q.Limit, q.Sort = "app", 10, store.SortNextDue
	q.NextDue = func(_ context.Context, t *timer.Timer) (int64, error) {
		if all := dues[t.ID]; t.Status == timer.StatusActive && len(all) > 0 {
			return all[0], nil
		}
		return timer.NeverMS, nil
	}
	var want []timer.ID
	for i := range int64(4) {
		first := now + (4-i)*5*timer.MinuteMS
		n := s.newTimer()
		n.Activate = true
		c := s.create(n, planAt(0, first, first+timer.MinuteMS, now+(50-i)*timer.MinuteMS))
		dues[c.Timer.ID] = []int64{first}
		want = append(want, c.Timer.ID)
	}
	slices.Reverse(want)
	idle := s.create(s.newTimer(), noFires)
	requireIDs := func(want ...timer.ID) {
		t.Helper()
		page, err := s.st().Search(t.Context(), q)
		require.NoError(t, err)
		var got []timer.ID
		for i := range page.Timers {
			got = append(got, page.Timers[i].ID)
		}
		require.Equal(t, want, got)
		count, err := s.st().Count(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, store.SearchCount{N: len(want)}, count)
	}
	requireIDs(append(slices.Clone(want), idle.Timer.ID)...)
	q.DueToMS = now + 12*timer.MinuteMS
	requireIDs(want[:2]...)
	q.DueFromMS, q.DueToMS = now+8*timer.MinuteMS, 0
	requireIDs(want[1:]...)
	q.DueFromMS, q.DueToMS = now+12*timer.MinuteMS, now+18*timer.MinuteMS
	requireIDs(want[2])
}

// lastOutcomesIgnoreEdits checks that the fires which an edit ends are not the latest outcome, also
// where they would have been due after those that were called.
func lastOutcomesIgnoreEdits(t *testing.T, s *setup) {
	now := s.nowMS()
	due := now + time.Hour.Milliseconds()
	made := s.gridTimer(oneShot(due), planOneShot)
	s.edit(made.Timer, oneShot(2*due-now), planOneShot)
	require.Equal(t, timer.ReasonSuperseded, s.fire(made.Fires[0]).Outcome.Reason)
	id := made.Timer.ID
	last := func(kind timer.OutcomeKind) map[timer.ID]timer.Outcome {
		page, err := s.st().Search(t.Context(), store.SearchQuery{
			Filter: store.Filter{App: "app", LastOutcome: kind}, Limit: 3,
		})
		require.NoError(t, err)
		require.Len(t, page.Timers, 1, kind)
		out, err := s.st().LastOutcomes(t.Context(), []timer.ID{id})
		require.NoError(t, err)
		return out
	}
	require.Empty(t, last(store.OutcomeNone))

	fires, err := s.st().AddFires(t.Context(), "app", id, []timer.Fire{{
		FireID:  timer.FireID{Timer: id, DueMS: now, Series: int64(s.ids.Next())},
		RunAtMS: now,
		Cause:   timer.CauseRunNow,
	}})
	require.NoError(t, err)
	session := s.session()
	won := s.claim(session, fires)
	require.Len(t, won, 1)
	lost, _, err := s.st().Record(
		t.Context(),
		session,
		[]timer.Outcome{delivered(won[0], now)},
		nil,
	)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Equal(t, won[0].FireID, last(timer.Delivered)[id].FireID)
}

// searchesRefuse searches for what no store can tell.
func searchesRefuse(t *testing.T, s *setup) {
	for _, q := range []store.SearchQuery{
		{Sort: "age"},
		{Sort: store.SortNextDue},
		{Filter: store.Filter{DueFromMS: 1}},
		{Filter: store.Filter{DueToMS: 1}},
	} {
		q.App = "app"
		_, err := s.st().Search(t.Context(), q)
		requireCode(t, timer.CodeInvalid, err)
	}
	for n := store.SortExact + 1; n > 0; n -= store.MaxBatch {
		var items []store.NewTimer
		for range min(n, store.MaxBatch) {
			items = append(items, s.newTimer())
		}
		_, err := s.st().Create(t.Context(), items, noFires)
		require.NoError(t, err)
	}
	q := store.SearchQuery{Filter: store.Filter{App: "app"}, Sort: store.SortLastFired, Limit: 3}
	_, err := s.st().Search(t.Context(), q)
	requireCode(t, timer.CodeInvalid, err)
	q.NamePrefix = "t99"
	page, err := s.st().Search(t.Context(), q)
	require.NoError(t, err)
	require.Len(t, page.Timers, 3)
	require.True(t, page.More)
}

// searchesBoundPagesByBodies has timers of which three fill a page, and one that is larger than a
// page.
func searchesBoundPagesByBodies(t *testing.T, s *setup) {
	const size = 1000
	const n = 10
	for i := range n {
		item := s.newTimer()
		item.Definition.Target.Body = strings.Repeat("x", size)
		if i == n/2 {
			item.Definition.Target.Body = strings.Repeat("x", n*size)
		}
		s.create(item, noFires)
	}
	for _, sort := range []store.Sort{store.SortID, store.SortName} {
		q := store.SearchQuery{
			Filter: store.Filter{App: "app"}, Sort: sort, Limit: n - 1, MaxBodyBytes: 3 * size,
		}
		var ids []timer.ID
		for more := true; more; {
			page, err := s.st().Search(t.Context(), q)
			require.NoError(t, err)
			_, bytes := (&store.SearchQuery{}).Fitting(page.Timers, 0)
			if len(page.Timers) != 1 {
				require.LessOrEqual(t, bytes, 3*size)
			}
			for i := range page.Timers {
				ids = append(ids, page.Timers[i].ID)
			}
			require.NotEmpty(t, page.Timers)
			more, q.After = page.More, page.Next
		}
		require.Len(t, ids, n)
		slices.Sort(ids)
		require.Len(t, slices.Compact(ids), n)
	}
}

// searchesSeeConcurrentChanges searches while timers are created and deleted. Those that nobody
// changes must be on the pages, once each.
func searchesSeeConcurrentChanges(t *testing.T, s *setup) {
	r := newSearcher(s)
	r.makeTimers(100)
	var q store.SearchQuery
	q.App, q.Limit = "app", 7
	want := r.want(&q)
	s.together(4, func(ctx context.Context, i int, st store.Store) error {
		if i < 2 {
			return makeAndDelete(ctx, st, i, r.timers[want[0]].Definition)
		}
		for range 5 {
			seen := map[timer.ID]int{}
			mine := q
			for more := true; more; {
				page, err := st.Search(ctx, mine)
				if err != nil {
					return err //nolint:wrapcheck // of the store
				}
				for j := range page.Timers {
					seen[page.Timers[j].ID]++
				}
				mine.After, more = page.Next, page.More
			}
			for _, id := range want {
				if seen[id] != 1 {
					return fmt.Errorf("timer %d is there %d times", id, seen[id])
				}
			}
		}
		return nil
	})
}

func makeAndDelete(ctx context.Context, st store.Store, i int, d timer.Definition) error {
	for n := range 10 {
		item := store.NewTimer{App: "app", Name: fmt.Sprint(i, n), Definition: d}
		out, err := st.Create(ctx, []store.NewTimer{item}, noFires)
		if err != nil {
			return err //nolint:wrapcheck // of the store
		}
		gone := store.StatusChange{App: "app", ID: out[0].Timer.ID, Status: timer.StatusDeleted}
		if _, err := st.SetStatus(ctx, []store.StatusChange{gone}, noFires); err != nil {
			return err //nolint:wrapcheck // of the store
		}
	}
	return nil
}

// filter returns a random filter.
func (s *searcher) filter() store.Filter {
	f := store.Filter{App: "app"}
	if s.rand.IntN(4) == 0 {
		f.Status = timer.Status(s.one("active", "inactive", "paused"))
	}
	if s.rand.IntN(4) == 0 {
		f.NamePrefix = s.one("b", "bill-", "bill-x", "ä", "ä%", "%", "\U0010ffff")
	}
	if s.rand.IntN(4) == 0 {
		f.NameContains = s.one("-", "Y", "y", "%", "_1", "11", "\"'")
	}
	if s.rand.IntN(4) == 0 {
		f.TargetHost = s.one("a", "b.example", "d.example", "none")
	}
	if s.rand.IntN(4) == 0 {
		f.LastOutcome = timer.OutcomeKind(s.one("none", "delivered", "failed", "skipped"))
	}
	if s.rand.IntN(4) == 0 {
		f.DueFromMS = s.nowMS() + s.rand.Int64N(200)*timer.MinuteMS
	}
	if s.rand.IntN(4) == 0 {
		f.DueToMS = s.nowMS() + s.rand.Int64N(200)*timer.MinuteMS
	}
	if s.rand.IntN(3) > 0 {
		var err error
		f.Labels, err = selector.Parse(s.one(
			"team=pay", "team!=pay", "team", "!team", "all", "all=1,team in (pay,dev)",
			"env notin (dev,pay)", `team="a b",env!=dev`, `"größe, cm" in ("",Pay),all`,
			"team=pay,env=pay", "team in (pay,dev,Pay),env in (pay,dev,Pay)", "team=",
			"missing", "!missing,all", "team=pay,team!=dev,team",
		))
		require.NoError(s.t, err)
	}
	return f
}

// query returns a random query.
func (s *searcher) query() store.SearchQuery {
	q := store.SearchQuery{
		Filter:  s.filter(),
		Sort:    store.Sort(s.one("", "name", "next_due", "last_fired")),
		Desc:    s.rand.IntN(2) == 0,
		Limit:   1 + s.rand.IntN(40),
		NextDue: s.nextDue,
	}
	if s.small && q.Sort == store.SortLastFired {
		q.Sort = store.SortNextDue
	}
	return q
}
