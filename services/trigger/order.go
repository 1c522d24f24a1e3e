package trigger

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/timer"
)

// interleave sorts fires by run time. Within one run time apps take turns, so that one app's burst
// is not published before another app's fire.
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

// burstLimit is how many fires per app and burstWindow a trigger publishes on the high and normal
// priority topics, separately for high priority. About that many are claimed in the time. The
// excess is a burst, late in any case. On those topics it would delay everything behind it, because
// a topic delivers in order. The window is the default dispatch lead. A longer lead makes no claim
// faster or slower, so the rate stays.
const (
	burstLimit  = 10_000
	burstWindow = dispatch.DefaultDispatchLead
)

// appShares counts the fires that each app has published on the high and normal topics, over all
// slices of a trigger. An app's fires may all be in one bucket.
type appShares struct {
	limit    int
	windowMS int64
	mu       sync.Mutex
	sinceMS  int64
	taken    map[shareKey]int
}

type shareKey struct {
	app  int64
	high bool
}

func newAppShares(limit int, window time.Duration) *appShares {
	return &appShares{limit: limit, windowMS: window.Milliseconds()}
}

// split separates on-time fires from those for the low-priority topic: late ones, those of low
// priority, and bursts. It keeps the order. Within burstLimit, fires not yet due come first,
// earliest first; then those past, latest first.
func (s *appShares) split(fires []timer.Fire, nowMS int64) (onTime, low []timer.Fire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The clock may have been set back.
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
