package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// requireNoDryRuns checks that a store that cannot roll back does not write instead.
func requireNoDryRuns(t *testing.T, s *setup) {
	t.Helper()
	n := s.newTimer()
	require.Panics(t, func() {
		_, _ = s.st().Create(store.WithDryRun(t.Context()), []store.NewTimer{n}, noFires)
	})
	_, err := s.st().TimerByName(t.Context(), n.App, n.Name)
	require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))
}

// dryRunsWriteNothing makes each call as a dry run and then in earnest.
func dryRunsWriteNothing(t *testing.T, s *setup) {
	t.Helper()
	if s.NoDryRuns {
		requireNoDryRuns(t, s)
		return
	}
	ctx, st := t.Context(), s.st()
	dry := store.WithDryRun(ctx)
	plan := grid(10*time.Minute, 1000)
	n := s.newTimer()
	n.Activate, n.Definition = true, gridDefinition(time.Minute)
	tried, err := st.Create(dry, []store.NewTimer{n}, plan)
	require.NoError(t, err)
	require.NoError(t, tried[0].Err)
	require.False(t, tried[0].Existing)
	require.Equal(t, timer.StatusActive, tried[0].Timer.Status)
	_, err = st.TimerByName(ctx, n.App, n.Name)
	require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))
	for _, app := range []string{"settings", "calendar", "key"} {
		s.dryRunOfNewApp(dry, app)
		_, err := st.App(ctx, app)
		require.Equal(t, timer.CodeNotFound, timer.CodeOf(err), "no app is inserted: %s", app)
	}
	_, err = st.App(ctx, n.App)
	require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))

	made := s.create(n, plan).Timer
	require.NotEqual(t, tried[0].Timer.ID, made.ID)
	s.dryRunsOfTimer(made, n, plan)
}

// dryRunsOfTimer makes dry runs about a timer that exists.
func (s *setup) dryRunsOfTimer(made timer.Timer, n store.NewTimer, plan store.Planner) {
	t := s.t
	t.Helper()
	ctx, st := t.Context(), s.st()
	dry := store.WithDryRun(ctx)
	tried, err := st.Create(dry, []store.NewTimer{n}, plan)
	require.NoError(t, err)
	require.True(t, tried[0].Existing)
	before, err := st.LastChange(ctx)
	require.NoError(t, err)
	off := []store.StatusChange{{App: made.App, ID: made.ID, Status: timer.StatusDeleted}}
	changed, err := st.SetStatus(dry, off, plan)
	require.NoError(t, err)
	require.Equal(t, timer.StatusDeleted, changed[0].Timer.Status)
	edit := store.Edit{App: made.App, ID: made.ID, Definition: gridDefinition(time.Hour)}
	edited, err := st.Edit(dry, []store.Edit{edit}, plan)
	require.NoError(t, err)
	require.EqualValues(t, 2, edited[0].Timer.Version)
	edit.IfVersion = 7
	edited, err = st.Edit(dry, []store.Edit{edit}, plan)
	require.NoError(t, err)
	require.Equal(t, timer.CodeConflict, timer.CodeOf(edited[0].Err))
	fire := timer.Fire{FireID: timer.FireID{Timer: made.ID, DueMS: s.nowMS(), Series: 9}}
	added, err := st.AddFires(dry, made.App, made.ID, []timer.Fire{fire})
	require.NoError(t, err)
	require.Len(t, added, 1)
	_, err = st.Fire(ctx, made.App, fire.FireID)
	require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))
	b := store.Backfill{ID: s.ids.Next(), App: made.App, Timer: made.ID, FromMS: 1, ToMS: 2}
	_, err = st.StartBackfill(dry, b)
	require.NoError(t, err)
	_, err = st.StartBackfill(ctx, b)
	require.NoError(t, err)
	cancelled, err := st.CancelBackfill(dry, made.App, b.ID)
	require.NoError(t, err)
	require.Equal(t, store.BackfillCancelled, cancelled.Status)
	b, err = st.Backfill(ctx, made.App, b.ID)
	require.NoError(t, err)
	require.Equal(t, store.BackfillRunning, b.Status)
	for i, call := range []context.Context{dry, ctx} {
		value := int64(i)
		kept, err := st.PutIfAbsent(call, made.App, "\x01k", []byte{byte(i)}, value)
		require.NoError(t, err)
		require.Equal(t, value, kept)
	}

	got, err := st.Timer(ctx, made.App, made.ID)
	require.NoError(t, err)
	require.Equal(t, made, got)
	after, err := st.LastChange(ctx)
	require.NoError(t, err)
	require.Equal(t, before, after, "the change log is as it was")
}

// dryRunOfNewApp makes one call about an app that does not exist.
func (s *setup) dryRunOfNewApp(dry context.Context, app string) {
	s.t.Helper()
	var err error
	switch app {
	case "settings":
		var a store.App
		a, err = s.st().PutSettings(dry, app, store.AppSettings{Rate: 7}, 0)
		require.InDelta(s.t, 7, a.Settings.Rate, 0)
	case "calendar":
		var v store.CalendarVersion
		v, err = s.st().PutCalendar(dry, app, timer.Calendar{Name: "days"}, 0)
		require.EqualValues(s.t, 1, v.Version)
	default:
		err = s.st().AddAPIKey(dry, store.APIKey{
			ID: "k", App: app, Name: "n", Scope: "read", Hash: []byte{1},
		})
	}
	require.NoError(s.t, err)
}

// dryRunsBesideWrites runs both at once: the writes are all there, the dry runs are not.
func dryRunsBesideWrites(t *testing.T, s *setup) {
	t.Helper()
	if s.NoDryRuns {
		requireNoDryRuns(t, s)
		return
	}
	const calls = 24
	items := make([]store.NewTimer, calls)
	for i := range items {
		items[i] = s.newTimer()
	}
	s.together(calls, func(ctx context.Context, i int, st store.Store) error {
		if i%2 == 1 {
			ctx = store.WithDryRun(ctx)
		}
		out, err := st.Create(ctx, items[i:i+1], noFires)
		if err == nil {
			err = out[0].Err
		}
		return err //nolint:wrapcheck // the test tells it
	})
	for i := range items {
		_, err := s.st().TimerByName(t.Context(), items[i].App, items[i].Name)
		if i%2 == 0 {
			require.NoError(t, err)
		} else {
			require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))
		}
	}
}
