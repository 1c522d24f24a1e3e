package timer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

func TestOutcomesOfTargets(t *testing.T) {
	t.Parallel()
	f := timer.Fanout{
		Mode:    timer.ModeAll,
		Targets: []timer.Target{{Name: "web"}, {}, {Name: "log"}},
	}
	none := []timer.TargetOutcome{{Index: 0}, {Index: 1}, {Index: 2}}
	require.Equal(t, none, f.Outcomes("", nil), "open")
	attempts := []timer.Attempt{
		{N: 1, Target: "2", StatusCode: 503, Failure: timer.FailureStatus, Error: "answer 503"},
		{N: 1, Target: "log", Failure: timer.FailureConnect, Error: "refused"},
		{N: 1, Target: "web", StatusCode: 204},
		{N: 2, Target: "2", StatusCode: 200},
		{N: 2, Target: "log", StatusCode: 500, Failure: timer.FailureStatus, Error: "answer 500"},
	}
	for _, kind := range []timer.OutcomeKind{"", timer.Failed, timer.Skipped} {
		require.Equal(t, []timer.TargetOutcome{
			{Index: 0, Kind: timer.Delivered, Attempts: 1, StatusCode: 204},
			{Index: 1, Kind: timer.Delivered, Attempts: 2, StatusCode: 200},
			{Index: 2, Kind: kind, Attempts: 2, StatusCode: 500, Failure: timer.FailureStatus},
		}, f.Outcomes(kind, attempts))
	}
	f.Mode = timer.ModeAny
	require.Nil(t, f.Outcomes(timer.Delivered, attempts))
	require.Nil(t, new(timer.Fanout).Outcomes(timer.Delivered, attempts))
}
