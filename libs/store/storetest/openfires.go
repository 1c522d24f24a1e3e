package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// walkOpen reads all pages of a timer's open fires, and returns them with the number of pages.
func (s *setup) walkOpen(
	id timer.ID,
	untilMS int64,
	scan, limit int,
) (ids []timer.FireID, pages int) {
	s.t.Helper()
	for q := (store.OpenFiresQuery{UntilMS: untilMS, ScanLimit: scan, Limit: limit}); ; {
		page, err := s.st().OpenFires(s.t.Context(), "app", id, q)
		require.NoError(s.t, err)
		require.LessOrEqual(s.t, len(page.Fires), limit)
		pages++
		for _, f := range page.Fires {
			ids = append(ids, f.FireID)
		}
		if page.Next == (store.OpenFiresPosition{}) {
			return ids, pages
		}
		goesOn := page.Next.DueMS > q.After.DueMS ||
			page.Next.DueMS == q.After.DueMS && page.Next.Series > q.After.Series
		require.True(s.t, goesOn, "each page goes on")
		q.After = page.Next
	}
}

// openFires pages through the open fires of one timer among several, in all states.
func openFires(t *testing.T, s *setup) {
	ctx := t.Context()
	base := s.nowMS() - time.Hour.Milliseconds()
	var dues []int64
	for i := range int64(9) {
		dues = append(dues, base+i*1000)
	}
	active := s.newTimer()
	active.Activate = true
	made := s.create(active, planAt(0, dues...))
	other := s.newTimer()
	other.Activate = true
	s.create(other, planAt(0, dues...))
	session := s.session()
	claimed := s.claim(session, made.Fires[:6])
	lost, _, err := s.st().Record(ctx, session, []timer.Outcome{delivered(claimed[0], base)}, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	again := claimed[1] // another attempt, due later than all others
	again.State, again.Attempt, again.RunAtMS = timer.FireRetrying, 1, base+2*time.Hour.Milliseconds()
	_, err = s.st().Release(ctx, session, []timer.Fire{again}, nil)
	require.NoError(t, err)
	added := timer.Fire{
		FireID: timer.FireID{Timer: made.Timer.ID, DueMS: dues[3], Series: 7}, RunAtMS: dues[3],
		AppID: made.Timer.AppID, Version: 1, Epoch: 1, Cause: timer.CauseRunNow,
	}
	_, err = s.st().AddFires(ctx, "app", made.Timer.ID, []timer.Fire{added})
	require.NoError(t, err)

	var want []timer.FireID
	for i, due := range dues[1:8] {
		want = append(want, timer.FireID{Timer: made.Timer.ID, DueMS: due})
		if i == 2 {
			want = append(want, added.FireID)
		}
	}
	for _, c := range []struct{ scan, limit int }{{1000, 1000}, {1000, 1}, {1000, 3}, {1, 1000}, {2, 2}, {5, 3}, {18, 8}} {
		got, pages := s.walkOpen(made.Timer.ID, dues[7], c.scan, c.limit)
		require.Equal(t, want, got, "scan at %d, return %d", c.scan, c.limit)
		require.GreaterOrEqual(t, pages, 7/c.scan, "no page scans much more")
	}
	page, err := s.st().
		OpenFires(ctx, "app", made.Timer.ID, store.OpenFiresQuery{UntilMS: dues[1], ScanLimit: 100, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, timer.FireRetrying, page.Fires[0].State, "as it is now")
	require.EqualValues(t, 1, page.Fires[0].Attempt)
	_, err = s.st().
		OpenFires(ctx, "other", made.Timer.ID, store.OpenFiresQuery{UntilMS: base, ScanLimit: 1, Limit: 1})
	requireCode(t, timer.CodeNotFound, err)
	_, err = s.st().
		OpenFires(ctx, "app", 1, store.OpenFiresQuery{UntilMS: base, ScanLimit: 1, Limit: 1})
	requireCode(t, timer.CodeNotFound, err)
}

// openFiresAtOneInstant ends pages within an instant of many timers: before, at and after the timer
// in question.
func openFiresAtOneInstant(t *testing.T, s *setup) {
	due := s.nowMS() - time.Hour.Milliseconds()
	const n = 7
	var all []timer.Timer
	for range n {
		active := s.newTimer()
		active.Activate = true
		all = append(all, s.create(active, planAt(0, due, due+1)).Timer)
	}
	for i := range all {
		id := all[i].ID
		want := []timer.FireID{{Timer: id, DueMS: due}, {Timer: id, DueMS: due + 1}}
		for scan := 1; scan <= 2*n+1; scan++ {
			for limit := 1; limit <= 3; limit++ {
				got, _ := s.walkOpen(id, due+1, scan, limit)
				require.Equal(
					t,
					want,
					got,
					"timer %d of %d, scan at %d, return %d",
					i,
					n,
					scan,
					limit,
				)
			}
		}
	}
}
