package sqlstore_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestDeferralsOfManyTimers counts statements. Timers for whose slots nothing waits need none each,
// whether the deferred fire gives its slot up or keeps it between two attempts.
func TestDeferralsOfManyTimers(t *testing.T) {
	t.Parallel()
	require.Equal(t, deferStatements(t, 2), deferStatements(t, 40))
}

// deferStatements returns how many statements the deferral of n timers' fires takes.
func deferStatements(t *testing.T, n int) (count int) {
	t.Helper()
	s := openSQLite(t, sqlstore.SQLiteOptions{Dir: t.TempDir()})
	ctx := t.Context()
	session := store.Session{ID: 11, Kind: store.ExecutorSession, Name: "a"}
	require.NoError(t, s.OpenSession(ctx, session))
	const now = 1_900_000_000_000
	timers := make([]store.NewTimer, n)
	for i := range timers {
		timers[i] = store.NewTimer{App: "app", Name: fmt.Sprint(i), Activate: true}
	}
	made, err := s.Create(ctx, timers, func(tm *timer.Timer, _ int64) store.Plan {
		id := timer.FireID{Timer: tm.ID, DueMS: now}
		return store.Plan{
			NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS,
			Fires: []timer.Fire{{FireID: id, RunAtMS: now}},
		}
	})
	require.NoError(t, err)
	var fires []timer.Fire
	var pauses []store.StatusChange
	for i := range made {
		fires = append(fires, made[i].Fires...)
		pauses = append(pauses, store.StatusChange{
			App: "app", ID: made[i].Timer.ID, Status: timer.StatusPaused,
		})
	}
	fires, err = s.Claim(ctx, session.ID, fires)
	require.NoError(t, err)
	require.Len(t, fires, n)
	requests := make([]store.SlotRequest, n)
	for i := range fires {
		requests[i].Fire = fires[i]
		requests[i].Concurrency.Policy = timer.ConcurrencySkip
	}
	_, err = s.AcquireSlots(ctx, session.ID, requests)
	require.NoError(t, err)
	_, err = s.SetStatus(ctx, pauses, nil)
	require.NoError(t, err)
	deferrals := make([]store.Deferral, n)
	for i := range fires {
		fires[i].Attempt = int32(i % 2)
		deferrals[i] = store.Deferral{Fire: fires[i], RunAtMS: timer.DeferredMS}
	}
	s.OnStatement(func(string) { count++ })
	kept, err := s.Defer(ctx, session.ID, deferrals)
	require.NoError(t, err)
	require.Empty(t, kept)
	return count
}
