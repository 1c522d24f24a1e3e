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
