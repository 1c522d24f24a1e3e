package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
)

func (s *setup) claimSlices(
	minute int64,
	buckets int32,
	lease time.Duration,
	limit int,
) []store.SliceClaim {
	s.t.Helper()
	got, err := s.st().ClaimSlices(s.t.Context(), minute, buckets, lease, limit)
	require.NoError(s.t, err)
	return got
}

func oneClaimPerSlice(t *testing.T, s *setup) {
	const buckets = 20
	var mu sync.Mutex
	seen := map[int32]int{}
	s.together(10, func(ctx context.Context, _ int, st store.Store) error {
		for range 4 {
			claims, err := st.ClaimSlices(ctx, 100, buckets, time.Minute, 3)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, c := range claims {
				seen[c.Bucket]++
			}
			mu.Unlock()
		}
		return nil
	})
	for _, c := range s.claimSlices(100, buckets, time.Minute, buckets) {
		seen[c.Bucket]++
	}
	require.Len(t, seen, buckets)
	for b, n := range seen {
		require.Equal(t, 1, n, "bucket %d", b)
	}
	backlog, err := s.st().SliceBacklog(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, buckets, backlog)
}

func leaseRunsOut(t *testing.T, s *setup) {
	first := s.claimSlices(100, 2, 50*time.Millisecond, 10)
	require.Len(t, first, 2)
	done, err := s.st().FinishSlice(t.Context(), first[0])
	require.NoError(t, err)
	require.True(t, done)
	var second []store.SliceClaim
	require.Eventually(t, func() bool {
		second = s.claimSlices(100, 2, time.Minute, 10)
		return len(second) > 0
	}, 5*time.Second, 10*time.Millisecond)
	require.Len(t, second, 1, "a finished slice is never claimed again")
	require.Equal(t, first[1].Bucket, second[0].Bucket)
	require.Greater(t, second[0].Token, first[1].Token)
	require.Empty(t, s.claimSlices(100, 2, time.Minute, 10))
}

func staleTokensChangeNothing(t *testing.T, s *setup) {
	ctx := t.Context()
	holder, other := s.session(), s.session()
	old := s.claimSlices(100, 1, time.Millisecond, 1)[0]
	ok, err := s.st().AcquireSlice(ctx, old, holder, time.Millisecond, false)
	require.NoError(t, err)
	require.True(t, ok)
	var cur store.SliceClaim
	require.Eventually(t, func() bool {
		got := s.claimSlices(100, 1, time.Minute, 1)
		if len(got) == 1 {
			cur = got[0]
		}
		return len(got) == 1
	}, 5*time.Second, 5*time.Millisecond)

	ok, err = s.st().AcquireSlice(ctx, old, holder, time.Minute, false)
	require.NoError(t, err)
	require.False(t, ok)
	lost, err := s.st().RenewSlices(ctx, holder, []store.SliceClaim{old}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []store.SliceClaim{old}, lost)
	ok, err = s.st().FinishSlice(ctx, old)
	require.NoError(t, err)
	require.False(t, ok)

	// The message was delivered twice: the latest token, with another holder. The later holder gets
	// the slice, unless it asks for a free one.
	for range 2 {
		ok, err = s.st().AcquireSlice(ctx, cur, holder, time.Minute, true)
		require.NoError(t, err)
		require.True(t, ok, "repeating it answers true")
	}
	ok, err = s.st().AcquireSlice(ctx, cur, other, time.Minute, true)
	require.NoError(t, err)
	require.False(t, ok, "another holder has it")
	lost, err = s.st().RenewSlices(ctx, holder, []store.SliceClaim{cur, old, cur}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []store.SliceClaim{old}, lost)
	ok, err = s.st().AcquireSlice(ctx, cur, other, time.Minute, false)
	require.NoError(t, err)
	require.True(t, ok)
	lost, err = s.st().RenewSlices(ctx, holder, []store.SliceClaim{cur}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []store.SliceClaim{cur}, lost)

	for range 2 {
		ok, err = s.st().FinishSlice(ctx, cur)
		require.NoError(t, err)
		require.True(t, ok, "repeating it answers true")
	}
	ok, err = s.st().AcquireSlice(ctx, cur, other, time.Minute, false)
	require.NoError(t, err)
	require.False(t, ok, "a finished slice cannot be acquired")
	lost, err = s.st().RenewSlices(ctx, other, []store.SliceClaim{cur}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []store.SliceClaim{cur}, lost)
	lost, err = s.st().RenewSlices(ctx, other, nil, time.Minute)
	require.NoError(t, err)
	require.Empty(t, lost)
}

func cursorWaitsForSlices(t *testing.T, s *setup) {
	ctx := t.Context()
	starts := make([]int64, 6)
	s.together(len(starts), func(ctx context.Context, i int, st store.Store) error {
		var err error
		starts[i], err = st.Cursor(ctx, int64(100+i))
		return err
	})
	from := starts[0]
	for _, at := range starts {
		require.Equal(t, from, at, "one call sets it, the others find it")
	}
	advance := func(limit int64) int64 {
		t.Helper()
		at, err := s.st().AdvanceCursor(ctx, limit)
		require.NoError(t, err)
		return at
	}
	require.Equal(t, from, advance(from+10), "a minute without a row stops the cursor")
	_, err := s.st().GrowMinutes(ctx, []slicing.Growth{{Minute: from, Added: 1, Buckets: 2}})
	require.NoError(t, err)
	for m := from; m < from+4; m++ {
		_, err := s.st().FreezeMinute(ctx, m)
		require.NoError(t, err)
	}
	require.Equal(t, from, advance(from+10), "slices that nobody claimed yet are not done")
	finish := func(minute int64, buckets int32) {
		t.Helper()
		for _, c := range s.claimSlices(minute, buckets, time.Minute, 1) {
			ok, err := s.st().FinishSlice(ctx, c)
			require.NoError(t, err)
			require.True(t, ok)
		}
	}
	finish(from, 2)
	finish(from+1, 1)
	require.Equal(t, from, advance(from+10))
	finish(from, 2)
	require.Equal(t, from+1, advance(from+1), "not past the limit")
	require.Equal(t, from+2, advance(from+10))
	finish(from+3, 1)
	require.Equal(t, from+2, advance(from+10), "there is no gap")
	finish(from+2, 1)
	require.Equal(t, from+4, advance(from+10))
	_, err = s.st().FreezeMinute(ctx, from+5)
	require.NoError(t, err)
	finish(from+5, 1)
	require.Equal(
		t,
		from+4,
		advance(from+10),
		"nor over a minute that has no row, whatever is behind it",
	)
	require.Equal(t, from+4, advance(from), "it never moves back")
	at, err := s.st().Cursor(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, from+4, at)
	backlog, err := s.st().SliceBacklog(ctx)
	require.NoError(t, err)
	require.Zero(t, backlog)
}
