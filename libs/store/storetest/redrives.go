package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// failed records fires as failed, one millisecond apart from finishedMS on.
func (s *setup) failed(session timer.ID, fires []timer.Fire, finishedMS int64) []timer.Outcome {
	s.t.Helper()
	var outcomes []timer.Outcome
	for i, f := range fires {
		o := delivered(f, finishedMS+int64(i))
		o.Kind, o.Reason, o.StatusCode, o.Failure = timer.Failed, timer.ReasonExhausted, 500, timer.FailureStatus
		outcomes = append(outcomes, o)
	}
	lost, _, err := s.st().Record(s.t.Context(), session, outcomes, nil)
	require.NoError(s.t, err)
	require.Empty(s.t, lost)
	return outcomes
}

func (s *setup) redrive(q store.DeadLetterQuery, series timer.ID) store.RedriveResult {
	s.t.Helper()
	q.App, q.Series = "app", series
	out, err := s.st().Redrive(s.t.Context(), q)
	require.NoError(s.t, err)
	return out
}

// deadLetters returns the outcomes of a page of dead letters.
func (s *setup) deadLetters(q store.DeadLetterQuery) (out []timer.Outcome) {
	s.t.Helper()
	q.App = "app"
	page, err := s.st().DeadLetters(s.t.Context(), q)
	require.NoError(s.t, err)
	for _, l := range page.DeadLetters {
		out = append(out, l.Outcome)
	}
	return out
}

func finished(outcomes []timer.Outcome) (out []timer.FireID) {
	for _, o := range outcomes {
		out = append(out, o.FireID)
	}
	return out
}

func redriveMakesFires(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	now := s.nowMS()
	fires := s.claim(session, s.fires(6, now-50_000))
	tm := fires[0].Timer
	failed := s.failed(session, fires[:4], now-100)
	lost, _ := s.record(session, delivered(fires[4], now-100))
	require.Empty(t, lost)
	got, err := s.st().Timer(ctx, "app", tm)
	require.NoError(t, err)
	d := got.Definition
	d.Priority = timer.PriorityHigh
	s.edit(got, d, noFires)

	require.Equal(t, finished(failed), finished(s.deadLetters(store.DeadLetterQuery{})))
	series := s.ids.Next()
	one := store.DeadLetterQuery{Fires: ids(fires[:1])}
	require.Equal(t, plain(failed[0]), plain(s.deadLetters(one)[0]))
	_, err = s.st().
		Fire(ctx, "app", timer.FireID{Timer: tm, DueMS: fires[0].DueMS, Series: int64(series)})
	requireCode(t, timer.CodeNotFound, err)

	out := s.redrive(one, series)
	require.Equal(t, ids(fires[:1]), finished(out.Outcomes))
	require.Equal(t, int64(series), out.Outcomes[0].Redriven)
	require.Zero(t, out.Next)
	require.Len(t, out.Fires, 1)
	f := out.Fires[0]
	require.Equal(
		t,
		timer.FireID{Timer: tm, DueMS: fires[0].DueMS, Series: int64(series)},
		f.FireID,
	)
	require.Equal(t, timer.CauseRedrive, f.Cause)
	require.EqualValues(t, 2, f.Version, "the present one")
	require.Equal(t, timer.LevelHigh, f.PriorityLevel)
	require.InDelta(t, s.nowMS(), f.RunAtMS, 10_000)
	rec, err := s.st().Fire(ctx, "app", f.FireID)
	require.NoError(t, err)
	require.Equal(t, f, *rec.Open)
	rec, err = s.st().Fire(ctx, "app", fires[0].FireID)
	require.NoError(t, err)
	require.Equal(t, int64(series), rec.Outcome.Redriven)

	require.Equal(t, out, s.redrive(one, series), "repeated, it is the same")
	require.Empty(t, s.redrive(one, s.ids.Next()).Outcomes, "it was redriven before")
	won := s.claim(session, out.Fires)
	require.Empty(t, s.redrive(one, series).Fires, "it is started already")
	again := one
	again.IncludeRedriven = true
	require.Len(t, s.redrive(again, s.ids.Next()).Fires, 1)

	ofSeries := one
	ofSeries.Series = series
	require.Empty(t, s.deadLetters(ofSeries), "another series redrove it since")
	require.Equal(t, ids(fires[1:4]), finished(s.deadLetters(store.DeadLetterQuery{})))
	s.failed(session, won, now)
	require.Equal(
		t,
		append(ids(fires[1:4]), f.FireID),
		finished(s.deadLetters(store.DeadLetterQuery{})),
		"it failed again",
	)
}

