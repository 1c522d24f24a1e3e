package sqlstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestUnreadableJobsStopNoOther checks that a job which this release cannot read is passed over, and that
// it is listed, cancelled and ended with its app like any other.
func TestUnreadableJobsStopNoOther(t *testing.T) {
	t.Parallel()
	onEachEngine(t, unreadableJobsStopNoOther)
}

func unreadableJobsStopNoOther(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := store.WithActor(t.Context(), &store.Actor{Kind: store.ActorKey, ID: "k"})
	for _, app := range []string{"a", "b"} {
		_, err := s.PutSettings(ctx, app, store.AppSettings{}, 0)
		require.NoError(t, err)
	}
	start := func(id timer.ID, app string, action store.JobAction) store.Job {
		t.Helper()
		j, err := s.StartJob(
			ctx,
			store.Job{ID: id, App: app, Action: action, Request: []byte("{}")},
		)
		require.NoError(t, err)
		return j
	}
	good := start(9, "b", store.JobPause)
	const lease = time.Hour
	for i, column := range []string{"page", "errors", "started_by"} {
		bad := start(timer.ID(i+1), "a", store.JobPause)
		_, err := s.Exec(ctx, "UPDATE jobs SET lease_until_ms=1,"+column+"=? WHERE id=?",
			[]byte(`{"id":{"of":"a newer release"}}`), int64(bad.ID))
		require.NoError(t, err)
		_, err = s.Exec(ctx, "UPDATE jobs SET lease_until_ms=2 WHERE id=?", int64(good.ID))
		require.NoError(t, err)

		next, ok, err := s.LeaseJob(ctx, lease)
		require.NoError(t, err, column)
		require.True(t, ok, column)
		require.Equal(t, good.ID, next.ID, column)
		_, ok, err = s.LeaseJob(ctx, lease)
		require.NoError(t, err)
		require.False(t, ok, "a leased job is not taken")
		reason, err := s.Number(ctx, "SELECT COUNT(*) FROM jobs WHERE reason<>''")
		require.NoError(t, err)
		require.Equal(t, i+1, reason)

		got, err := s.Job(ctx, "a", bad.ID)
		require.NoError(t, err)
		require.Equal(t, store.JobRunning, got.Status)
		require.Contains(t, got.Reason, "reading", column)
		again := start(bad.ID, "a", store.JobPause)
		require.Equal(t, got, again)
	}
	listed, err := s.Jobs(ctx, "a", 0, 10)
	require.NoError(t, err)
	require.Len(t, listed, 3)
	cancelled, err := s.CancelJob(ctx, "a", 1)
	require.NoError(t, err)
	require.Equal(t, store.JobCancelled, cancelled.Status)
	_, err = s.CancelJob(ctx, "a", 1)
	require.NoError(t, err)
	deletion := start(4, "a", store.JobDeleteApp)
	require.Equal(t, store.JobRunning, deletion.Status)
	listed, err = s.Jobs(ctx, "a", deletion.ID, 10)
	require.NoError(t, err)
	for i := range listed {
		require.Equal(t, store.JobCancelled, listed[i].Status)
	}
	next, ok, err := s.LeaseJob(ctx, lease)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, deletion.ID, next.ID)
}
