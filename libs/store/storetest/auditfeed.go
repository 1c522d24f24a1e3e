package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
)

// auditFeed reads the entries of two apps by pages, and goes on where the one before ended.
func auditFeed(t *testing.T, s *setup) {
	ctx := store.WithActor(t.Context(), testActor("k1"))
	st := s.st()
	const entries = 7
	for i := range entries {
		e, err := store.AuditTestCalled(0, fmt.Sprint("n", i), nil)
		require.NoError(t, err)
		require.NoError(t, st.AddAudit(ctx, []string{"app", "other"}[i%2], e))
	}
	l, ok, err := st.LeaseAuditFeed(ctx, time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	require.Zero(t, l.After)
	_, again, err := st.LeaseAuditFeed(ctx, time.Hour)
	require.NoError(t, err)
	require.False(t, again, "another caller has it")
	young, err := st.PendingAudit(ctx, 0, time.Hour, 100)
	require.NoError(t, err)
	require.Empty(t, young)

	var names []string
	at := l.After
	for {
		page, err := st.PendingAudit(ctx, at, -time.Minute, 3)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		require.LessOrEqual(t, len(page), 3)
		for _, e := range page {
			require.Greater(t, e.Seq, at, "in order")
			at = e.Seq
			names = append(names, e.App+" "+e.Name)
		}
		require.NoError(t, st.AckAudit(ctx, at))
	}
	require.Equal(t, []string{
		"app n0", "other n1", "app n2", "other n3", "app n4", "other n5", "app n6",
	}, names)
	require.NoError(t, st.AckAudit(ctx, l.After+1), "late")
	require.NoError(t, st.ReleaseAuditFeed(ctx, store.AuditLease{UntilMS: l.UntilMS - 1}))
	_, ok, err = st.LeaseAuditFeed(ctx, time.Hour)
	require.NoError(t, err)
	require.False(t, ok, "only the holder releases it")
	require.NoError(t, st.ReleaseAuditFeed(ctx, l))
	next, ok, err := st.LeaseAuditFeed(ctx, time.Millisecond)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, at, next.After, "it never moves back")
	require.Eventually(t, func() bool {
		_, ok, err := st.LeaseAuditFeed(ctx, time.Millisecond)
		return err == nil && ok
	}, time.Minute, time.Millisecond, "a lease ends")
}

// AuditFeedPassesTheFuture checks that entries which a clock that was far ahead for a moment has dated
// do not hold up those behind them. dated adds an entry by a clock that is wrong.
func AuditFeedPassesTheFuture(
	t *testing.T, env Env, dated func(add func(name string), name string, by time.Duration),
) {
	t.Helper()
	s := newSetup(t, env)
	ctx := store.WithActor(t.Context(), testActor("k1"))
	add := func(name string) {
		t.Helper()
		e, err := store.AuditTestCalled(0, name, nil)
		require.NoError(t, err)
		require.NoError(t, s.st().AddAudit(ctx, "app", e))
	}
	requirePending := func(delay time.Duration, want ...string) {
		t.Helper()
		for _, size := range []int{1, 2, 10} {
			var names []string
			for at := int64(0); ; {
				page, err := s.st().PendingAudit(ctx, at, delay, size)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), size)
				if len(page) == 0 {
					break
				}
				for i := range page {
					names = append(names, page[i].Name)
				}
				at = page[len(page)-1].Seq
			}
			require.Equal(t, want, names)
		}
	}
	add("first")
	for _, name := range []string{"a", "b", "c"} {
		dated(add, name, 24*time.Hour)
	}
	requirePending(0, "first")
	requirePending(time.Hour)
	add("last")
	requirePending(0, "first", "a", "b", "c", "last")
	dated(add, "behind", -2*time.Hour)
	requirePending(time.Hour) // those of the present end the feed
}

// auditFeedHasOneHolder leases by many callers at once.
func auditFeedHasOneHolder(t *testing.T, s *setup) {
	var held atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, ok, err := s.st().LeaseAuditFeed(t.Context(), time.Hour); err == nil && ok {
				held.Add(1)
			}
		})
	}
	all.Wait()
	require.Equal(t, int32(1), held.Load())
}
