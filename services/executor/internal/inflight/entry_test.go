package inflight

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TestOneShotsCountFromTheLastActivation checks that the only fire of a timer is planned at the last
// activation, if that is later, and no other fire is.
func TestOneShotsCountFromTheLastActivation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind          timer.ScheduleKind
		series, since int64
		want          int64
	}{
		{kind: timer.KindAt, since: 5000, want: 5000},
		{kind: timer.KindDelay, since: 5000, want: 5000},
		{kind: timer.KindAt, since: 500, want: 1000},
		{kind: timer.KindAt, series: 7, since: 5000, want: 1000},
		{kind: timer.KindCron, since: 5000, want: 1000},
	} {
		e := &Entry{Fire: due, Def: &timer.Definition{Schedule: timer.Schedule{Kind: c.kind}}}
		e.Fire.Series = c.series
		e.AdjustDue(&timer.State{Status: timer.StatusActive, ActiveSinceMS: c.since})
		require.Equal(t, c.want, e.PlannedMS(), c)
	}
}
