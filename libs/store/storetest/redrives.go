package storetest

import (
	"context"
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

func (s *setup) redrive(q store.RedriveQuery, series timer.ID, dryRun bool) store.RedriveResult {
	s.t.Helper()
	q.App = "app"
	out, err := s.st().Redrive(s.t.Context(), q, series, dryRun)
	require.NoError(s.t, err)
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

	require.Equal(t, finished(failed), finished(s.redrive(store.RedriveQuery{}, 0, true).Outcomes))
	series := s.ids.Next()
	one := store.RedriveQuery{Fires: ids(fires[:1])}
	dryRun := s.redrive(one, series, true)
	require.Equal(t, plain(failed[0]), plain(dryRun.Outcomes[0]))
	require.Empty(t, dryRun.Fires)
	_, err = s.st().
		Fire(ctx, "app", timer.FireID{Timer: tm, DueMS: fires[0].DueMS, Series: int64(series)})
	requireCode(t, timer.CodeNotFound, err)

	out := s.redrive(one, series, false)
	require.Equal(t, ids(fires[:1]), finished(out.Outcomes))
	require.Equal(t, int64(series), out.Outcomes[0].Redriven)
	require.False(t, out.More)
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

	require.Equal(t, out, s.redrive(one, series, false), "repeated, it is the same")
	require.Empty(t, s.redrive(one, s.ids.Next(), false).Outcomes, "it was redriven before")
	won := s.claim(session, out.Fires)
	require.Empty(t, s.redrive(one, series, false).Fires, "it is started already")
	again := one
	again.IncludeRedriven = true
	require.Len(t, s.redrive(again, s.ids.Next(), false).Fires, 1)

	gone := timer.FireID{Timer: tm, DueMS: 5}
	among, err := s.st().RedrivenAmong(ctx, append(ids(fires), gone, f.FireID))
	require.NoError(t, err)
	require.ElementsMatch(
		t,
		[]timer.FireID{fires[0].FireID, fires[4].FireID, gone},
		among,
		"not the open ones, nor those that wait",
	)
	s.failed(session, won, now)
	among, err = s.st().RedrivenAmong(ctx, []timer.FireID{f.FireID})
	require.NoError(t, err)
	require.Empty(t, among, "it failed again")

	for _, q := range []store.RedriveQuery{
		{App: "other", Timer: tm}, {App: "other", Fires: ids(fires[:1])}, {App: "app", Timer: s.ids.Next()}, {App: "app", Fires: []timer.FireID{gone}},
	} {
		for _, dryRun := range []bool{true, false} {
			_, err = s.st().Redrive(ctx, q, s.ids.Next(), dryRun)
			requireCode(t, timer.CodeNotFound, err)
		}
	}
	out, err = s.st().Redrive(ctx, store.RedriveQuery{App: "nobody"}, s.ids.Next(), false)
	require.NoError(t, err)
	require.Empty(t, out.Outcomes)
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
		q    store.RedriveQuery
		want []timer.FireID
	}{
		"timer":   {store.RedriveQuery{Timer: tm.ID}, ids(fires[:6])},
		"due":     {store.RedriveQuery{FromMS: fires[1].DueMS, ToMS: fires[3].DueMS}, ids(fires[1:3])},
		"failure": {store.RedriveQuery{Failure: timer.FailureDNS}, ids(fires[5:6])},
		"both":    {store.RedriveQuery{Timer: tm.ID, Failure: timer.FailureStatus, FromMS: fires[4].DueMS}, ids(fires[4:5])},
		"fires":   {store.RedriveQuery{Fires: []timer.FireID{fires[6].FireID, others[1].FireID, fires[2].FireID}}, []timer.FireID{fires[2].FireID, others[1].FireID}},
		"of one":  {store.RedriveQuery{Timer: tm.ID, Fires: []timer.FireID{others[1].FireID, fires[2].FireID}}, ids(fires[2:3])},
	} {
		require.Equal(t, c.want, finished(s.redrive(c.q, 0, true).Outcomes), name)
	}

	// It pages by app and by timer, and reads each page twice.
	for _, q := range []store.RedriveQuery{{Limit: 3}, {Timer: tm.ID, Limit: 3, IncludeRedriven: true}} {
		series := s.ids.Next()
		var all []timer.FireID
		made := map[timer.FireID]bool{}
		for page := 0; ; page++ {
			require.Less(t, page, 5)
			first := s.redrive(q, series, false)
			out := s.redrive(q, series, false)
			require.Equal(t, first, out)
			all = append(all, finished(out.Outcomes)...)
			for _, f := range out.Fires {
				made[f.FireID] = true
			}
			if !out.More {
				break
			}
			last := out.Outcomes[len(out.Outcomes)-1]
			q.After, q.AfterFinishedMS = last.FireID, last.FinishedMS
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
		finished(s.redrive(store.RedriveQuery{IncludeRedriven: true}, 0, true).Outcomes),
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
		series := s.ids.Next()
		for q := (store.RedriveQuery{App: "app", Limit: 7}); ; {
			out, err := st.Redrive(ctx, q, series, false)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, f := range out.Fires {
				made[f.Timer]++
			}
			mu.Unlock()
			if !out.More {
				return nil
			}
			// Another call may have redriven what was selected. The next page then begins at the
			// end of this one.
			if n := len(out.Outcomes); n > 0 {
				q.After, q.AfterFinishedMS = out.Outcomes[n-1].FireID, out.Outcomes[n-1].FinishedMS
			}
		}
	})
	require.Len(t, made, 30)
	for _, n := range made {
		require.Equal(t, 1, n, "each was redriven once")
	}
}
