package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestTimelineOfABrokenFire drops an outcome. The timeline has the events of that fire alone, in
// order of time.
func TestTimelineOfABrokenFire(t *testing.T) {
	t.Parallel()
	l, e := healthy()
	v := l.Check(e)
	require.Empty(t, v.Timelines(e, nil))

	e.Outcomes = e.Outcomes[:4]
	e.Interruptions = []ledger.Interruption{
		{At: start.Add(4*time.Second + 500*time.Millisecond)},
		{At: start.Add(time.Hour)},
	}
	v = l.Check(e)
	require.Equal(t, []timer.FireID{fire(1, 4)}, v.BrokenFires())
	require.Equal(t, `timeline of fire 1-1800000004000:
  08:00:04.000    +0.000s  due
  08:00:04.005    +0.005s  attempt 1 called
  08:00:04.015    +0.015s  attempt 1 answered with status 200
  08:00:04.500    +0.500s  interruption of an executor or of the store
                           a row
`, v.Timelines(e, func(timer.FireID) []ledger.Event { return []ledger.Event{{What: "a row"}} }))
}

func TestTimelineHasTheOutcome(t *testing.T) {
	t.Parallel()
	l, e := healthy()
	e.Outcomes[2].Kind, e.Outcomes[2].Finished = timer.Failed, start.Add(3*time.Second)
	v := l.Check(e)
	require.Equal(t, []timer.FireID{fire(1, 2)}, v.BrokenFires())
	require.Contains(t, v.Timelines(e, nil), "outcome: failed after 1 attempts")
}