func redriveRefuses(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	now := s.nowMS()
	fires := s.claim(session, s.fires(1, now-50_000))
	s.failed(session, fires, now-100)
	tm := fires[0].Timer
	gone := timer.FireID{Timer: tm, DueMS: 5}
	for _, q := range []store.DeadLetterQuery{
		{App: "other", Timer: tm}, {App: "other", Fires: ids(fires[:1])}, {App: "app", Timer: s.ids.Next()}, {App: "app", Fires: []timer.FireID{gone}},
	} {
		q.Series = s.ids.Next()
		_, err := s.st().DeadLetters(ctx, q)
		requireCode(t, timer.CodeNotFound, err)
		_, err = s.st().Redrive(ctx, q)
		requireCode(t, timer.CodeNotFound, err)
	}
	nobody := store.DeadLetterQuery{App: "nobody", Series: s.ids.Next()}
	out, err := s.st().Redrive(ctx, nobody)
	require.NoError(t, err)
	require.Empty(t, out.Outcomes)
	page, err := s.st().DeadLetters(ctx, nobody)
	require.NoError(t, err)
	require.Empty(t, page.DeadLetters)
	_, err = s.st().Redrive(ctx, store.DeadLetterQuery{App: "app"})
	requireCode(t, timer.CodeInvalid, err)
}

func redriveSelects(t *testing.T, s *setup) {
	session := s.session()
	now := s.nowMS()
	tm, fires := s.owned(session, 7)
	failed := s.failed(session, fires[:5], now-1000)
	others := s.claim(session, s.fires(2, now-2000))
	more := s.failed(session, others, now-500)
	odd := delivered(fires[5], now)
	odd.Kind, odd.Failure = timer.Failed, timer.FailureDNS
	lost, _ := s.record(session, odd)
	require.Empty(t, lost)

	for name, c := range map[string]struct {
		q    store.DeadLetterQuery
		want []timer.FireID
	}{
		"timer":   {store.DeadLetterQuery{Timer: tm.ID}, ids(fires[:6])},
		"due":     {store.DeadLetterQuery{FromMS: fires[1].DueMS, ToMS: fires[3].DueMS}, ids(fires[1:3])},
		"failure": {store.DeadLetterQuery{Failure: timer.FailureDNS}, ids(fires[5:6])},
		"both":    {store.DeadLetterQuery{Timer: tm.ID, Failure: timer.FailureStatus, FromMS: fires[4].DueMS}, ids(fires[4:5])},
		"fires":   {store.DeadLetterQuery{Fires: []timer.FireID{fires[6].FireID, others[1].FireID, fires[2].FireID}}, []timer.FireID{fires[2].FireID, others[1].FireID}},
		"of one":  {store.DeadLetterQuery{Timer: tm.ID, Fires: []timer.FireID{others[1].FireID, fires[2].FireID}}, ids(fires[2:3])},
	} {
		require.Equal(t, c.want, finished(s.deadLetters(c.q)), name)
	}

	// It pages by app and by timer, and reads each page twice.
	for _, q := range []store.DeadLetterQuery{{Limit: 3}, {Timer: tm.ID, Limit: 3, IncludeRedriven: true}} {
		series := s.ids.Next()
		var all []timer.FireID
		made := map[timer.FireID]bool{}
		for page := 0; ; page++ {
			require.Less(t, page, 5)
			first := s.redrive(q, series)
			out := s.redrive(q, series)
			require.Equal(t, first, out)
			all = append(all, finished(out.Outcomes)...)
			for _, f := range out.Fires {
				made[f.FireID] = true
			}
			if q.After = out.Next; q.After == (store.OutcomePosition{}) {
				break
			}
		}
		want := finished(failed)
		if q.Timer == 0 {
			want = append(want, finished(more)...)
		}
		require.Equal(t, append(want, odd.FireID), all, "oldest finish first")
		require.Len(t, made, len(all))
	}
	s.setStatus(tm, timer.StatusDeleted, noFires)
	require.Equal(
		t,
		finished(more),
		finished(s.deadLetters(store.DeadLetterQuery{IncludeRedriven: true})),
		"those of deleted timers are left out",
	)
}

