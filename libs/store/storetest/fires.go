package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func oneClaimWins(t *testing.T, s *setup) {
	const claimers, fires = 12, 100
	all := s.fires(fires, s.nowMS())
	sessions := make([]timer.ID, claimers)
	for i := range sessions {
		sessions[i] = s.session()
	}
	var mu sync.Mutex
	owner := map[timer.FireID]timer.ID{}
	s.together(claimers, func(ctx context.Context, i int, st store.Store) error {
		// Each asks for three quarters of them, another three each time, some twice.
		ask := append(append([]timer.Fire(nil), all[i:i+fires*3/4]...), all[i], all[i+1])
		won, err := st.Claim(ctx, sessions[i], ask)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range won {
			if _, twice := owner[f.FireID]; twice {
				t.Errorf("%v was won twice", f.FireID)
			}
			if f.Owner != sessions[i] {
				t.Errorf("%v came without its owner", f.FireID)
			}
			owner[f.FireID] = sessions[i]
		}
		return err
	})
	for i, session := range sessions {
		owned, err := s.st().Owned(t.Context(), []timer.ID{session}, timer.NeverMS, fires)
		require.NoError(t, err)
		n := 0
		for _, f := range owned {
			require.Equal(t, session, owner[f.FireID])
		}
		for _, o := range owner {
			if o == session {
				n++
			}
		}
		require.Len(t, owned, n, "claimer %d", i)
	}
}

