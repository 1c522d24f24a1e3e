package trigger

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/timer"
)

// inTurn sorts fires by run, and within one instant lets the apps take turns, so that one app's
// herd is not published before another app's fire of the same instant.
func inTurn(fires []timer.Fire) {
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
			takeTurns(fires[i:j])
		}
		i = j
	}
}

func takeTurns(fires []timer.Fire) {
	type ranked struct {
		fire timer.Fire
		turn int
	}
	turns := make(map[int64]int)
	rs := make([]ranked, len(fires))
	for i, f := range fires {
		rs[i] = ranked{f, turns[f.AppID]}
		turns[f.AppID]++
	}
	slices.SortStableFunc(rs, func(a, b ranked) int { return cmp.Compare(a.turn, b.turn) })
	for i := range rs {
		fires[i] = rs[i].fire
	}
}

// atOnce is how many fires of an app that come up within a lead a trigger publishes by the
// priorities of what is due now, and as many more of high priority: about what is claimed
// meanwhile. Those beyond are a flood, which is late in any case; on those priorities so would be
// what came behind it, for a topic gives what it has in order.
const atOnce = 10_000

// shares counts what the apps' fires took of the priorities of what is due now, in all slices of a
// trigger together: an app's may all be in one bucket.
type shares struct {
	most   int
	within int64 // ms
	mu     sync.Mutex
	since  int64
	taken  map[share]int
}

type share struct {
	app  int64
	high bool
}

func newShares(most int, within time.Duration) *shares {
	return &shares{most: most, within: within.Milliseconds()}
}

// split tells what goes by the low-priority topic from all else, each in its order: what is late,
// of low priority, or of an app that has too much at once. Of that, what is due next goes first,
// and of what is past the latest.
func (s *shares) split(fires []timer.Fire, nowMS int64) (present, behind []timer.Fire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// a clock may have been set back.
	if s.taken == nil || nowMS < s.since || nowMS >= s.since+s.within {
		s.since, s.taken = nowMS, make(map[share]int)
	}
	bound := nowMS - dispatch.LateAfter.Milliseconds()
	now := make([]bool, len(fires))
	take := func(i int) {
		f := &fires[i]
		of := share{f.AppID, f.PriorityLevel == timer.LevelHigh}
		if !f.Low() && s.taken[of] < s.most {
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
	present = make([]timer.Fire, 0, len(fires))
	for i, f := range fires {
		if now[i] {
			present = append(present, f)
		} else {
			behind = append(behind, f)
		}
	}
	return present, behind
}
