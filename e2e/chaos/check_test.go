package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// switched returns a timer that was active for ten seconds, inactive for ten, and active again.
// Each change took 200 ms.
func switched() *toggledTimer {
	f := &toggledTimer{id: 1}
	for i, s := range []timer.Status{timer.StatusActive, timer.StatusInactive, timer.StatusActive} {
		sent := zero.Add(time.Duration(i)*10*time.Second + 300*time.Millisecond)
		f.changes = append(
			f.changes,
			statusChange{status: s, sent: sent, done: sent.Add(200 * time.Millisecond)},
		)
	}
	return f
}

func check(t *testing.T, arrivals receiver.Arrivals, outcomes []ledger.Outcome) ledger.Verdict {
	t.Helper()
	led := ledger.New()
	switched().addDuties(led, zero.Add(30*time.Second))
	return led.Check(ledger.Evidence{Arrivals: arrivals, Outcomes: outcomes})
}

// rightCalls returns a call for each second in which the timer was active.
func rightCalls() (calls receiver.Arrivals, outcomes []ledger.Outcome) {
	for s := 1.0; s < 30; s++ {
		if s <= 10 || s >= 21 {
			c := call(1, s, 0)
			calls = append(calls, c)
			outcomes = append(outcomes, ledger.Outcome{Fire: c.Fire, Kind: timer.Delivered})
		}
	}
	return calls, outcomes
}

func TestToggledTimerWithoutFault(t *testing.T) {
	t.Parallel()
	calls, outcomes := rightCalls()
	v := check(t, calls, outcomes)
	require.Empty(t, v.Faults())
	require.Equal(t, 19, v.Due)
}

func TestLostFireIsMissing(t *testing.T) {
	t.Parallel()
	calls, outcomes := rightCalls()
	v := check(t, calls[1:], outcomes[1:])
	require.Len(t, v.Missing, 1)
}

func TestCallOfInactiveTimerIsUnexpected(t *testing.T) {
	t.Parallel()
	calls, outcomes := rightCalls()
	v := check(t, append(calls, call(1, 15, 0)), outcomes)
	require.Len(t, v.Unexpected, 1)
	v = check(t, append(calls, call(1, 11, 0)), outcomes)
	require.Empty(t, v.Unexpected, "a change has a second to reach every executor")
}

func TestSkipOfActiveTimerIsWrong(t *testing.T) {
	t.Parallel()
	calls, outcomes := rightCalls()
	calls, outcomes[3].Kind, outcomes[3].Reason = append(
		calls[:3:3],
		calls[4:]...), timer.Skipped, timer.ReasonInactive
	require.Len(
		t,
		check(t, calls, outcomes).Missing,
		1,
		"the timer was active when the fire was due",
	)
}

func TestCheckP5(t *testing.T) {
	t.Parallel()
	tr := &traffic{env: &Environment{}, toggledTimers: []*toggledTimer{switched()}}
	require.Empty(t, tr.checkP5(receiver.Arrivals{call(1, 5, 0), call(1, 10, 1.4), call(1, 25, 0)}))
	require.Len(
		t,
		tr.checkP5(receiver.Arrivals{call(1, 9, 6)}),
		1,
		"a late fire is called although its timer has been inactive for seconds",
	)
}

// TestLatenessLeavesOutInactiveTimers checks that a fire that its user made wait is no late fire: the
// timer is inactive from second 10.3 to 20.5.
func TestLatenessLeavesOutInactiveTimers(t *testing.T) {
	t.Parallel()
	tr := &traffic{env: &Environment{}, toggledTimers: []*toggledTimer{switched()}}
	counted := receiver.Arrivals{
		call(1, 5, 0), call(1, 5, 4), call(1, 21, 0), call(1, 22, 9), call(2, 10, 5),
	}
	waited := receiver.Arrivals{call(1, 9, 6), call(1, 10, 12)}
	require.Equal(t, counted, tr.withoutInactive(slices.Concat(counted, waited)))
}
