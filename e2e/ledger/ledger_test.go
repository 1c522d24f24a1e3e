package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

var start = time.UnixMilli(1_800_000_000_000)

func fire(id timer.ID, sec int) timer.FireID {
	return timer.FireID{Timer: id, DueMS: start.Add(time.Duration(sec) * time.Second).UnixMilli()}
}

// call returns a callback that started late after its due instant, took 10 ms and got 200.
func call(f timer.FireID, attempt int32, late time.Duration) receiver.Arrival {
	at := f.DueMS*int64(time.Millisecond) + int64(late)
	return receiver.Arrival{
		Fire:      f,
		Attempt:   attempt,
		StartNS:   at,
		ArrivedNS: at + int64(time.Millisecond),
		DoneNS:    at + int64(11*time.Millisecond),
		Status:    200,
	}
}

func delivered(f timer.FireID) ledger.Outcome {
	return ledger.Outcome{Fire: f, Kind: timer.Delivered, Attempts: 1}
}

// healthy returns a timer with a fire in each of 5 seconds, and evidence without faults.
func healthy() (*ledger.Ledger, ledger.Evidence) {
	l := ledger.New()
	l.AddEvery(1, time.Second, start, start.Add(5*time.Second), ledger.Must)
	var e ledger.Evidence
	for i := range 5 {
		e.Arrivals = append(e.Arrivals, call(fire(1, i), 1, time.Duration(i)*time.Millisecond))
		e.Outcomes = append(e.Outcomes, delivered(fire(1, i)))
	}
	return l, e
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	l, e := healthy()
	require.Equal(t, 5, l.Len())
	v := l.Check(e)
	require.Empty(t, v.Faults())
	require.True(t, v.OK())
	require.Equal(t, 5, v.Due)
	require.Equal(t, 5, v.Called)
	require.Equal(t, 5, v.Delivered)
	require.Equal(t, 4*time.Millisecond, v.Lateness.Max)
	require.Contains(t, v.Row("healthy"), "| healthy | 5 | 5 | 5 | 0 | 0 | 0 | 0 | 0 (0) |")
}

func TestCheckFindsFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		harm func(*ledger.Ledger, *ledger.Evidence)
		want string
	}{
		"a lost fire": {
			func(_ *ledger.Ledger, e *ledger.Evidence) { e.Arrivals = e.Arrivals[1:] },
			"1 missing: " + fire(1, 0).String(),
		},
		"an early fire": {func(_ *ledger.Ledger, e *ledger.Evidence) {
			e.Arrivals[2] = call(fire(1, 2), 1, -time.Millisecond)
		}, "1 early: " + fire(1, 2).String() + " by 1ms"},
		"a repeated fire": {func(_ *ledger.Ledger, e *ledger.Evidence) {
			e.Arrivals = append(e.Arrivals, call(fire(1, 4), 1, time.Second))
		}, "1 repeated without excuse"},
		"a fire that nobody ordered": {func(_ *ledger.Ledger, e *ledger.Evidence) {
			f := fire(1, 1)
			f.DueMS += 500
			e.Arrivals = append(e.Arrivals, call(f, 1, 0))
		}, "1 called though not ordered"},
		"a fire without record": {
			func(_ *ledger.Ledger, e *ledger.Evidence) { e.Outcomes = e.Outcomes[1:] },
			"1 without outcome",
		},
		"a fire with two records": {func(_ *ledger.Ledger, e *ledger.Evidence) {
			e.Outcomes = append(e.Outcomes, e.Outcomes[0])
		}, "1 with two outcomes"},
		"a wrongly skipped fire": {func(_ *ledger.Ledger, e *ledger.Evidence) {
			e.Arrivals = e.Arrivals[1:]
			e.Outcomes[0].Kind, e.Outcomes[0].Reason = timer.Skipped, timer.ReasonInactive
		}, "skipped(inactive), owed delivered"},
		"a stretch skipped wrongly": {func(_ *ledger.Ledger, e *ledger.Evidence) {
			e.Outcomes = []ledger.Outcome{
				{Fire: fire(1, 0), UntilMS: fire(1, 4).DueMS, Kind: timer.Skipped},
			}
		}, "5 with a wrong outcome"},
		"a call that must not be": {func(l *ledger.Ledger, _ *ledger.Evidence) {
			l.AddEvery(
				1,
				time.Second,
				start.Add(4*time.Second),
				start.Add(5*time.Second),
				ledger.Not,
			)
		}, "1 called though not ordered"},
		"a failure that was none": {func(l *ledger.Ledger, _ *ledger.Evidence) {
			l.Add(1, start, ledger.Fail)
		}, "delivered(), owed failed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, e := healthy()
			tt.harm(l, &e)
			v := l.Check(e)
			require.False(t, v.OK())
			faults := v.Faults()
			require.NotEmpty(t, faults)
			found := false
			for _, f := range faults {
				found = found || strings.Contains(f, tt.want)
			}
			require.True(t, found, "%q is not among %q", tt.want, faults)
		})
	}
}

