package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// searcher compares searches with filtering all timers in Go.
type searcher struct {
	*setup

	rand   *rand.Rand
	timers map[timer.ID]timer.Timer // of all apps, without deleted ones
}

func newSearcher(s *setup) *searcher {
	s.t.Helper()
	seed := rand.Uint64()
	s.t.Logf("seed %d", seed)
	return &searcher{
		setup:  s,
		rand:   rand.New(rand.NewPCG(seed, 0)),
		timers: map[timer.ID]timer.Timer{},
	}
}

// one returns one of the texts.
func (s *searcher) one(texts ...string) string { return texts[s.rand.IntN(len(texts))] }

// definition returns a random definition of few different labels and hosts.
func (s *searcher) definition() timer.Definition {
	d := definition("http://" + s.one("a", "b.example:8080", "B.example") + "/x")
	d.Labels = map[string]string{}
	for _, name := range []string{"team", "env", "größe, cm"} {
		if s.rand.IntN(3) > 0 {
			d.Labels[name] = s.one("", "pay", "dev", "Pay", "a b")
		}
	}
	d.Labels["all"] = "1"
	if s.rand.IntN(4) == 0 {
		d.Target, d.Mode = timer.Target{}, timer.ModeAll
		d.Targets = []timer.Target{
			{Kind: timer.KindGRPC, URL: "grpc://a:1", Name: "1"},
			{Kind: timer.KindPulsar, URL: "pulsar://c.example:6650,d.example:6650", Name: "2"},
		}
	}
	return d
}

// makeTimers creates timers. The app other has a few, too.
func (s *searcher) makeTimers(n int) {
	s.t.Helper()
	var items []store.NewTimer
	for i := range n {
		items = append(items, store.NewTimer{
			App: s.one("app", "app", "app", "other"),
			Name: fmt.Sprintf(
				"%s%s%d",
				s.one("bill-", "ship-", "ä%_"),
				s.one("x", "Y", ""),
				i,
			),
			Definition: s.definition(),
			Activate:   s.rand.IntN(2) == 0,
		})
	}
	out, err := s.st().Create(s.t.Context(), items, noFires)
	require.NoError(s.t, err)
	for i := range out {
		require.NoError(s.t, out[i].Err)
		s.timers[out[i].Timer.ID] = out[i].Timer
	}
}

// changeTimers edits some timers, pauses some, and deletes some. One call may have several changes
// of one timer.
func (s *searcher) changeTimers() {
	s.t.Helper()
	ctx := s.t.Context()
	var edits []store.Edit
	var changes []store.StatusChange
	for _, id := range s.sorted() {
		t := s.timers[id]
		for s.rand.IntN(3) == 0 {
			edits = append(edits, store.Edit{App: t.App, ID: id, Definition: s.definition()})
		}
		if s.rand.IntN(4) == 0 {
			changes = append(changes, store.StatusChange{
				App: t.App, ID: id,
				Status: timer.Status(s.one("active", "inactive", "paused", "deleted")),
			})
		}
	}
	edited, err := s.st().Edit(ctx, edits, noFires)
	require.NoError(s.t, err)
	for i := range edited {
		require.NoError(s.t, edited[i].Err)
		s.timers[edited[i].Timer.ID] = edited[i].Timer
	}
	changed, err := s.st().SetStatus(ctx, changes, noFires)
	require.NoError(s.t, err)
	for i := range changed {
		require.NoError(s.t, changed[i].Err)
		if id := changed[i].Timer.ID; changed[i].Timer.Status == timer.StatusDeleted {
			delete(s.timers, id)
		} else {
			s.timers[id] = changed[i].Timer
		}
	}
}

func (s *searcher) sorted() []timer.ID {
	var ids []timer.ID
	for id := range s.timers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// filter returns a random filter.
func (s *searcher) filter() store.Filter {
	f := store.Filter{App: "app"}
	if s.rand.IntN(3) == 0 {
		f.Status = timer.Status(s.one("active", "inactive", "paused"))
	}
	if s.rand.IntN(3) == 0 {
		f.NamePrefix = s.one("b", "bill-", "bill-x", "ä", "ä%", "%", "\U0010ffff")
	}
	if s.rand.IntN(3) == 0 {
		f.NameContains = s.one("-", "Y", "y", "%", "_1", "11", "\"'")
	}
	if s.rand.IntN(3) == 0 {
		f.TargetHost = s.one("a", "b.example", "d.example", "none")
	}
	if s.rand.IntN(4) > 0 {
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

// want returns the ids that the query selects, in its order.
func (s *searcher) want(q *store.SearchQuery) (ids []timer.ID) {
	var all []store.SearchPosition
	for _, id := range s.sorted() {
		t := s.timers[id]
		if q.SelectsDefinition(&t) {
			p := store.SearchPosition{ID: id}
			if q.Sort == store.SortName {
				p.Name = t.Name
			}
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b store.SearchPosition) int {
		byKey := cmp.Or(
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.AtMS, b.AtMS),
			cmp.Compare(a.ID, b.ID),
		)
		if q.Desc {
			return -byKey
		}
		return byKey
	})
	for _, p := range all {
		ids = append(ids, p.ID)
	}
	return ids
}

// found reads all pages of a query.
func (s *searcher) found(q store.SearchQuery) (ids []timer.ID) {
	s.t.Helper()
	for {
		page, err := s.st().Search(s.t.Context(), q)
		require.NoError(s.t, err)
		require.LessOrEqual(s.t, len(page.Timers), q.Limit)
		for _, t := range page.Timers {
			require.Equal(s.t, s.timers[t.ID], t)
			ids = append(ids, t.ID)
		}
		if !page.More {
			return ids
		}
		require.NotEqual(s.t, q.After, page.Next, "the search does not proceed")
		q.After = page.Next
	}
}

// requireSame compares the search and the count with filtering in Go.
func (s *searcher) requireSame(q store.SearchQuery) {
	s.t.Helper()
	want := s.want(&q)
	require.Equal(s.t, want, s.found(q), "%+v", q)
	count, err := s.st().Count(s.t.Context(), q)
	require.NoError(s.t, err)
	wanted := store.SearchCount{N: min(len(want), q.Limit), Minimum: len(want) > q.Limit}
	require.Equal(s.t, wanted, count, "%+v", q)
}

func searchesSelect(t *testing.T, s *setup) {
	r := newSearcher(s)
	r.makeTimers(150)
	for range 3 {
		for range 60 {
			r.requireSame(store.SearchQuery{Filter: r.filter(), Limit: 1 + r.rand.IntN(40)})
		}
		r.changeTimers()
		r.makeTimers(0)
	}
	r.requireSame(store.SearchQuery{Filter: store.Filter{App: "app"}, Limit: 500})
	r.requireSame(store.SearchQuery{Filter: store.Filter{App: "nobody"}, Limit: 5})
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
			for n := range 10 {
				item := store.NewTimer{
					App:        "app",
					Name:       fmt.Sprint(i, n),
					Definition: r.timers[want[0]].Definition,
				}
				out, err := st.Create(ctx, []store.NewTimer{item}, noFires)
				if err != nil {
					return err //nolint:wrapcheck // of the store
				}
				gone := store.StatusChange{
					App:    "app",
					ID:     out[0].Timer.ID,
					Status: timer.StatusDeleted,
				}
				if _, err := st.SetStatus(ctx, []store.StatusChange{gone}, noFires); err != nil {
					return err //nolint:wrapcheck // of the store
				}
			}
			return nil
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
