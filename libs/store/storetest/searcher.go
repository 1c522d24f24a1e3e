package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// searcher compares searches with filtering all timers in Go.
type searcher struct {
	*setup

	rand   *rand.Rand
	small  bool                       // the store sorts few timers
	timers map[timer.ID]timer.Timer   // of all apps, without deleted ones
	last   map[timer.ID]timer.Outcome // their latest outcomes
}

func newSearcher(s *setup) *searcher {
	s.t.Helper()
	seed := rand.Uint64()
	s.t.Logf("seed %d", seed)
	return &searcher{
		setup:  s,
		rand:   rand.New(rand.NewPCG(seed, 0)),
		timers: map[timer.ID]timer.Timer{},
		last:   map[timer.ID]timer.Outcome{},
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

// plan plans at most one fire for the next hour, and random later ones.
func (s *searcher) plan(t *timer.Timer, nowMS int64) store.Plan {
	p := store.Plan{NextDueMS: t.NextDueMS, ExpandAtMS: nowMS + time.Hour.Milliseconds()}
	if t.NextDueMS != 0 {
		return p // it was active before
	}
	minutes := func(least, most int64) int64 {
		return nowMS + (least+s.rand.Int64N(most-least))*timer.MinuteMS
	}
	if s.rand.IntN(2) == 0 {
		p = planAt(0, minutes(5, 55))(t, nowMS)
	}
	if p.NextDueMS = minutes(60, 200); s.rand.IntN(4) == 0 {
		p.NextDueMS = timer.NeverMS
	}
	if p.ExpandAtMS = nowMS + time.Hour.Milliseconds(); p.NextDueMS == timer.NeverMS {
		p.ExpandAtMS = timer.NeverMS
	}
	return p
}

// nextDue returns the next due instant by the plan.
func (s *searcher) nextDue(_ context.Context, t *timer.Timer) (int64, error) {
	switch {
	case t.Status != timer.StatusActive:
		return timer.NeverMS, nil
	case t.LastDueMS > time.Now().UnixMilli():
		return t.LastDueMS, nil
	}
	return t.NextDueMS, nil
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
			Activate:   s.rand.IntN(3) > 0,
		})
	}
	out, err := s.st().Create(s.t.Context(), items, s.plan)
	require.NoError(s.t, err)
	for i := range out {
		require.NoError(s.t, out[i].Err)
		s.timers[out[i].Timer.ID] = out[i].Timer
	}
}

// recordOutcomes runs some timers now.
func (s *searcher) recordOutcomes() {
	s.t.Helper()
	now := s.nowMS()
	var fires []timer.Fire
	for _, id := range s.sorted() {
		if t := s.timers[id]; s.rand.IntN(3) == 0 {
			id := timer.FireID{
				Timer: id, DueMS: now - s.rand.Int64N(1000), Series: int64(s.ids.Next()),
			}
			added, err := s.st().AddFires(s.t.Context(), t.App, t.ID, []timer.Fire{
				{FireID: id, RunAtMS: now, Cause: timer.CauseRunNow},
			})
			require.NoError(s.t, err)
			fires = append(fires, added...)
		}
	}
	session := s.session()
	var outcomes []timer.Outcome
	for _, f := range s.claim(session, fires) {
		o := delivered(f, now)
		o.Kind = timer.OutcomeKind(s.one("delivered", "failed", "skipped"))
		outcomes = append(outcomes, o)
		if last, ok := s.last[f.Timer]; !ok || last.DueMS <= f.DueMS {
			s.last[f.Timer] = o
		}
	}
	lost, _, err := s.st().Record(s.t.Context(), session, outcomes, nil)
	require.NoError(s.t, err)
	require.Empty(s.t, lost)
	last, err := s.st().LastOutcomes(s.t.Context(), s.sorted())
	require.NoError(s.t, err)
	require.Len(s.t, last, len(s.last))
	for id, o := range s.last {
		require.Equal(s.t, o.FireID, last[id].FireID)
		require.Equal(s.t, o.Kind, last[id].Kind)
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
	edited, err := s.st().Edit(ctx, edits, s.plan)
	require.NoError(s.t, err)
	for i := range edited {
		require.NoError(s.t, edited[i].Err)
		s.timers[edited[i].Timer.ID] = edited[i].Timer
	}
	changed, err := s.st().SetStatus(ctx, changes, s.plan)
	require.NoError(s.t, err)
	for i := range changed {
		require.NoError(s.t, changed[i].Err)
		if id := changed[i].Timer.ID; changed[i].Timer.Status == timer.StatusDeleted {
			delete(s.timers, id)
			delete(s.last, id)
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

// want returns the ids that the query selects, in its order.
func (s *searcher) want(q *store.SearchQuery) (ids []timer.ID) {
	s.t.Helper()
	keys := map[timer.ID]int64{}
	for _, id := range s.sorted() {
		t := s.timers[id]
		due, err := s.nextDue(s.t.Context(), &t)
		require.NoError(s.t, err)
		last, done := s.last[id]
		kind := store.OutcomeNone
		if done {
			kind = last.Kind
		}
		if !q.SelectsDefinition(&t) || !q.SelectsDue(due) ||
			q.LastOutcome != "" && kind != q.LastOutcome {
			continue
		}
		switch {
		case q.Sort == store.SortNextDue:
			keys[id] = due
		case q.Sort == store.SortLastFired && done:
			keys[id] = last.DueMS
		case q.Sort == store.SortLastFired:
			keys[id] = timer.NeverMS
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b timer.ID) int {
		never := 0
		if q.Desc {
			a, b = b, a
			never = -2
		}
		isLast := func(id timer.ID) int64 {
			if keys[id] == timer.NeverMS {
				return 1
			}
			return 0
		}
		return cmp.Or(
			cmp.Compare(isLast(a), isLast(b))*(1+never),
			cmp.Compare(keys[a], keys[b]),
			s.compareNames(q, a, b),
			cmp.Compare(a, b),
		)
	})
	return ids
}

func (s *searcher) compareNames(q *store.SearchQuery, a, b timer.ID) int {
	if q.Sort != store.SortName {
		return 0
	}
	return cmp.Compare(s.timers[a].Name, s.timers[b].Name)
}

// found reads all pages of a query.
func (s *searcher) found(q store.SearchQuery) (ids []timer.ID) {
	s.t.Helper()
	for {
		page, err := s.st().Search(s.t.Context(), q)
		require.NoError(s.t, err, "%+v", q)
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
	if s.small && (q.ByDue() || q.LastOutcome != "") && count.Minimum {
		require.LessOrEqual(s.t, count.N, wanted.N)
		return
	}
	require.Equal(s.t, wanted, count, "%+v", q)
}