func TestExcusesOnlyCallsInFlight(t *testing.T) {
	t.Parallel()
	again := func(cut time.Duration, answered bool) ledger.Verdict {
		l, e := healthy()
		if !answered {
			e.Arrivals[4].DoneNS, e.Arrivals[4].Status = 0, 0
		}
		e.Arrivals = append(e.Arrivals, call(fire(1, 4), 1, 3*time.Second))
		e.Interruptions = []ledger.Interruption{
			{At: start.Add(4*time.Second + cut), Recording: 100 * time.Millisecond},
		}
		return l.Check(e)
	}
	v := again(10*time.Millisecond, false)
	require.Empty(t, v.Faults())
	require.Equal(t, 1, v.Excused)
	v = again(50*time.Millisecond, true)
	require.Empty(t, v.Faults(), "answered, and perhaps not recorded")
	v = again(500*time.Millisecond, true)
	require.Len(t, v.Duplicates, 1, "answered long before the cut")
	ended := func(at time.Duration) ledger.Verdict {
		l, e := healthy()
		e.Arrivals = append(e.Arrivals, call(fire(1, 4), 1, 3*time.Second))
		e.Interruptions = []ledger.Interruption{
			{At: start.Add(4*time.Second + 500*time.Millisecond), Recording: time.Minute},
		}
		e.Outcomes[4].Finished = start.Add(4*time.Second + at)
		return l.Check(e)
	}
	v = ended(3*time.Second + 11*time.Millisecond)
	require.Equal(t, 1, v.Excused, "the second answer is what was recorded")
	v = ended(11 * time.Millisecond)
	require.Len(t, v.Duplicates, 1, "the first answer is what was recorded")
	v = again(-time.Second, false)
	require.Len(t, v.Duplicates, 1, "the cut was before the call")
	l, e := healthy()
	e.Arrivals[4].DoneNS, e.Arrivals[4].Status, e.Arrivals[4].Port = 0, 0, 7
	e.Arrivals = append(e.Arrivals, call(fire(1, 4), 1, 3*time.Second))
	e.Interruptions = []ledger.Interruption{
		{At: start.Add(4*time.Second + 10*time.Millisecond), Ports: map[uint16]bool{8: true}},
	}
	v = l.Check(e)
	require.Len(t, v.Duplicates, 1, "in flight, and at another executor")
	e.Arrivals[4].Proxied = true
	v = l.Check(e)
	require.Equal(t, 1, v.Excused, "perhaps at this executor: a proxy hides its port")
	e.Arrivals[4].Proxied = false
	e.Interruptions[0].Ports[7] = true
	v = l.Check(e)
	require.Equal(t, 1, v.Excused)
	e.Arrivals[4].ArrivedNS = e.Interruptions[0].At.Add(time.Second).UnixNano()
	v = l.Check(e)
	require.Equal(t, 1, v.Excused, "the receiver read the call after its executor had died")
	e.Arrivals[4].StartNS = e.Arrivals[4].ArrivedNS
	v = l.Check(e)
	require.Len(t, v.Duplicates, 1, "the call began after the interruption")
	v = again(5*time.Second, false)
	require.Len(t, v.Duplicates, 1, "the cut was after the repetition")
}

