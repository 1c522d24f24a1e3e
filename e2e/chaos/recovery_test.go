package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

var zero = time.UnixMilli(1_800_000_000_000)

// call returns the first call of a fire that is due so many seconds after zero.
func call(id timer.ID, due, late float64) receiver.Arrival {
	at := zero.Add(time.Duration(due * float64(time.Second)))
	start := at.Add(time.Duration(late * float64(time.Second)))
	return receiver.Arrival{
		Fire:      timer.FireID{Timer: id, DueMS: at.UnixMilli()},
		StartNS:   start.UnixNano(),
		ArrivedNS: start.UnixNano(),
		Attempt:   1,
		Status:    200,
	}
}

func TestRecoveryOfAKill(t *testing.T) {
	t.Parallel()
	f := &Fault{From: zero, Target: killTarget}
	first := receiver.Arrivals{
		call(1, -1, 0),
		call(1, -.1, 2.6),
		call(1, 1, 1.5),
		call(2, 2, .4),
		call(1, 30, 9),
	}
	r := recoveryOf(f, zero.Add(20*time.Second), first, map[timer.ID]string{1: "cron"})
	require.Equal(
		t,
		2,
		r.Late,
		"fires on time, and fires late after the next fault, do not count",
	)
	require.Equal(t, map[string]int{"cron": 2}, r.Kinds)
	require.Equal(t, 2600*time.Millisecond, r.MaxLate)
	require.Equal(t, 2500*time.Millisecond, r.OnTimeAfter)
	require.Equal(t, 2500*time.Millisecond, r.CaughtUpAfter)
	require.True(t, r.TargetsMet)
	first = append(first, call(3, 3, .6))
	require.False(t, recoveryOf(f, zero.Add(20*time.Second), first, nil).TargetsMet)
}

func TestRecoveryOfAnOutage(t *testing.T) {
	t.Parallel()
	f := &Fault{From: zero, Until: zero.Add(60 * time.Second), Target: outageTarget}
	first := receiver.Arrivals{call(1, 1, 70), call(2, 59, 3), call(3, 61, 2), call(4, 64, .1)}
	r := recoveryOf(f, zero.Add(100*time.Second), first, nil)
	require.Equal(t, 3, r.Late)
	require.Equal(t, 11*time.Second, r.CaughtUpAfter)
	require.Equal(t, 3*time.Second, r.OnTimeAfter)
	require.Equal(t, 12*time.Second, r.TargetCaughtUp)
	require.True(t, r.TargetsMet)
}

func TestFirstCalls(t *testing.T) {
	t.Parallel()
	again := call(1, 1, 5)
	again.Attempt = 2
	first := firstCalls(
		receiver.Arrivals{call(1, 1, 0), call(2, 0, 2), again, call(3, 0, 9)},
		map[timer.ID]bool{3: true},
	)
	require.Equal(t, receiver.Arrivals{call(2, 0, 2), call(1, 1, 0)}, first)
}
