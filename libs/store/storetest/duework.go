package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// requireDue checks what is due, in each of the stores.
func (s *setup) requireDue(want store.DueWork) {
	s.t.Helper()
	for _, st := range s.Stores {
		got, err := st.DueWork(s.t.Context())
		require.NoError(s.t, err)
		require.Equal(s.t, want, got)
	}
}

// dueWorkIsNamed makes each kind of work due, and does it.
func dueWorkIsNamed(t *testing.T, s *setup) {
	none, plan := store.DueWork{}, grid(10*time.Minute, 1000)
	s.requireDue(none)
	made := s.gridTimer(gridDefinition(time.Minute), plan).Timer
	s.requireDue(none)

	s.toExpand(1)
	s.requireDue(store.DueWork{Timers: true})
	s.expandDue(func(t *timer.Timer, nowMS int64) store.Plan {
		return store.Plan{NextDueMS: t.NextDueMS, ExpandAtMS: nowMS + time.Hour.Milliseconds()}
	})
	s.requireDue(none)
	s.pause(made, "short", s.nowMS()+time.Hour.Milliseconds(), plan)
	s.requireDue(none)
	s.pause(made, "over", s.nowMS()-1, plan)
	s.requireDue(store.DueWork{Timers: true})
	s.expandDue(plan)
	s.requireDue(none)
	s.setStatus(s.toExpand(1)[0], timer.StatusInactive, noFires)
	s.requireDue(none)

	s.backfill(made, 10)
	s.requireDue(store.DueWork{Backfills: true})
	s.expandBackfills(everyMinute(4))
	s.requireDue(none)

	s.startJob(store.JobPause, "{}")
	s.requireDue(store.DueWork{Jobs: true})
	j := s.leaseJob(time.Hour)
	s.requireDue(none)
	require.True(t, s.advanceJob(j), "the lease ends")
	s.requireDue(store.DueWork{Jobs: true})
	j = s.leaseJob(time.Hour)
	j.Status = store.JobDone
	require.True(t, s.advanceJob(j))
	s.requireDue(none)

	dense, end := s.denseTimer()
	s.requireDue(none)
	s.edit(dense.Timer, gridDefinition(2*time.Second), pages(end))
	s.requireDue(store.DueWork{Replans: true})
	s.continueReplans(pages(end))
	s.requireDue(none)
}
