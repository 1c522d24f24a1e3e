package trigger

import (
	"cmp"
	"slices"

	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/timer"
)

// inTurn sorts fires by run, and within one instant lets the apps take turns, so that one app's herd is not published before another
// app's fire of the same instant.
func inTurn(fires []timer.Fire) {
	slices.SortStableFunc(fires, func(a, b timer.Fire) int { return cmp.Compare(a.RunMS, b.RunMS) })
	for i := 0; i < len(fires); {
		j := i + 1
		mixed := false
		for ; j < len(fires) && fires[j].RunMS == fires[i].RunMS; j++ {
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

// presentFirst lets catching up never delay the present: what is so late that it goes by the low lane goes after all else, in its order.
func presentFirst(fires []timer.Fire, nowMS int64) []timer.Fire {
	late := nowMS - dispatch.LateAfter.Milliseconds()
	out := make([]timer.Fire, 0, len(fires))
	for _, present := range []bool{true, false} {
		for i := range fires {
			if fires[i].RunMS >= late == present {
				out = append(out, fires[i])
			}
		}
	}
	return out
}
