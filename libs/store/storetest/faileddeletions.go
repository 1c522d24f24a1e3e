package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
)

// failedDeletions checks that an app whose deletion failed is not closed for good: it can be deleted
// again.
func failedDeletions(t *testing.T, s *setup) { s.deleteAfterFailure(false) }

// purgedFailedDeletions checks the same once the job that failed was purged.
func purgedFailedDeletions(t *testing.T, s *setup) { s.deleteAfterFailure(true) }

func (s *setup) deleteAfterFailure(purged bool) {
	s.t.Helper()
	ctx := s.t.Context()
	s.create(s.newTimer(), noFires)
	failed := s.startJob(store.JobDeleteApp, "")
	j := s.leaseJob(time.Minute)
	require.Equal(s.t, failed.ID, j.ID)
	j.Reason = "the database is full"
	require.True(s.t, s.advanceJob(j))
	require.Equal(s.t, j.Reason, s.job(j.ID).Reason, "it is told while the job runs")
	j = s.leaseJob(time.Minute)
	require.Equal(s.t, "the database is full", j.Reason)
	j.Status, j.Reason = store.JobFailed, "a row that this release cannot read"
	require.True(s.t, s.advanceJob(j))
	if purged {
		require.NoError(s.t, s.st().PurgeExpired(ctx, -time.Hour))
	}
	again, err := s.st().StartJob(ctx, store.Job{
		ID: s.ids.Next(), App: "app", Action: store.JobDeleteApp,
	})
	require.NoError(s.t, err)
	require.Equal(s.t, store.JobRunning, again.Status, "another job goes on")
	j = s.leaseJob(time.Minute)
	j.Status = store.JobDone
	require.True(s.t, s.advanceJob(j))
	app, err := s.st().App(ctx, "app")
	require.NoError(s.t, err)
	require.Zero(s.t, app.Deleting)
	require.False(s.t, app.Frozen)
}
