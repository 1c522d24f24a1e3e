package trigger

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
)

func TestOnTimeFiresGoFirst(t *testing.T) {
	t.Parallel()
	const now = 1_000_000
	after := dispatch.LateAfter.Milliseconds()
	var fires []timer.Fire
	for i, run := range []int64{now - 2*after, now - after - 1, now - after, now, now + 1} {
		fires = append(
			fires,
			timer.Fire{FireID: timer.FireID{Timer: timer.ID(i + 1)}, RunAtMS: run},
		)
	}
	present, behind := newAppShares(10, time.Second).split(fires, now)
	require.Equal(t, fires[2:], present)
	require.Equal(t, fires[:2], behind)
}

// TestBurstGoesToTheLowTopic checks that an app's burst goes to the low-priority topic, whichever
// slices it is in, and that other apps' fires and later ones do not.
func TestBurstGoesToTheLowTopic(t *testing.T) {
	t.Parallel()
	const now, most, burst = 1_000_000, 100, 3 * 100
	fires := make([]timer.Fire, burst+1)
	for i := range fires {
		fires[i] = timer.Fire{
			FireID:  timer.FireID{Timer: timer.ID(i + 1)},
			RunAtMS: now + 5000,
			AppID:   1,
		}
	}
	fires[burst].AppID = 2
	s := newAppShares(most, time.Second)
	present, behind := s.split(fires[:most/2], now)
	require.Equal(t, fires[:most/2], present)
	require.Empty(t, behind)
	present, behind = s.split(fires[most/2:], now+999)
	require.Equal(t, append(fires[most/2:most:most], fires[burst]), present)
	require.Equal(t, fires[most:burst], behind)
	for _, later := range []int64{now + 1000, now - 1000} { // or a clock that was set back
		present, behind = s.split(fires[:most], later)
		require.Equal(t, fires[:most], present)
		require.Empty(t, behind)
	}
}

// TestLongLeadMakesNoBurst checks that an app's steady fires are no burst, however far ahead they are
// published.
func TestLongLeadMakesNoBurst(t *testing.T) {
	t.Parallel()
	svc, err := New(Options{
		Store:        struct{ Store }{},
		Bus:          struct{ bus.Subscriber }{},
		Window:       struct{ window.Window }{},
		Dispatch:     struct{ Dispatcher }{},
		Now:          time.Now,
		Holder:       1,
		DispatchLead: 10 * time.Second,
		Registerer:   prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	const begin, aSecond = 1_000_000, 2000
	for second := range int64(20) {
		fires := make([]timer.Fire, aSecond)
		for i := range fires {
			fires[i] = timer.Fire{
				FireID:  timer.FireID{Timer: timer.ID(i + 1), DueMS: second},
				RunAtMS: begin + 1000*second + 10_000,
				AppID:   1,
			}
		}
		_, behind := svc.appShares.split(fires, begin+1000*second)
		require.Empty(t, behind)
	}
}

// TestBurstLeavesRoomForHighPriority checks a burst with high-priority fires of the same app.
func TestBurstLeavesRoomForHighPriority(t *testing.T) {
	t.Parallel()
	const now, most = 1_000_000, 100
	fires := make([]timer.Fire, 2*most+1)
	for i := range fires {
		fires[i] = timer.Fire{
			FireID:  timer.FireID{Timer: timer.ID(i + 1)},
			RunAtMS: now + 1,
			AppID:   1,
		}
	}
	fires[2*most].PriorityLevel = timer.LevelHigh
	present, behind := newAppShares(most, time.Second).split(fires, now)
	require.Equal(t, append(fires[:most:most], fires[2*most]), present)
	require.Equal(t, fires[most:2*most], behind)
}

// TestOfABurstTheNextFiresGoFirst checks that after an outage fires due next are not delayed by
// past ones.
func TestOfABurstTheNextFiresGoFirst(t *testing.T) {
	t.Parallel()
	const now, most = 1_000_000, 100
	fires := make([]timer.Fire, 3*most) // one millisecond apart, two thirds in the past
	for i := range fires {
		fires[i] = timer.Fire{
			FireID:  timer.FireID{Timer: timer.ID(i + 1)},
			RunAtMS: now + int64(i-2*most),
			AppID:   1,
		}
	}
	present, behind := newAppShares(most, time.Second).split(fires[:2*most+most/2], now)
	from := 2*most - most/2
	require.Equal(t, fires[from:from+most], present)
	require.Equal(t, fires[:from], behind)
	present, behind = newAppShares(most, time.Second).split(fires[2*most-1:], now)
	require.Equal(t, fires[2*most:], present)
	require.Equal(t, fires[2*most-1:2*most], behind)
}
