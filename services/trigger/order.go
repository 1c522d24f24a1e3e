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

// byAge tells what is so late that it goes by the low lane from all else, each in its order.
func byAge(fires []timer.Fire, nowMS int64) (present, late []timer.Fire) {
	bound := nowMS - dispatch.LateAfter.Milliseconds()
	present = make([]timer.Fire, 0, len(fires))
	for i := range fires {
		if fires[i].RunMS >= bound {
			present = append(present, fires[i])
		} else {
			late = append(late, fires[i])
		}
	}
	return present, late
}