func concurrentRedrives(t *testing.T, s *setup) {
	session := s.session()
	now := s.nowMS()
	s.failed(session, s.claim(session, s.fires(30, now)), now)
	var mu sync.Mutex
	made := map[timer.ID]int{}
	s.together(6, func(ctx context.Context, _ int, st store.Store) error {
		for q := (store.DeadLetterQuery{App: "app", Series: s.ids.Next(), Limit: 7}); ; {
			out, err := st.Redrive(ctx, q)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, f := range out.Fires {
				made[f.Timer]++
			}
			mu.Unlock()
			// Another call may have redriven what was selected. The next page begins behind it.
			if out.Next == (store.OutcomePosition{}) {
				return nil
			}
			if !q.After.Before(out.Next) {
				return fmt.Errorf("the page after %v ends at %v", q.After, out.Next)
			}
			q.After = out.Next
		}
	})
	require.Len(t, made, 30)
	for _, n := range made {
		require.Equal(t, 1, n, "each was redriven once")
	}
}

// deadLettersArePaged checks that each dead letter is on one page, with its last error, also while
// redrives take fires off the list.
func deadLettersArePaged(t *testing.T, s *setup) {
	session := s.session()
	now := s.nowMS()
	_, fires := s.owned(session, 6)
	var outcomes []timer.Outcome
	var attempts []timer.Attempt
	for i, f := range fires {
		o := delivered(f, now-int64(len(fires)-i))
		o.Kind, o.Reason, o.Attempts = timer.Failed, timer.ReasonExhausted, 3
		outcomes = append(outcomes, o)
		for n := int32(3); n > 0; n-- { // the order in which they are stored does not count
			a := attempt(f, n, now+int64(n))
			a.Error = fmt.Sprintf("attempt %d of %d", n, i)
			if n == 3 && i == 2 {
				a.Error = ""
			}
			attempts = append(attempts, a)
		}
	}
	lost, _, err := s.st().Record(t.Context(), session, outcomes[:5], attempts[:15])
	require.NoError(t, err)
	require.Empty(t, lost)
	lost, _ = s.record(session, outcomes[5]) // it has no attempts
	require.Empty(t, lost)

	last, err := s.st().LastErrors(t.Context(), ids(fires))
	require.NoError(t, err)
	require.Equal(t, map[timer.FireID]string{
		fires[0].FireID: "attempt 3 of 0",
		fires[1].FireID: "attempt 3 of 1",
		fires[2].FireID: "attempt 2 of 2",
		fires[3].FireID: "attempt 3 of 3",
		fires[4].FireID: "attempt 3 of 4",
	}, last)

	q := store.DeadLetterQuery{App: "app", Limit: 2}
	var got []timer.FireID
	var texts []string
	for page := 0; ; page++ {
		require.Less(t, page, 4)
		out, err := s.st().DeadLetters(t.Context(), q)
		require.NoError(t, err)
		for _, l := range out.DeadLetters {
			got, texts = append(got, l.FireID), append(texts, l.LastError)
		}
		if q.After = out.Next; q.After == (store.OutcomePosition{}) {
			break
		}
		last := out.DeadLetters[len(out.DeadLetters)-1]
		// What is redriven meanwhile moves no later dead letter to a page before.
		s.redrive(store.DeadLetterQuery{Fires: []timer.FireID{last.FireID}}, s.ids.Next())
	}
	require.Equal(t, ids(fires), got)
	require.Equal(t, []string{
		"attempt 3 of 0",
		"attempt 3 of 1",
		"attempt 2 of 2",
		"attempt 3 of 3",
		"attempt 3 of 4",
		"",
	}, texts)
}

