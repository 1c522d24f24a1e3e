package storetest

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

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
		// Each claims three quarters of them, a different part each time, and some of them twice.
		request := append(append([]timer.Fire(nil), all[i:i+fires*3/4]...), all[i], all[i+1])
		won, err := st.Claim(ctx, sessions[i], request)
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
		owned, err := s.st().Owned(t.Context(), []timer.ID{session}, 0, timer.NeverMS, fires)
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
	require.Empty(t, s.claim(b, won[:1]), "an older revision of an owned fire")
	mixed := append(append([]timer.Fire(nil), released...), won[0])
	require.Len(t, s.claim(b, mixed), 1)

	done := delivered(won[1], s.nowMS())
	lost, _, err := s.st().Record(t.Context(), a, []timer.Outcome{done}, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Empty(t, s.claim(b, won[1:2]), "a finished fire")
	require.Empty(t, s.claim(b, nil))
}

func claimsOfExpiredSessionsAreTaken(t *testing.T, s *setup) {
	const recoverers = 8
	dead, alive := s.session(), s.session()
	fires := s.fires(20, s.nowMS())
	require.Len(t, s.claim(dead, fires[:15]), 15)
	require.Len(t, s.claim(alive, fires[15:18]), 3)
	late := fires[0]
	late.Attempt, late.State, late.FirstLatenessMS, late.RunAtMS = 1, timer.FireRetrying, 7, late.RunAtMS+4000
	lost, err := s.st().RecordAttempts(t.Context(), dead, []timer.Fire{late}, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Empty(t, s.claim(alive, fires[:15]), "its owner is alive")
	s.expireSession(dead)
	require.Empty(t, s.claim(dead, fires[18:]), "an expired session wins nothing")
	require.Len(t, s.claim(dead, fires), 15, "an expired session keeps what it owns")

	sessions := make([]timer.ID, recoverers)
	for i := range sessions {
		sessions[i] = s.session()
	}
	var mu sync.Mutex
	won := map[timer.FireID]timer.Fire{}
	s.together(recoverers, func(ctx context.Context, i int, st store.Store) error {
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
	require.EqualValues(t, 7, won[late.FireID].FirstLatenessMS)
	require.Equal(
		t,
		late.RunAtMS,
		won[late.FireID].RunAtMS,
		"the wait of an attempt outlives who made the one before",
	)
}

// concurrentReleases lets calls of an expired session, one of them repeated by several, race with
// sessions that take over its fires.
func concurrentReleases(t *testing.T, s *setup) {
	for range 5 {
		dead := s.session()
		fires := s.claim(dead, s.fires(60, s.nowMS()))
		require.Len(t, fires, 60)
		s.expireSession(dead)
		recoverers := make([]timer.ID, 10)
		for i := range recoverers {
			recoverers[i] = s.session()
		}
		var mu sync.Mutex
		released, recoverer := map[timer.FireID]int{}, map[timer.FireID]timer.ID{}
		s.together(len(recoverers), func(ctx context.Context, i int, st store.Store) error {
			if i/2%2 == 0 {
				got, err := st.Release(ctx, dead, fires, nil)
				mu.Lock()
				defer mu.Unlock()
				for _, f := range got {
					released[f.FireID]++
				}
				return err
			}
			won, err := st.Claim(ctx, recoverers[i], fires[i*5:])
			mu.Lock()
			defer mu.Unlock()
			for _, f := range won {
				recoverer[f.FireID] = recoverers[i]
			}
			return err
		})
		for _, f := range fires {
			rec, err := s.st().Fire(t.Context(), "app", f.FireID)
			require.NoError(t, err)
			require.NotNil(t, rec.Open)
			if owner, ok := recoverer[f.FireID]; ok {
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
	lost, _, err = s.st().Record(ctx, other, outcomes, attempts)
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
	tried.Attempt, tried.State, tried.FirstLatenessMS, tried.RunAtMS, tried.Bucket = 1, timer.FireRetrying, 9, now+70_000, 2
	tried.WaitingSinceMS, tried.WaitedFor = now-7, timer.WaitBreaker
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
	back[0].RunAtMS, back[0].Bucket, back[0].State, back[0].Attempt, back[0].FirstLatenessMS = now+120_000, 3, timer.FireRetrying, 1, 12
	back[0].WaitingSinceMS, back[0].WaitedFor = now-5, timer.WaitLimits
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
	loaded, err := s.st().
		LoadSlice(ctx, timer.MinuteOf(now+120_000), 3, store.Position{}, now+120_000, 10)
	require.NoError(t, err)
	require.Equal(t, want[:1], loaded, "it is in the slice of its new run_at")

	again, err := s.st().Release(ctx, session, back, nil)
	require.NoError(t, err)
	require.Empty(t, again)
	require.Len(t, s.claim(session, released), 2)
	again, err = s.st().Release(ctx, session, back, nil)
	require.NoError(t, err)
	require.Empty(t, again, "not even when the session owns it again")
}
