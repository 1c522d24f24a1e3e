package delivery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/lookup"
)

// TestAnOutcomeWithoutItsSuccessorIsNotRecorded checks that an executor whose session expires
// before it could read the calendars of a successor leaves the fire to the next owner. An outcome
// without its successor would end the fixed delay.
func TestAnOutcomeWithoutItsSuccessorIsNotRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.opts.ReadCalendars = lookup.Open(f.opts.Lookups, lookup.PerApp(),
			func(context.Context, []cache.CalendarQuestion) ([][]timer.Calendar, error) {
				return nil, errors.New("unavailable")
			})
		e := f.entry(t, timer.Definition{Schedule: timer.Schedule{
			Kind: timer.KindFixedDelay, Calendars: []string{"holidays"},
		}})
		f.end(e, f.outcome(e, timer.Delivered, timer.ReasonNone))
		time.Sleep(time.Minute)
		require.Equal(t, 1, f.Waiting(), "it retries, and the drain waits for it")
		require.Empty(t, f.record.done)
		e.Epoch.Fence()
		time.Sleep(time.Minute)
		require.Zero(t, f.Waiting())
		require.Empty(t, f.record.done)
		require.Zero(t, f.opts.Inflight.Len())
	})
}