// redrivesLeaveOutTheirOwn redrives fires that fail again before the next page.
func redrivesLeaveOutTheirOwn(t *testing.T, s *setup) {
	session := s.session()
	now := s.nowMS()
	_, fires := s.owned(session, 4)
	failed := s.failed(session, fires, now-1000)
	for i, again := range []bool{false, true} {
		series := s.ids.Next()
		q := store.DeadLetterQuery{Limit: 2, IncludeRedriven: again}
		before := len(s.deadLetters(store.DeadLetterQuery{IncludeRedriven: again}))
		made := 0
		for page := 0; ; page++ {
			require.Less(t, page, 4)
			out := s.redrive(q, series)
			made += len(out.Fires)
			s.failed(session, s.claim(session, out.Fires), now+int64(100*i+10*page))
			if q.After = out.Next; q.After == (store.OutcomePosition{}) {
				break
			}
		}
		require.Equal(t, 4, made, "one for each instant")
		left := s.deadLetters(store.DeadLetterQuery{})
		require.Len(t, left, 4, "they failed again")
		for _, o := range left {
			require.Equal(t, int64(series), o.Series)
		}
		require.Equal(t, 4*(i+1), before)

		repeated := s.redrive(store.DeadLetterQuery{}, series)
		if !again {
			require.Equal(t, finished(failed), finished(repeated.Outcomes))
		}
		require.Empty(t, repeated.Fires)
		require.Len(t, s.deadLetters(store.DeadLetterQuery{}), 4, "it repeats nothing")
	}
}

// redrivesGoOnFromTheirBegin repeats a redrive that ended halfway. It redrives what the first call
// would have, and nothing that failed since.
func redrivesGoOnFromTheirBegin(t *testing.T, s *setup) {
	session := s.session()
	now := s.nowMS()
	_, fires := s.owned(session, 4)
	failed := s.failed(session, fires[:3], now-1000)
	series := s.ids.Next()
	s.redrive(store.DeadLetterQuery{Limit: 1}, series)
	s.failed(session, fires[3:], now)

	for _, again := range []bool{false, true} {
		q := store.DeadLetterQuery{BegunMS: now - 500, IncludeRedriven: again}
		out := s.redrive(q, series)
		require.Equal(t, finished(failed), finished(out.Outcomes))
		require.Len(t, out.Fires, 3)
	}
	require.Equal(t, ids(fires[3:]), finished(s.deadLetters(store.DeadLetterQuery{})))
}

// frozenAppsTakeNoRedrives redrives and backfills before and after a freeze. What it would create
// would be skipped, and its dead letters would count as redriven.
func frozenAppsTakeNoRedrives(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	now := s.nowMS()
	tm, fires := s.owned(session, 2)
	s.failed(session, fires, now-1000)
	series := s.ids.Next()
	first := store.DeadLetterQuery{App: "app", Series: series, Fires: ids(fires[:1])}
	want := s.redrive(first, series)
	begun := s.backfill(tm, 1)

	_, err := s.st().SetFrozen(ctx, "app", true, "")
	require.NoError(t, err)
	_, err = s.st().Redrive(ctx, store.DeadLetterQuery{App: "app", Series: s.ids.Next()})
	requireCode(t, timer.CodeConflict, err)
	require.Equal(t, ids(fires[1:]), finished(s.deadLetters(store.DeadLetterQuery{})))
	out, err := s.st().Redrive(ctx, first)
	require.NoError(t, err, "the call from before, repeated")
	require.Equal(t, want, out)
	again := begun
	again.ID = s.ids.Next()
	_, err = s.st().StartBackfill(ctx, again)
	requireCode(t, timer.CodeConflict, err)
	same, err := s.st().StartBackfill(ctx, begun)
	require.NoError(t, err)
	require.Equal(t, begun, same)

	// Of a freeze and a redrive at once, one comes first.
	for range 10 {
		_, err := s.st().SetFrozen(ctx, "app", false, "")
		require.NoError(t, err)
		q := store.DeadLetterQuery{
			App: "app", Series: s.ids.Next(), Fires: ids(fires[1:]), IncludeRedriven: true,
		}
		s.together(2, func(ctx context.Context, n int, st store.Store) error {
			if n == 0 {
				_, err := st.SetFrozen(ctx, "app", true, "")
				return err
			}
			_, err := st.Redrive(ctx, q)
			if timer.CodeOf(err) == timer.CodeConflict {
				return nil
			}
			return err
		})
		id := fires[1].FireID
		id.Series = int64(q.Series)
		_, made := s.st().Fire(ctx, "app", id)
		noted, err := s.st().Fire(ctx, "app", fires[1].FireID)
		require.NoError(t, err)
		require.Equal(t, made == nil, noted.Outcome.Redriven == int64(q.Series), "both or neither")
	}
}

