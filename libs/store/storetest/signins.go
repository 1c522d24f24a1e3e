package storetest

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const testIssuer = "https://id.example.com"

func signInsAreEnded(t *testing.T, s *setup) {
	st := s.st()
	ctx := store.WithActor(t.Context(), testActor("k1"))
	ended := func(issuer, subject string) int64 {
		t.Helper()
		at, err := s.Stores[len(s.Stores)-1].SignInsEnded(t.Context(), issuer, subject)
		require.NoError(t, err)
		return at
	}
	long := strings.Repeat("s", store.MaxSubject)
	issuer := testIssuer + strings.Repeat("/", store.MaxIssuer-len(testIssuer))
	require.Zero(t, ended(testIssuer, "ada"))
	for _, who := range [][2]string{{testIssuer, "ada"}, {issuer, long}} {
		from := s.nowMS()
		first, err := st.EndSignIns(ctx, who[0], who[1])
		require.NoError(t, err)
		require.GreaterOrEqual(t, first, from+store.SignInMargin.Milliseconds())
		require.LessOrEqual(t, first, s.nowMS()+store.SignInMargin.Milliseconds())
		require.Equal(t, first, ended(who[0], who[1]))
		second, err := st.EndSignIns(ctx, who[0], who[1])
		require.NoError(t, err)
		require.Greater(t, second, first)
		require.Equal(t, second, ended(who[0], who[1]))
	}
	for _, other := range [][2]string{
		{testIssuer, "Ada"}, {testIssuer, "ad"}, {testIssuer, long}, {issuer, "ada"},
	} {
		require.Zero(t, ended(other[0], other[1]))
	}
	page, err := st.AuditTrail(ctx, store.AuditQuery{Limit: 9, ScanLimit: 9})
	require.NoError(t, err)
	require.Equal(t, []string{
		"end_sessions person", "end_sessions person", "end_sessions person", "end_sessions person",
	}, did(page.Entries))
	require.Equal(t, long, page.Entries[0].Resource)
	require.Equal(t, "ada", page.Entries[3].Resource)
	require.Contains(t, string(page.Entries[3].After), `{"issuer":"https://id.example.com",`)

	for _, bad := range [][2]string{
		{"", "ada"}, {testIssuer, ""}, {testIssuer, long + "s"}, {issuer + "/", "ada"},
	} {
		_, err := st.EndSignIns(ctx, bad[0], bad[1])
		requireCode(t, timer.CodeInvalid, err)
	}
	kept := ended(testIssuer, "ada")
	require.NoError(t, st.PurgeExpired(ctx, time.Minute))
	require.Equal(t, kept, ended(testIssuer, "ada"))
	if s.NoDryRuns {
		return
	}
	tried, err := st.EndSignIns(store.WithDryRun(ctx), testIssuer, "bob")
	require.NoError(t, err)
	require.NotZero(t, tried)
	require.Zero(t, ended(testIssuer, "bob"))
}

// PurgeEndedSignIns checks that PurgeExpired removes the instant of a person a day after the longest
// session that began before it, and not earlier. open returns a store whose clock is now.
func PurgeEndedSignIns(t *testing.T, open func(now func() time.Time) store.Store) {
	t.Helper()
	var later atomic.Int64
	st := open(func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	_, err := st.EndSignIns(t.Context(), testIssuer, "ada")
	require.NoError(t, err)
	for _, c := range []struct {
		after time.Duration
		kept  bool
	}{
		{store.MaxSignIn + 23*time.Hour, true},
		{store.MaxSignIn + 25*time.Hour, false},
	} {
		later.Store(int64(c.after))
		require.NoError(t, st.PurgeExpired(t.Context(), time.Hour))
		at, err := st.SignInsEnded(t.Context(), testIssuer, "ada")
		require.NoError(t, err)
		require.Equal(t, c.kept, at != 0, c.after)
	}
}

// concurrentSignInEnds checks that each call has an instant and an entry of its own, and that the
// latest instant stays.
func concurrentSignInEnds(t *testing.T, s *setup) {
	const calls = 16
	at := make([]int64, calls)
	s.together(calls, func(ctx context.Context, i int, st store.Store) (err error) {
		at[i], err = st.EndSignIns(store.WithActor(ctx, testActor("k1")), testIssuer, "ada")
		return err
	})
	slices.Sort(at)
	latest := at[calls-1]
	require.Len(t, slices.Compact(at), calls)
	got, err := s.st().SignInsEnded(t.Context(), testIssuer, "ada")
	require.NoError(t, err)
	require.Equal(t, latest, got)
	page, err := s.st().AuditTrail(t.Context(), store.AuditQuery{Limit: 99, ScanLimit: 99})
	require.NoError(t, err)
	require.Len(t, page.Entries, calls)
}
