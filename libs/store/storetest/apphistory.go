package storetest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// appOutcomes has fires of three timers with outcomes of all kinds, several at each instant.
type appOutcomes struct {
	timers []timer.Timer
	// byPosition has what was recorded, in order of position.
	byPosition []timer.Outcome
	nowMS      int64
}

// finishMany records outcomes in an order other than that of their positions.
func (s *setup) finishMany() *appOutcomes {
	s.t.Helper()
	const perTimer = 24
	session := s.session()
	all := &appOutcomes{nowMS: s.nowMS()}
	for range 3 {
		tm, fires := s.owned(session, perTimer)
		all.timers = append(all.timers, tm)
		for i, f := range fires {
			all.byPosition = append(all.byPosition, anyOutcome(f, i, all.nowMS))
		}
	}
	shuffled := slices.Clone(all.byPosition)
	rand.Shuffle(len(shuffled), func(i, j int) {
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	})
	for part := range slices.Chunk(shuffled, 10) {
		lost, _, err := s.st().Record(s.t.Context(), session, part, nil)
		require.NoError(s.t, err)
		require.Empty(s.t, lost)
	}
	slices.SortFunc(all.byPosition, func(a, b timer.Outcome) int {
		return cmp.Or(
			cmp.Compare(a.FinishedMS, b.FinishedMS),
			cmp.Compare(a.Timer, b.Timer),
			timer.CompareFires(a.Fire, b.Fire),
		)
	})
	return all
}

// anyOutcome returns the i-th outcome of a timer. Six outcomes finish at one instant.
func anyOutcome(f timer.Fire, i int, nowMS int64) timer.Outcome {
	o := delivered(f, nowMS-20_000+int64(i/2)*1000)
	o.LatenessMS = int64(i * i * 10)
	switch i % 4 {
	case 1:
		o.Kind, o.Reason, o.Failure = timer.Failed, timer.ReasonExhausted, timer.FailureStatus
	case 2:
		o.Kind, o.Reason = timer.Skipped, timer.ReasonPaused
		o.Attempts, o.LatenessMS, o.StatusCode, o.DurationMS = 0, 0, 0, 0
		o.UntilMS, o.Count = o.DueMS+5000, 6
	}
	return o
}

// want returns the outcomes that match a query, in its order.
func (a *appOutcomes) want(q *store.OutcomeQuery) (out []timer.FireID) {
	for _, o := range a.byPosition {
		if q.Matches(&o) && o.FinishedMS >= q.FromMS && (q.ToMS == 0 || o.FinishedMS < q.ToMS) {
			out = append(out, o.FireID)
		}
	}
	if !q.Ascending {
		slices.Reverse(out)
	}
	return out
}

// outcomes reads all pages.
func (s *setup) outcomes(q store.OutcomeQuery) (out []timer.Outcome) {
	s.t.Helper()
	q.App = cmp.Or(q.App, "app")
	for {
		page, err := s.st().Outcomes(s.t.Context(), q)
		require.NoError(s.t, err)
		require.LessOrEqual(s.t, len(page.Outcomes), q.Limit)
		require.LessOrEqual(s.t, len(page.Outcomes), q.ScanLimit)
		out = append(out, page.Outcomes...)
		if page.Next == (store.OutcomePosition{}) {
			return out
		}
		require.NotEqual(s.t, q.After, page.Next, "each page goes on")
		q.After = page.Next
	}
}

func outcomesOfAnApp(t *testing.T, s *setup) {
	all := s.finishMany()
	first, second, due := all.timers[0].ID, all.timers[1].ID, all.byPosition[10].DueMS
	at := all.byPosition[20].FinishedMS
	ms := func(n int64) *int64 { return &n }
	for name, q := range map[string]store.OutcomeQuery{
		"all":       {},
		"kinds":     {OutcomeFilter: store.OutcomeFilter{Kinds: []timer.OutcomeKind{timer.Delivered, timer.Skipped}}},
		"failed":    {OutcomeFilter: store.OutcomeFilter{Kinds: []timer.OutcomeKind{timer.Failed}}},
		"reasons":   {OutcomeFilter: store.OutcomeFilter{Reasons: []timer.Reason{timer.ReasonPaused, timer.ReasonExhausted}}},
		"timers":    {OutcomeFilter: store.OutcomeFilter{Timers: []timer.ID{first, second}}},
		"timer":     {OutcomeFilter: store.OutcomeFilter{Timers: []timer.ID{second}}, FromMS: at},
		"no cause":  {OutcomeFilter: store.OutcomeFilter{Causes: []timer.Cause{timer.CauseBackfill, timer.CauseRedrive}}},
		"cause":     {OutcomeFilter: store.OutcomeFilter{Causes: []timer.Cause{timer.CauseSchedule}}},
		"due":       {OutcomeFilter: store.OutcomeFilter{DueFromMS: due, DueToMS: due + 50_000}},
		"finished":  {FromMS: at, ToMS: at + 3000},
		"late":      {OutcomeFilter: store.OutcomeFilter{MinLatenessMS: ms(1000)}},
		"punctual":  {OutcomeFilter: store.OutcomeFilter{MaxLatenessMS: ms(0)}},
		"some late": {OutcomeFilter: store.OutcomeFilter{MinLatenessMS: ms(100), MaxLatenessMS: ms(1000)}},
		"several": {
			OutcomeFilter: store.OutcomeFilter{
				Kinds: []timer.OutcomeKind{timer.Failed}, Timers: []timer.ID{first},
				DueFromMS: due, MinLatenessMS: ms(10),
			},
			ToMS: at + 5000,
		},
	} {
		for _, q.Ascending = range []bool{false, true} {
			for _, page := range []struct{ scan, limit int }{{1000, 500}, {1000, 5}, {7, 5}, {4, 500}, {1, 1}} {
				q.ScanLimit, q.Limit = page.scan, page.limit
				require.Equal(t, all.want(&q), finished(s.outcomes(q)), "%s %+v", name, page)
			}
		}
	}
	got := s.outcomes(store.OutcomeQuery{Ascending: true, ScanLimit: 100, Limit: 100})
	for i := range got {
		require.Equal(t, plain(all.byPosition[i]), plain(got[i]))
	}
}

