package trigger

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/timer"
)

// interleave sorts fires by run, and within one instant lets the apps take turns, so that one app's
// herd is not published before another app's fire of the same instant.
func interleave(fires []timer.Fire) {
	slices.SortStableFunc(
		fires,
		func(a, b timer.Fire) int { return cmp.Compare(a.RunAtMS, b.RunAtMS) },
	)
	for i := 0; i < len(fires); {
		j := i + 1
		mixed := false
		for ; j < len(fires) && fires[j].RunAtMS == fires[i].RunAtMS; j++ {
			mixed = mixed || fires[j].AppID != fires[i].AppID
		}
		if mixed {
			roundRobin(fires[i:j])
		}
		i = j
	}
}

func roundRobin(fires []timer.Fire) {
	type ranked struct {
		fire timer.Fire
		rank int
	}
	ranks := make(map[int64]int)
	rs := make([]ranked, len(fires))
	for i, f := range fires {
		rs[i] = ranked{f, ranks[f.AppID]}
		ranks[f.AppID]++
	}
	slices.SortStableFunc(rs, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	for i := range rs {
		fires[i] = rs[i].fire
	}
}

// burstLimit is how many fires of an app that come up within a lead a trigger publishes by the
// priorities of what is due now, and as many more of high priority: about what is claimed
// meanwhile. Those beyond are a flood, which is late in any case; on those priorities so would be
// what came behind it, for a topic gives what it has in order.
const burstLimit = 10_000

// appShares counts what the apps' fires took of the priorities of what is due now, in all slices of a
// trigger together: an app's may all be in one bucket.
type appShares struct {
	limit    int
	windowMS int64 // ms
	mu       sync.Mutex
	sinceMS  int64
	taken    map[shareKey]int
}

type shareKey struct {
	app  int64
	high bool
}

func newAppShares(limit int, windowMS time.Duration) *appShares {
	return &appShares{limit: limit, windowMS: windowMS.Milliseconds()}
}

// split tells what goes by the low-priority topic from all else, each in its order: what is late,
// of low priority, or of an app that has too much at once. Of that, what is due next goes first,
// and of what is past the latest.
func (s *appShares) split(fires []timer.Fire, nowMS int64) (onTime, low []timer.Fire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// a clock may have been set back.
	if s.taken == nil || nowMS < s.sinceMS || nowMS >= s.sinceMS+s.windowMS {
		s.sinceMS, s.taken = nowMS, make(map[shareKey]int)
	}
	bound := nowMS - dispatch.LateAfter.Milliseconds()
	now := make([]bool, len(fires))
	take := func(i int) {
		f := &fires[i]
		of := shareKey{f.AppID, f.PriorityLevel == timer.LevelHigh}
		if !f.UsesLowPriorityTopic() && s.taken[of] < s.limit {
			s.taken[of]++
			now[i] = true
		}
	}
	for i := range fires {
		if fires[i].RunAtMS >= nowMS {
			take(i)
		}
	}
	for i := range slices.Backward(fires) {
		if run := fires[i].RunAtMS; run < nowMS && run >= bound {
			take(i)
		}
	}
	onTime = make([]timer.Fire, 0, len(fires))
	for i, f := range fires {
		if now[i] {
			onTime = append(onTime, f)
		} else {
			low = append(low, f)
		}
	}
	return onTime, low
}
