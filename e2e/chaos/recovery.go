package chaos

import (
	"slices"
	"time"

	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// recoveries measures the recovery of each fault. A late first call counts for the last fault
// before it. Calls after the end of the load count for none, because the checks use CPU time.
func recoveries(
	faults []*Fault,
	first receiver.Arrivals,
	last time.Time,
	kind map[timer.ID]string,
) {
	for i, f := range faults {
		end := last
		if i+1 < len(faults) {
			end = faults[i+1].From
		}
		f.Recovery = recoveryOf(f, end, first, kind)
	}
}

// recoveryOf measures the calls between a fault and the next one. Fires of an outage are called
// after its end, so each counts.
func recoveryOf(
	f *Fault,
	end time.Time,
	first receiver.Arrivals,
	kind map[timer.ID]string,
) Recovery {
	r := Recovery{Kinds: make(map[string]int)}
	base := f.recoveryStart()
	bad := lateSeconds(first)
	for i := range first {
		a := &first[i]
		start := startTime(a)
		late := a.Lateness()
		if late <= onTimeLimit || start.Before(f.From) || !start.Before(end) {
			continue
		}
		r.Late++
		r.Kinds[kind[a.Fire.Timer]]++
		r.MaxLate = max(r.MaxLate, late)
		r.CaughtUpAfter = max(r.CaughtUpAfter, start.Sub(base))
		if due := time.UnixMilli(a.Fire.DueMS); !due.Before(base) && bad[due.Unix()] {
			r.OnTimeAfter = max(r.OnTimeAfter, start.Sub(base))
		}
	}
	r.TargetOnTime, r.TargetCaughtUp = f.Target.OnTimeAfter, f.Target.CaughtUpAfter
	if f.Target.ScaledToOutage {
		r.TargetCaughtUp = max(f.outageLength()/5, f.Target.OnTimeAfter)
	}
	r.TargetsMet = (r.TargetOnTime == 0 || r.OnTimeAfter <= r.TargetOnTime) &&
		(r.TargetCaughtUp == 0 || r.CaughtUpAfter <= r.TargetCaughtUp)
	return r
}

// lateSeconds returns the seconds in which more than one in a hundred due fires were not on time.
func lateSeconds(first receiver.Arrivals) map[int64]bool {
	due, late := make(map[int64]int), make(map[int64]int)
	for i := range first {
		s := first[i].Fire.DueMS / 1000
		due[s]++
		if first[i].Lateness() > onTimeLimit {
			late[s]++
		}
	}
	bad := make(map[int64]bool)
	for s, n := range late {
		bad[s] = n*100 > due[s]
	}
	return bad
}

func startTime(a *receiver.Arrival) time.Time {
	if a.StartNS != 0 {
		return time.Unix(0, a.StartNS)
	}
	return a.Arrived()
}

// firstCalls returns the first call of each fire, except those of the timers in without.
func firstCalls(all receiver.Arrivals, without map[timer.ID]bool) receiver.Arrivals {
	seen := make(map[timer.FireID]bool, len(all))
	var first receiver.Arrivals
	for _, a := range all {
		if !seen[a.Fire] && !without[a.Fire.Timer] {
			seen[a.Fire] = true
			first = append(first, a)
		}
	}
	slices.SortFunc(
		first,
		func(a, b receiver.Arrival) int { return int(a.Fire.DueMS - b.Fire.DueMS) },
	)
	return first
}