// outcomesOfOthers checks the bounds of an app: other apps, deleted timers and open fires.
func outcomesOfOthers(t *testing.T, s *setup) {
	ctx := t.Context()
	all := s.finishMany()
	session := s.session()
	other := s.newTimer()
	other.App, other.Activate = "other", true
	theirs := s.claim(session, s.create(other, planAt(0, all.nowMS-5)).Fires)
	lost, _ := s.record(session, delivered(theirs[0], all.nowMS))
	require.Empty(t, lost)
	every := store.OutcomeQuery{ScanLimit: 1000, Limit: 500}
	every.App = "other"
	require.Equal(t, ids(theirs), finished(s.outcomes(every)))
	for _, every.App = range []string{"nobody", "othe"} {
		require.Empty(t, s.outcomes(every))
		counts, err := s.st().CountOutcomes(ctx, every, 1000)
		require.NoError(t, err)
		require.Empty(t, counts.Counts)
	}
	every.App = "app"
	every.Timers = []timer.ID{theirs[0].Timer}
	require.Empty(t, s.outcomes(every), "a timer of another app")
	every.Timers = nil

	s.setStatus(all.timers[0], timer.StatusDeleted, noFires)
	require.Equal(t, all.want(&every), finished(s.outcomes(every)), "a deleted timer's, too")

	// A page ends where the scan does, whether something matched or not.
	none := every
	none.Reasons, none.ScanLimit = []timer.Reason{timer.ReasonDeleted}, 10
	page, err := s.st().Outcomes(ctx, none)
	require.NoError(t, err)
	require.Empty(t, page.Outcomes)
	require.Equal(t, store.PositionOf(&all.byPosition[len(all.byPosition)-10]), page.Next)
	none.Reasons = nil
	none.Kinds = []timer.OutcomeKind{timer.Failed}
	page, err = s.st().Outcomes(ctx, none)
	require.NoError(t, err)
	require.NotEmpty(t, page.Outcomes)
}

func outcomesAreCounted(t *testing.T, s *setup) {
	ctx := t.Context()
	all := s.finishMany()
	ms := int64(1)
	for name, q := range map[string]store.OutcomeQuery{
		"all":      {},
		"finished": {FromMS: all.byPosition[10].FinishedMS, ToMS: all.byPosition[50].FinishedMS},
		"timer":    {OutcomeFilter: store.OutcomeFilter{Timers: []timer.ID{all.timers[2].ID}}},
		"failed":   {OutcomeFilter: store.OutcomeFilter{Kinds: []timer.OutcomeKind{timer.Failed}}},
		"late":     {OutcomeFilter: store.OutcomeFilter{MinLatenessMS: &ms}},
	} {
		for _, scan := range []int{1000, 20, 1} {
			q.App, q.ScanLimit = "app", scan
			got, err := s.st().CountOutcomes(ctx, q, 3000)
			require.NoError(t, err)
			if name != "failed" || scan != 20 { // a store may examine failed fires only
				require.Equal(t, scan < 1000, got.FromMS > q.FromMS, "%s: it stops early", name)
			}
			bounded := q
			bounded.FromMS = got.FromMS
			require.ElementsMatch(t, all.count(&bounded, 3000), got.Counts, "%s, %d", name, scan)
		}
	}
}

// count counts what matches a query.
func (a *appOutcomes) count(q *store.OutcomeQuery, stepMS int64) (out []store.OutcomeCount) {
	matching := a.want(q)
	for _, o := range a.byPosition {
		if !slices.Contains(matching, o.FireID) {
			continue
		}
		c := store.OutcomeCount{
			StepMS: o.FinishedMS / stepMS * stepMS, Kind: o.Kind, Reason: o.Reason,
			LatenessMS: store.NotCalled,
		}
		if o.Attempts > 0 {
			c.LatenessMS = store.LatenessBucket(o.LatenessMS)
		}
		i := slices.IndexFunc(out, func(had store.OutcomeCount) bool {
			had.Outcomes, had.Fires = 0, 0
			return had == c
		})
		if i < 0 {
			i, out = len(out), append(out, c)
		}
		out[i].Outcomes++
		out[i].Fires += o.Count
	}
	return out
}

// outcomesWhileRecording reads pages while others record. A reader misses none that were recorded
// before it began, and returns none twice.
func outcomesWhileRecording(t *testing.T, s *setup) {
	all := s.finishMany()
	session := s.session()
	fires := s.claim(session, s.fires(100, all.nowMS))
	done := make(chan error, 1)
	go func() {
		var err error
		for _, f := range fires {
			o := delivered(f, all.nowMS-time.Duration(f.Timer%20_000).Nanoseconds())
			if _, _, err = s.st().
				Record(t.Context(), session, []timer.Outcome{o}, nil); err != nil {
				break
			}
		}
		done <- err
	}()
	for _, ascending := range []bool{true, false} {
		got := finished(s.outcomes(store.OutcomeQuery{
			Ascending: ascending, ScanLimit: 3, Limit: 2,
		}))
		require.Subset(t, got, finished(all.byPosition))
		seen := map[timer.FireID]bool{}
		for _, id := range got {
			require.False(t, seen[id])
			seen[id] = true
		}
	}
	require.NoError(t, <-done)
}