func repeatedAndStaleClaims(t *testing.T, s *setup) {
	a, b := s.session(), s.session()
	fires := s.fires(3, s.nowMS())
	won := s.claim(a, fires[:2])
	require.Len(t, won, 2)
	require.ElementsMatch(t, won, s.claim(a, fires[:2]), "an answer that was lost")
	require.Equal(t, ids(fires[2:]), ids(s.claim(b, fires)))

	released, err := s.st().Release(t.Context(), a, won[:1], nil)
	require.NoError(t, err)
	require.Len(t, released, 1)
	require.Empty(t, s.claim(b, won[:1]), "an older revision")
	require.Len(t, s.claim(b, released), 1)
	require.Empty(t, s.claim(b, won[:1]), "an older revision of what it owns")
	mixed := append(append([]timer.Fire(nil), released...), won[0])
	require.Len(t, s.claim(b, mixed), 1)

	done := delivered(won[1], s.nowMS())
	lost, err := s.st().Record(t.Context(), a, []timer.Outcome{done}, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Empty(t, s.claim(b, won[1:2]), "a finished fire")
	require.Empty(t, s.claim(b, nil))
}

func deadOwnersAreSucceeded(t *testing.T, s *setup) {
	const heirs = 8
	dead, alive := s.session(), s.session()
	fires := s.fires(20, s.nowMS())
	require.Len(t, s.claim(dead, fires[:15]), 15)
	require.Len(t, s.claim(alive, fires[15:18]), 3)
	late := fires[0]
	late.Attempt, late.State, late.LateMS = 1, timer.FireRetrying, 7
	lost, err := s.st().RecordAttempts(t.Context(), dead, []timer.Fire{late}, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Empty(t, s.claim(alive, fires[:15]), "its owner lives")
	s.kill(dead)
	require.Empty(t, s.claim(dead, fires[18:]), "the dead win nothing")
	require.Len(t, s.claim(dead, fires), 15, "but what they own they own")

	sessions := make([]timer.ID, heirs)
	for i := range sessions {
		sessions[i] = s.session()
	}
	var mu sync.Mutex
	won := map[timer.FireID]timer.Fire{}
	s.together(heirs, func(ctx context.Context, i int, st store.Store) error {
		mine, err := st.Claim(ctx, sessions[i], fires)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range mine {
			if _, twice := won[f.FireID]; twice {
				t.Errorf("%v was won twice", f.FireID)
			}
			won[f.FireID] = f
		}
		return err
	})
	require.Len(t, won, 17)
	require.EqualValues(t, 1, won[late.FireID].Attempt, "as the store has it, not as the task says")
	require.Equal(t, timer.FireRetrying, won[late.FireID].State)
	require.EqualValues(t, 7, won[late.FireID].LateMS)
}

func onlyTheOwnerActs(t *testing.T, s *setup) {
	ctx := t.Context()
	owner, other := s.session(), s.session()
	now := s.nowMS()
	fires := s.claim(owner, s.fires(3, now))
	free := s.fires(1, now)[0]
	require.Len(t, fires, 3)

	all := append(append([]timer.Fire(nil), fires...), free)
	attempts := []timer.Attempt{attempt(fires[0], 1, now), attempt(free, 1, now)}
	released, err := s.st().Release(ctx, other, all, attempts)
	require.NoError(t, err)
	require.Empty(t, released)
	lost, err := s.st().RecordAttempts(ctx, other, all, attempts)
	require.NoError(t, err)
	require.ElementsMatch(t, ids(all), lost)
	var outcomes []timer.Outcome
	for _, f := range all {
		outcomes = append(outcomes, delivered(f, now))
	}
	lost, err = s.st().Record(ctx, other, outcomes, attempts)
	require.NoError(t, err)
	require.ElementsMatch(t, ids(all), lost)
	for _, f := range all {
		rec, err := s.st().Fire(ctx, "app", f.FireID)
		require.NoError(t, err)
		require.NotNil(t, rec.Open)
		require.Equal(t, f, *rec.Open)
		require.Nil(t, rec.Outcome)
		require.Empty(t, rec.Attempts)
	}

	tried := fires[0]
	tried.Attempt, tried.State, tried.LateMS = 1, timer.FireRetrying, 9
	for range 2 {
		lost, err = s.st().RecordAttempts(ctx, owner, []timer.Fire{tried, free}, attempts)
		require.NoError(t, err)
		require.Equal(t, []timer.FireID{free.FireID}, lost)
	}
	rec, err := s.st().Fire(ctx, "app", tried.FireID)
	require.NoError(t, err)
	require.Equal(t, tried, *rec.Open)
	require.Equal(t, attempts[:1], rec.Attempts)
	rec, err = s.st().Fire(ctx, "app", free.FireID)
	require.NoError(t, err)
	require.Empty(t, rec.Attempts)
}

func release(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	now := s.nowMS()
	fires := s.claim(session, s.fires(3, now))
	back := append([]timer.Fire(nil), fires[:2]...)
	back[0].RunMS, back[0].Bucket, back[0].State, back[0].Attempt, back[0].LateMS = now+120_000, 3, timer.FireRetrying, 1, 12
	released, err := s.st().Release(ctx, session, back, []timer.Attempt{attempt(back[0], 1, now)})
	require.NoError(t, err)
	want := append([]timer.Fire(nil), back...)
	for i := range want {
		want[i].Rev, want[i].Owner = 1, 0
	}
	require.ElementsMatch(t, want, released)
	for _, f := range want {
		rec, err := s.st().Fire(ctx, "app", f.FireID)
		require.NoError(t, err)
		require.Equal(t, f, *rec.Open)
	}
	rec, err := s.st().Fire(ctx, "app", want[0].FireID)
	require.NoError(t, err)
	require.Equal(t, []timer.Attempt{attempt(back[0], 1, now)}, rec.Attempts)
	loaded, err := s.st().LoadSlice(ctx, timer.MinuteOf(now+120_000), 3, store.Position{}, now+120_000, 10)
	require.NoError(t, err)
	require.Equal(t, want[:1], loaded, "it is in the slice of its new run")

	again, err := s.st().Release(ctx, session, back, nil)
	require.NoError(t, err)
	require.Empty(t, again)
	require.Len(t, s.claim(session, released), 2)
	again, err = s.st().Release(ctx, session, back, nil)
	require.NoError(t, err)
	require.Empty(t, again, "not even when the session owns it again")
}

// concurrentReleases lets calls of a dead session, one of them repeated by several, race with heirs who take its fires over.
func concurrentReleases(t *testing.T, s *setup) {
	for range 5 {
		dead := s.session()
		fires := s.claim(dead, s.fires(60, s.nowMS()))
		require.Len(t, fires, 60)
		s.kill(dead)
		heirs := make([]timer.ID, 10)
		for i := range heirs {
			heirs[i] = s.session()
		}
		var mu sync.Mutex
		released, heir := map[timer.FireID]int{}, map[timer.FireID]timer.ID{}
		s.together(len(heirs), func(ctx context.Context, i int, st store.Store) error {
			if i/2%2 == 0 {
				got, err := st.Release(ctx, dead, fires, nil)
				mu.Lock()
				defer mu.Unlock()
				for _, f := range got {
					released[f.FireID]++
				}
				return err
			}
			won, err := st.Claim(ctx, heirs[i], fires[i*5:])
			mu.Lock()
			defer mu.Unlock()
			for _, f := range won {
				heir[f.FireID] = heirs[i]
			}
			return err
		})
		for _, f := range fires {
			rec, err := s.st().Fire(t.Context(), "app", f.FireID)
			require.NoError(t, err)
			require.NotNil(t, rec.Open)
			if owner, ok := heir[f.FireID]; ok {
				require.Zero(t, released[f.FireID], "taken over and released")
				require.Equal(t, owner, rec.Open.Owner)
				require.Zero(t, rec.Open.Rev)
				continue
			}
			require.Equal(t, 1, released[f.FireID], "by one call")
			require.Zero(t, rec.Open.Owner)
			require.EqualValues(t, 1, rec.Open.Rev)
		}
	}
}

func loadSlice(t *testing.T, s *setup) {
	ctx := t.Context()
	base := (s.nowMS()/timer.MinuteMS + 5) * timer.MinuteMS
	var items []store.NewTimer
	for range 8 {
		n := s.newTimer()
		n.Activate = true
		items = append(items, n)
	}
	out, err := s.st().Create(ctx, items, planAt(2, base+3000, base+1000, base+2000, base+timer.MinuteMS))
	require.NoError(t, err)
	require.Len(t, out[0].Fires, 4)
	s.fires(2, base+1500) // bucket 0
	session := s.session()
	require.Len(t, s.claim(session, out[3].Fires[:1]), 1)

	var got []timer.Fire
	after := store.Position{}
	for {
		page, err := s.st().LoadSlice(ctx, timer.MinuteOf(base), 2, after, base+2000, 3)
		require.NoError(t, err)
		got = append(got, page...)
		if len(page) < 3 {
			break
		}
		last := page[len(page)-1]
		after = store.Position{RunMS: last.RunMS, FireID: last.FireID}
	}
	require.Len(t, got, 15, "two instants of eight timers, one of them claimed")
	for i := 1; i < len(got); i++ {
		require.Negative(t, comparePositions(got[i-1], got[i]))
	}
	rest, err := s.st().LoadSlice(ctx, timer.MinuteOf(base), 2, after, timer.NeverMS, 100)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(rest), 8)
}

func comparePositions(a, b timer.Fire) int {
	switch {
	case a.RunMS < b.RunMS:
		return -1
	case a.RunMS > b.RunMS:
		return 1
	}
	return timer.CompareFires(a, b)
}

func (s *setup) overdue(live []timer.ID, limit int) []timer.Fire {
	s.t.Helper()
	found, err := s.st().Overdue(s.t.Context(), store.OverdueQuery{Live: live, Of: 1, Limit: limit})
	require.NoError(s.t, err)
	return found
}

func overdue(t *testing.T, s *setup) {
	ctx := t.Context()
	now := s.nowMS()
	_, err := s.st().Cursor(ctx, timer.MinuteOf(now)-10)
	require.NoError(t, err)
	live, dead := s.session(), s.session()
	ancient := s.fires(3, now-365*24*time.Hour.Milliseconds())
	hour := s.fires(1, now-time.Hour.Milliseconds())
	recent := s.fires(1, now-2*timer.MinuteMS)
	fresh := s.fires(1, now-store.SweepAfter.Milliseconds()/2)
	future := s.fires(1, now+timer.MinuteMS)
	require.Len(t, s.claim(live, ancient[:1]), 1)
	require.Len(t, s.claim(dead, ancient[1:2]), 1)
	s.kill(dead)

	found := s.overdue([]timer.ID{live}, 100)
	require.Equal(t, ids([]timer.Fire{ancient[1], ancient[2], hour[0]}), ids(found),
		"in order of run, and not of a slice that was never handed out")
	require.Equal(t, dead, found[0].Owner)
	require.Empty(t, s.overdue([]timer.ID{live}, 100), "not twice at once, however late they are")

	// The slice's row hands it out.
	for _, f := range append(recent, fresh...) {
		s.claimSlices(f.RunMinute(), 1, time.Minute, 1)
	}
	require.Equal(t, ids(recent), ids(s.overdue([]timer.ID{live}, 100)))
	require.Empty(t, s.overdue([]timer.ID{live}, 100))

	// Released, it is swept as if for the first time.
	heir := s.session()
	won := s.claim(heir, ancient[1:2])
	require.Len(t, won, 1)
	released, err := s.st().Release(ctx, heir, won, nil)
	require.NoError(t, err)
	require.Equal(t, ids(released), ids(s.overdue([]timer.ID{live}, 100)))
	_ = future
}

func overdueWalksABacklog(t *testing.T, s *setup) {
	ctx := t.Context()
	now := s.nowMS()
	_, err := s.st().Cursor(ctx, timer.MinuteOf(now)+1)
	require.NoError(t, err)
	_, err = s.st().GrowMinutes(ctx, []slicing.Growth{{Minute: timer.MinuteOf(now - 10_000), Added: 1, Buckets: 4}})
	require.NoError(t, err)
	want := map[timer.FireID]bool{}
	for bucket := range int32(4) {
		for _, due := range []int64{now - 10_000, now - 10*timer.MinuteMS, now - 10*timer.MinuteMS + 5} {
			var items []store.NewTimer
			for range 100 {
				n := s.newTimer()
				n.Activate = true
				items = append(items, n)
			}
			out, err := s.st().Create(ctx, items, planAt(bucket, due))
			require.NoError(t, err)
			for _, c := range out {
				want[c.Fires[0].FireID] = true
			}
		}
	}
	for _, shard := range []int32{0, 1, 2} {
		for {
			found, err := s.st().Overdue(ctx, store.OverdueQuery{Shard: shard, Of: 3, Limit: 70})
			require.NoError(t, err)
			if len(found) == 0 {
				break
			}
			require.LessOrEqual(t, len(found), 70)
			for _, f := range found {
				require.Equal(t, shard, f.Bucket%3)
				require.True(t, want[f.FireID], "each is found once")
				delete(want, f.FireID)
			}
		}
	}
	require.Empty(t, want)
}

func ownedAndOldest(t *testing.T, s *setup) {
	ctx := t.Context()
	oldest := func() int64 {
		t.Helper()
		at, err := s.st().OldestOpen(ctx)
		require.NoError(t, err)
		return at
	}
	require.Zero(t, oldest())
	now := s.nowMS()
	a, b := s.session(), s.session()
	later := s.fires(2, now+30*time.Second.Milliseconds())
	require.Zero(t, oldest())
	past := s.fires(2, now-time.Hour.Milliseconds())
	mid := s.fires(2, now-time.Second.Milliseconds())
	require.Equal(t, past[0].RunMS, oldest())
	s.claim(a, []timer.Fire{past[0], mid[0], later[0]})
	s.claim(b, []timer.Fire{mid[1]})
	owned := func(limit int, until int64, sessions ...timer.ID) []timer.FireID {
		t.Helper()
		got, err := s.st().Owned(ctx, sessions, until, limit)
		require.NoError(t, err)
		return ids(got)
	}
	require.Equal(t, ids([]timer.Fire{past[0], mid[0]}), owned(9, now, a))
	require.Equal(t, ids([]timer.Fire{past[0]}), owned(1, now, a))
	require.Equal(t, ids([]timer.Fire{past[0], mid[0], later[0]}), owned(9, timer.NeverMS, a))
	require.Len(t, owned(9, now, a, b), 3)
	require.Empty(t, owned(9, now))
	require.Empty(t, owned(9, now, 12345))
}
