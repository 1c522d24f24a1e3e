package storetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func oneOutcome(t *testing.T, s *setup) {
	ctx := t.Context()
	session, other := s.session(), s.session()
	now := s.nowMS()
	fires := s.claim(session, s.fires(5, now))
	outcomes := []timer.Outcome{
		delivered(fires[0], now+5),
		delivered(fires[1], now+3),
		delivered(fires[2], now+4),
	}
	outcomes[1].Kind, outcomes[1].Reason, outcomes[1].StatusCode = timer.Failed, timer.ReasonExhausted, 500
	attempts := []timer.Attempt{
		attempt(fires[1], 1, now),
		attempt(fires[1], 2, now+1),
		attempt(fires[3], 1, now),
	}
	for range 2 {
		lost, _, err := s.st().Record(ctx, session, outcomes, attempts)
		require.NoError(t, err)
		require.Empty(t, lost, "repeated, it reports nothing lost")
	}
	for i, o := range outcomes {
		rec, err := s.st().Fire(ctx, "app", o.FireID)
		require.NoError(t, err)
		require.Nil(t, rec.Open)
		require.NotNil(t, rec.Outcome)
		require.Equal(t, plain(o), plain(*rec.Outcome))
		require.Equal(t, session, rec.Outcome.Owner)
		if i == 1 {
			require.Equal(t, attempts[:2], rec.Attempts)
		} else {
			require.Empty(t, rec.Attempts)
		}
	}

	// This is another session's result for one of them, one of its own, and one that nobody owns.
	lost, _, err := s.st().Record(ctx, other, []timer.Outcome{delivered(fires[0], now+9)}, nil)
	require.NoError(t, err)
	require.Equal(t, ids(fires[:1]), lost)
	free := s.fires(1, now)[0]
	mixed := []timer.Outcome{outcomes[0], delivered(fires[3], now+9), delivered(free, now+9)}
	lost, _, err = s.st().Record(ctx, session, mixed, attempts)
	require.NoError(t, err)
	require.Equal(t, []timer.FireID{free.FireID}, lost)
	rec, err := s.st().Fire(ctx, "app", fires[3].FireID)
	require.NoError(t, err)
	require.NotNil(t, rec.Outcome)
	require.Equal(t, attempts[2:], rec.Attempts)
	rec, err = s.st().Fire(ctx, "app", fires[0].FireID)
	require.NoError(t, err)
	require.Equal(t, now+5, rec.Outcome.FinishedMS)

	// It was taken over, so the first owner's result does not count.
	s.expireSession(session)
	require.Len(t, s.claim(other, fires[4:]), 1)
	lost, _, err = s.st().Record(ctx, session, []timer.Outcome{delivered(fires[4], now)}, nil)
	require.NoError(t, err)
	require.Equal(t, ids(fires[4:]), lost)
	lost, _, err = s.st().Record(ctx, other, []timer.Outcome{delivered(fires[4], now)}, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	lost, _, err = s.st().Record(ctx, other, nil, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
}

// plain returns the parts of an outcome that every store keeps.
func plain(o timer.Outcome) timer.Outcome {
	o.Owner, o.Bucket, o.State, o.Attempt, o.FirstLatenessMS, o.PriorityLevel, o.TargetBits = 0, 0, 0, 0, 0, 0, 0
	o.WaitingSinceMS, o.WaitedFor = 0, 0
	return o
}

// recordsBatchesOfAnySize records batches around the sizes at which a store may change its statement.
// Each batch ends exactly its own fires. With a fire of another session in it, that one is lost.
func recordsBatchesOfAnySize(t *testing.T, s *setup) {
	session, other := s.session(), s.session()
	now := s.nowMS()
	for _, size := range []int{1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65} {
		batch := s.claim(session, s.fires(size, now))
		kept := s.claim(session, s.fires(2, now))
		others := s.claim(other, s.fires(1, now))
		for _, fires := range [][]timer.Fire{batch, append(others, kept[0])} {
			var outcomes []timer.Outcome
			for _, f := range fires {
				outcomes = append(outcomes, delivered(f, now+5))
			}
			lost, _, err := s.st().Record(t.Context(), session, outcomes, nil)
			require.NoError(t, err)
			if fires[0].FireID == others[0].FireID {
				require.Equal(t, ids(others), lost, "%d", size)
			} else {
				require.Empty(t, lost, "%d", size)
			}
		}
		open, err := s.st().OpenAmong(t.Context(), ids(slices.Concat(batch, kept, others)))
		require.NoError(t, err)
		require.ElementsMatch(
			t,
			[]timer.FireID{kept[1].FireID, others[0].FireID},
			ids(open),
			"%d",
			size,
		)
	}
}

func concurrentRecords(t *testing.T, s *setup) {
	const recorders, fires = 10, 50
	now := s.nowMS()
	dead := s.session()
	all := s.claim(dead, s.fires(fires, now))
	sessions := make([]timer.ID, recorders)
	for i := range sessions {
		sessions[i] = s.session()
	}
	s.expireSession(dead)
	var mu sync.Mutex
	recorded := map[timer.FireID]int{}
	s.together(recorders, func(ctx context.Context, i int, st store.Store) error {
		won, err := st.Claim(ctx, sessions[i], all)
		if err != nil {
			return err
		}
		// Each session records all of them, whether it claimed them or not, and some twice. The
		// expired one tries, too.
		session := sessions[i]
		if i == 0 {
			session = dead
		}
		var outcomes []timer.Outcome
		for _, f := range all {
			outcomes = append(outcomes, delivered(f, now+int64(i)))
		}
		for range 2 {
			lost, _, err := st.Record(ctx, session, outcomes, nil)
			if err != nil {
				return err
			}
			if i > 0 && len(lost) != len(all)-len(won) {
				t.Errorf(
					"recorder %d lost %d of %d, having won %d",
					i,
					len(lost),
					len(all),
					len(won),
				)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, f := range won {
			recorded[f.FireID]++
		}
		return nil
	})
	for _, f := range all {
		rec, err := s.st().Fire(t.Context(), "app", f.FireID)
		require.NoError(t, err)
		history, err := s.st().History(t.Context(), "app", f.Timer, timer.FireID{}, 10)
		require.NoError(t, err)
		if rec.Open == nil {
			require.Len(t, history, 1)
		} else {
			require.Empty(t, history)
			require.Equal(t, sessions[0], rec.Open.Owner, "only what recorder 0 won is still open")
		}
	}
}

func refusedOutcomeLosesItsDetails(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	now := s.nowMS()
	fires := s.claim(session, s.fires(9, now))
	var outcomes []timer.Outcome
	for _, f := range fires {
		outcomes = append(outcomes, delivered(f, now))
	}
	outcomes[4].Reason = timer.Reason(strings.Repeat("väry long ", 20))
	odd := attempt(fires[5], 1, now)
	odd.Error, odd.Excerpt = "\xff\xfe bytes", strings.Repeat("ä", timer.MaxExcerpt)
	lost, _, err := s.st().Record(ctx, session, outcomes, []timer.Attempt{odd})
	require.NoError(t, err)
	require.Empty(t, lost)
	for _, f := range fires {
		rec, err := s.st().Fire(ctx, "app", f.FireID)
		require.NoError(t, err)
		require.NotNil(t, rec.Outcome, "%v", f.FireID)
		require.Equal(t, timer.Delivered, rec.Outcome.Kind)
	}
	rec, err := s.st().Fire(ctx, "app", fires[5].FireID)
	require.NoError(t, err)
	require.Len(t, rec.Attempts, 1)
	require.Equal(t, strings.Repeat("ä", timer.MaxExcerpt/2), rec.Attempts[0].Excerpt)
}

func history(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	base := s.nowMS() - time.Hour.Milliseconds()
	var dues []int64
	for i := range int64(7) {
		dues = append(dues, base+i*1000)
	}
	n := s.newTimer()
	n.Activate = true
	made := s.create(n, planAt(0, dues...))
	fires := s.claim(session, made.Fires)
	require.Len(t, fires, 7)
	var outcomes []timer.Outcome
	for i, f := range fires[:6] {
		outcomes = append(outcomes, delivered(f, base+time.Hour.Milliseconds()-int64(i)))
	}
	lost, _, err := s.st().Record(ctx, session, outcomes, nil)
	require.NoError(t, err)
	require.Empty(t, lost)

	var got []timer.FireID
	var before timer.FireID
	for {
		page, err := s.st().History(ctx, "app", made.Timer.ID, before, 4)
		require.NoError(t, err)
		for _, o := range page {
			got = append(got, o.FireID)
		}
		if len(page) < 4 {
			break
		}
		before = page[len(page)-1].FireID
	}
	require.Len(t, got, 6)
	for i, id := range got {
		require.Equal(t, dues[5-i], id.DueMS, "latest due first")
	}
	s.setStatus(made.Timer, timer.StatusDeleted, noFires)
	page, err := s.st().History(ctx, "app", made.Timer.ID, timer.FireID{}, 10)
	require.NoError(t, err)
	require.Len(t, page, 6, "a deleted timer's fires are still explained")

	_, err = s.st().History(ctx, "other", made.Timer.ID, timer.FireID{}, 10)
	requireCode(t, timer.CodeNotFound, err)
	_, err = s.st().Fire(ctx, "other", fires[0].FireID)
	requireCode(t, timer.CodeNotFound, err)
	_, err = s.st().Fire(ctx, "app", timer.FireID{Timer: made.Timer.ID, DueMS: 1})
	requireCode(t, timer.CodeNotFound, err)
	rec, err := s.st().Fire(ctx, "app", fires[6].FireID)
	require.NoError(t, err)
	require.NotNil(t, rec.Open)
}

// lastScheduled finds the last fire of the schedule before an instant, behind those of requests.
func lastScheduled(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	base := s.nowMS() - time.Hour.Milliseconds()
	n := s.newTimer()
	n.Activate = true
	made := s.create(n, planAt(0, base, base+1000, base+2000))
	id := made.Timer.ID
	var added []timer.Fire
	for i := range int64(5) {
		added = append(added, timer.Fire{
			FireID:  timer.FireID{Timer: id, DueMS: base + 1000 + i*100, Series: 7},
			RunAtMS: base,
			AppID:   made.Timer.AppID,
			Version: 1,
			Epoch:   1,
			Cause:   timer.CauseBackfill,
		})
	}
	_, err := s.st().AddFires(ctx, "app", id, added)
	require.NoError(t, err)
	var outcomes []timer.Outcome
	for _, f := range s.claim(session, append(added, made.Fires[:2]...)) {
		outcomes = append(outcomes, delivered(f, base))
	}
	lost, _, err := s.st().Record(ctx, session, outcomes, nil)
	require.NoError(t, err)
	require.Empty(t, lost)

	for beforeMS, want := range map[int64]int64{
		base + 9000: base + 1000, base + 1001: base + 1000, base + 1000: base, base + 1: base, base: 0,
	} {
		o, found, err := s.st().LastScheduled(ctx, "app", id, beforeMS)
		require.NoError(t, err)
		require.Equal(t, want != 0, found)
		require.Equal(t, want, o.DueMS)
		if found {
			rec, err := s.st().Fire(ctx, "app", timer.FireID{Timer: id, DueMS: want})
			require.NoError(t, err)
			require.Equal(t, *rec.Outcome, o)
		}
	}
	_, _, err = s.st().LastScheduled(ctx, "other", id, base)
	requireCode(t, timer.CodeNotFound, err)
}

func retention(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	day := 24 * time.Hour.Milliseconds()
	now := s.nowMS()
	const keep = 7 * 24 * time.Hour
	require.NoError(t, s.st().PurgeExpired(ctx, keep))
	fires := s.claim(session, s.fires(5, now-20*day))
	ages := []int64{10 * day, 7*day + 60_000, 7*day - 60_000, 0, 0}
	var outcomes []timer.Outcome
	var attempts []timer.Attempt
	for i, f := range fires[:4] {
		outcomes = append(outcomes, delivered(f, now-ages[i]))
		attempts = append(attempts, attempt(f, 1, now-ages[i]-12))
	}
	lost, _, err := s.st().Record(ctx, session, outcomes, attempts)
	require.NoError(t, err)
	require.Empty(t, lost)
	s.together(
		4,
		func(ctx context.Context, _ int, st store.Store) error { return st.PurgeExpired(ctx, keep) },
	)
	for i, f := range fires {
		rec, err := s.st().Fire(ctx, "app", f.FireID)
		switch {
		case i < 2 && s.CoarseRetention:
			// Retention by the day is tested beside the implementation.
		case i < 2:
			requireCode(t, timer.CodeNotFound, err)
		case i < 4:
			require.NoError(t, err)
			require.NotNil(t, rec.Outcome)
			require.Len(t, rec.Attempts, 1)
		default:
			require.NoError(t, err)
			require.NotNil(t, rec.Open, "an open fire is kept, however old")
		}
	}
}
