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

// failingOnce is a store with one error that is not of its availability, such as a row that this
// release cannot read during a rolling update.
type failingOnce struct {
	migrator.Store
	failed atomic.Bool
}

func (s *failingOnce) SetStatus(
	ctx context.Context, items []store.StatusChange, plan store.Planner,
) ([]store.StatusResult, error) {
	if s.failed.CompareAndSwap(false, true) {
		return nil, errors.New("a value that this release does not know")
	}
	return s.Store.SetStatus(ctx, items, plan)
}

// TestADeletionOutlivesAnError checks that one error does not leave an app closed for good.
func TestADeletionOutlivesAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 15)
		startJobs(t, parts, &failingOnce{Store: parts.Store})
		startJob(t, parts.Store, store.JobDeleteApp, "", store.JobRequest{})
		time.Sleep(time.Minute)
		// The user sees the failure and asks again, and nothing fails any more.
		_, err := parts.Store.StartJob(t.Context(), store.Job{
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
		_, err = parts.Store.SetFrozen(t.Context(), "a", false, "")
		require.NoError(t, err)
	})
}
