package cache

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestPurgeAfterAQuietHourIsNoOtherLog checks that a purge just after the first change of some hours
// does not look like another database.
func TestPurgeAfterAQuietHourIsNoOtherLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		once := servicetest.Once(time.Now().Add(240*time.Hour), "https://example.com/")
		parts.Create("a", once)
		all, err := parts.Store.List(t.Context(), store.Query{App: "a", Limit: 1})
		require.NoError(t, err)
		id := all[0].ID
		set := func(to timer.Status) {
			change := []store.StatusChange{{App: "a", ID: id, Status: to}}
			_, err := parts.Store.SetStatus(t.Context(), change, parts.Plan)
			require.NoError(t, err)
		}
		c, _, _ := setup(t, parts)
		missed := 0
		c.opts.Missed = func() { missed++ }
		set(timer.StatusInactive)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		defer func() { cancel(); <-done }()
		time.Sleep(2 * time.Hour)
		require.NoError(t, parts.Store.PurgeExpired(t.Context(), 7*24*time.Hour))
		time.Sleep(time.Minute)
		set(timer.StatusActive)
		time.Sleep(3 * time.Second)
		require.NoError(t, parts.Store.PurgeExpired(t.Context(), 7*24*time.Hour))
		time.Sleep(time.Minute)
		require.Zero(t, missed)
	})
}