// lastErrorsOfTargets checks that the last error is one of a target that did not take the fire.
func lastErrorsOfTargets(t *testing.T, s *setup) {
	session := s.session()
	now := s.nowMS()
	_, fires := s.owned(session, 2)
	var outcomes []timer.Outcome
	for _, f := range fires {
		o := delivered(f, now)
		o.Kind, o.Reason, o.Attempts = timer.Failed, timer.ReasonGone, 2
		outcomes = append(outcomes, o)
	}
	of := func(i int, n int32, target string, failure timer.Failure, text string) timer.Attempt {
		a := attempt(fires[i], n, now+int64(n))
		a.Target, a.Failure, a.Error = target, failure, text
		return a
	}
	lost, _, err := s.st().Record(t.Context(), session, outcomes, []timer.Attempt{
		of(0, 1, "billing", timer.FailureStatus, "answered 410"),
		of(0, 2, "shipping", timer.FailureStatus, "answered 500"),
		of(0, 3, "shipping", timer.FailureNone, ""),
		of(1, 1, "billing", timer.FailureNone, ""), // accepted, and then completed as failed
		of(1, 2, "billing", timer.FailureAsync, "completed as failed"),
	})
	require.NoError(t, err)
	require.Empty(t, lost)
	last, err := s.st().LastErrors(t.Context(), ids(fires))
	require.NoError(t, err)
	require.Equal(t, map[timer.FireID]string{
		fires[0].FireID: "answered 410", fires[1].FireID: "completed as failed",
	}, last)
}

// deadLettersExamineFew selects few of many failed fires. Each page examines some, and all pages
// together have what is selected.
func deadLettersExamineFew(t *testing.T, s *setup) {
	session := s.session()
	now := s.nowMS()
	_, fires := s.owned(session, 5)
	s.failed(session, fires, now-1000)
	tm, others := s.owned(session, 2)
	s.failed(session, others, now-500)
	gone, lost := s.owned(session, 3)
	s.failed(session, lost, now-300)
	s.setStatus(gone, timer.StatusDeleted, noFires)
	q := store.DeadLetterQuery{App: "app", Timer: tm.ID, ScanLimit: 3}

	first, err := s.st().DeadLetters(t.Context(), q)
	require.NoError(t, err)
	require.Empty(t, first.DeadLetters)
	require.Equal(t, now-998, first.Next.FinishedMS)
	require.Equal(t, fires[2].FireID, first.Next.FireID)

	series := s.ids.Next()
	of := q
	of.Series = series
	var listed, redriven []timer.FireID
	pages := 0
	for ; ; pages++ {
		require.Less(t, pages, 5)
		page, err := s.st().DeadLetters(t.Context(), q)
		require.NoError(t, err)
		for i := range page.DeadLetters {
			listed = append(listed, page.DeadLetters[i].FireID)
		}
		out, err := s.st().Redrive(t.Context(), of)
		require.NoError(t, err)
		redriven = append(redriven, finished(out.Outcomes)...)
		require.Equal(t, page.Next, out.Next)
		if page.Next == (store.OutcomePosition{}) {
			break
		}
		q.After, of.After = page.Next, page.Next
	}
	require.Equal(t, 3, pages, "ten are examined by three")
	require.Equal(t, ids(others), listed)
	require.Equal(t, listed, redriven)

	named := store.DeadLetterQuery{
		App:             "app",
		Fires:           ids(others),
		ScanLimit:       1,
		IncludeRedriven: true,
	}
	page, err := s.st().DeadLetters(t.Context(), named)
	require.NoError(t, err)
	require.Len(t, page.DeadLetters, 2, "named ones are not searched")
	require.Zero(t, page.Next)
}
