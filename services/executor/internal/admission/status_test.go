package admission

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TestVersionOf checks which version calls a fire that was planned by version 2 and is due at 100,
// and whether the state suffices to tell.
func TestVersionOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state  timer.State
		series int64
		want   int32
		sure   bool
	}{
		"no edit":               {timer.State{Version: 2, VersionMS: 10}, 0, 2, true},
		"edited after its due":  {timer.State{Version: 3, VersionMS: 100}, 0, 2, true},
		"edited twice after it": {timer.State{Version: 4, VersionMS: 100}, 0, 2, false},
		"edited before, same plan": {
			timer.State{Version: 4, VersionMS: 99, PlanVersion: 2}, 0, 4, true,
		},
		"edited before, another plan": {
			timer.State{Version: 4, VersionMS: 99, PlanVersion: 3}, 0, 2, true,
		},
		"of a request": {timer.State{Version: 4, VersionMS: 99, PlanVersion: 2}, 7, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := timer.Fire{FireID: timer.FireID{DueMS: 100, Series: c.series}, Version: 2}
			version, sure := VersionOf(&f, &c.state)
			require.Equal(t, c.want, version)
			require.Equal(t, c.sure, sure)
		})
	}
}

// TestFreezeSkipsWhatWouldStart checks that a freeze skips fires that would start during it. What was
// due while its timer was inactive, and what waits for its timer, would not.
func TestFreezeSkipsWhatWouldStart(t *testing.T) {
	t.Parallel()
	active := timer.State{ID: 1, Status: timer.StatusActive, Frozen: true, ActiveSinceMS: dueMS - 5}
	paused := timer.State{
		ID: 1, Status: timer.StatusPaused, Frozen: true, InactiveSinceMS: dueMS - 5,
	}
	frozen, waits := skip(timer.ReasonFrozen), Verdict{Action: Defer}
	for name, c := range map[string]struct {
		fire    timer.Fire
		oneShot bool
		state   timer.State
		want    Verdict
	}{
		"of an active timer":            {timer.Fire{}, false, active, frozen},
		"a one-shot of an active timer": {timer.Fire{}, true, active, frozen},
		"a retry":                       {timer.Fire{Attempt: 1}, false, active, frozen},
		"due while paused":              {timer.Fire{}, false, paused, skip(timer.ReasonPaused)},
		"a one-shot of a paused timer":  {timer.Fire{}, true, paused, waits},
		"a backfill":                    {timer.Fire{FireID: timer.FireID{Series: 3}, Cause: timer.CauseBackfill}, false, paused, frozen},
		"a run-now from before":         {timer.Fire{FireID: timer.FireID{Series: 3}, Cause: timer.CauseRunNow}, false, paused, Verdict{}},
		"a retry of a run-now":          {timer.Fire{FireID: timer.FireID{Series: 3}, Cause: timer.CauseRunNow, Attempt: 1}, false, paused, frozen},
	} {
		c.fire.DueMS = dueMS
		got, known := OfStatus(&c.fire, c.oneShot, &c.state, nil, dueMS+10)
		require.True(t, known, name)
		require.Equal(t, c.want, got, name)
	}
	early := timer.Fire{FireID: timer.FireID{DueMS: dueMS - 100}} // due before the pause
	_, known := OfStatus(&early, false, &paused, nil, dueMS)
	require.False(t, known, "an earlier pause may have covered it")
	got, known := OfStatus(&early, false, &paused, []timer.Inactivity{}, dueMS)
	require.True(t, known)
	require.Equal(t, waits, got)
}
