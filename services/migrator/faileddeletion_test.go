package migrator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/migrator"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// failing is a store with errors that are not of its availability, such as a row that
// this release cannot read during a rolling update.
type failing struct {
	migrator.Store
	failures atomic.Int32 // still to come
}

func (s *failing) SetStatus(
	ctx context.Context, items []store.StatusChange, plan store.Planner,
) ([]store.StatusResult, error) {
	if s.failures.Add(-1) >= 0 {
		return nil, errors.New("a value that this release does not know")
	}
	return s.Store.SetStatus(ctx, items, plan)
}

// TestADeletionOutlivesErrors checks that errors do not leave an app closed for good, and that the job
// tells of them while they last.
func TestADeletionOutlivesErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 15)
		st := &failing{Store: parts.Store}
		st.failures.Store(20)
		startJobs(t, parts, st)
		j := startJob(t, parts.Store, store.JobDeleteApp, "", store.JobRequest{})
		time.Sleep(10 * time.Second)
		j, err := parts.Store.Job(t.Context(), "a", j.ID)
		require.NoError(t, err)
		require.Equal(t, store.JobRunning, j.Status)
		require.Contains(t, j.Reason, "a value that this release does not know")
		time.Sleep(time.Minute)
		// The user sees the failure and asks again, and nothing fails any more.
		_, err = parts.Store.StartJob(t.Context(), store.Job{
			ID:      parts.IDs.Next(),
			App:     "a",
			Action:  store.JobDeleteApp,
			Request: []byte(`{"filter":{}}`),
		})
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		app, err := parts.Store.App(t.Context(), "a")
		require.NoError(t, err)
		require.Zero(t, app.Deleting, "the deletion ended")
		j, err = parts.Store.Job(t.Context(), "a", j.ID)
		require.NoError(t, err)
		require.Equal(t, store.JobDone, j.Status)
		require.Empty(t, j.Reason)
		_, err = parts.Store.SetFrozen(t.Context(), "a", false, "")
		require.NoError(t, err)
	})
}