func TestRetriesAreNoDuplicates(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	l.Add(2, start, ledger.Fail)
	var e ledger.Evidence
	for i := range int32(3) {
		a := call(fire(2, 0), i+1, time.Duration(i)*time.Second)
		a.Status = 500
		e.Arrivals = append(e.Arrivals, a)
	}
	e.Outcomes = []ledger.Outcome{
		{Fire: fire(2, 0), Kind: timer.Failed, Reason: timer.ReasonExhausted, Attempts: 3},
	}
	v := l.Check(e)
	require.Empty(t, v.Faults())
	require.Equal(t, 1, v.Failed)
}

func TestMayAndUnknown(t *testing.T) {
	t.Parallel()
	l, e := healthy()
	l.AddEvery(1, time.Second, start.Add(5*time.Second), start.Add(7*time.Second), ledger.May)
	e.Arrivals = append(e.Arrivals, call(fire(1, 5), 1, 0), call(fire(99, 1), 1, 0))
	e.Outcomes = append(
		e.Outcomes,
		delivered(fire(1, 5)),
		ledger.Outcome{
			Fire:   fire(1, 6),
			Kind:   timer.Skipped,
			Reason: timer.ReasonInactive,
		},
		delivered(fire(99, 1)),
	)
	v := l.Check(e)
	require.Empty(t, v.Faults())
	require.Equal(t, 1, v.Skipped[timer.ReasonInactive])
	require.Equal(t, 6, v.Delivered)
	require.Zero(t, v.Unrecorded)
	require.Zero(t, l.CountMissing(map[timer.FireID]bool{
		fire(1, 0): true, fire(1, 1): true, fire(1, 2): true, fire(1, 3): true, fire(1, 4): true,
	}))
	require.Equal(t, 5, l.CountMissing(nil))
}

// TestOrder checks that late fires start in the order of their due instants, whenever their calls
// arrive. Fires on time may start in any order.
func TestOrder(t *testing.T) {
	t.Parallel()
	check := func(change func(l *ledger.Ledger, e *ledger.Evidence)) []string {
		l, e := healthy()
		l.InOrder(1, 10*time.Second)
		for i := range e.Arrivals {
			e.Arrivals[i] = call(fire(1, i), 1, 20*time.Second)
		}
		change(l, &e)
		e.Arrivals.Sort()
		v := l.Check(e)
		return v.Faults()
	}
	require.Empty(t, check(func(*ledger.Ledger, *ledger.Evidence) {}))
	swap := func(_ *ledger.Ledger, e *ledger.Evidence) { e.Arrivals[3] = call(fire(1, 3), 1, 17*time.Second) }
	faults := check(swap)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "1 started out of order")
	require.Empty(t, check(func(l *ledger.Ledger, e *ledger.Evidence) {
		swap(l, e)
		e.Begun = map[timer.FireID]time.Time{
			fire(1, 0): start,
			fire(1, 1): start.Add(15 * time.Second),
			fire(1, 2): start.Add(16 * time.Second),
		}
	}), "they began before, and their executor died")
	require.Empty(t, check(func(l *ledger.Ledger, e *ledger.Evidence) {
		swap(l, e)
		e.Deferred = map[timer.FireID]bool{fire(1, 3): true}
	}), "a limit deferred it")
	require.Empty(t, check(func(l *ledger.Ledger, e *ledger.Evidence) {
		for i := range e.Arrivals {
			e.Arrivals[i] = call(fire(1, i), 1, time.Duration(9-2*i)*time.Second)
		}
	}), "on time")
	require.Empty(t, check(func(l *ledger.Ledger, e *ledger.Evidence) {
		e.Arrivals = append(e.Arrivals, call(fire(1, 0), 2, time.Minute))
	})[1:], "a further attempt")
}
