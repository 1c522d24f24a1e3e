package limit

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// askAgain is when a fire asks again that only waits for the answer of the ledger.
const askAgain = 5 * time.Millisecond

// nearBy is how long one waits at most that came back in its turn; where permits are further apart, for the next but one at the most.
const nearBy = 100 * time.Millisecond

// instant returns when a refused fire shall ask again: one after the other, as fast as calls can probably start here. Each priority stands behind its own and
// those above it, so that what is refused for another goes to the end of all.
func (a *app) instant(ask *Ask, why *refusal, now time.Time) time.Time {
	if !why.known {
		return now.Add(askAgain)
	}
	mine, step := &a.lines[ask.Priority], a.step(now, why)
	var tail, backTail time.Time
	for i := range a.lines[:ask.Priority+1] {
		tail, backTail = later(tail, a.lines[i].tail), later(backTail, a.lines[i].backTail)
	}
	last := &mine.tail
	if ask.Returned {
		// One that came in its turn and found nothing misses it by little: it waits for the next permit that nobody else does, and is not sent to the end.
		if next := a.nextToken.Add(askAgain); why == byTokens && a.promised.Before(next.Add(-step/2)) && next.Before(now.Add(step)) {
			a.promised = next
			return later(next, now.Add(askAgain))
		}
		at := later(mine.near, now).Add(step)
		if wait := at.Sub(now); wait <= max(nearBy, 2*step) {
			mine.near = at
			return now.Add(max(wait, askAgain))
		}
		tail, last = backTail, &mine.backTail
	} else {
		tail = later(tail, backTail)
	}
	at := later(tail, now).Add(step)
	if wait := at.Sub(now); wait > MaxWait {
		return now.Add(MaxWait - time.Duration(rand.Int64N(int64(MaxWait)/4)))
	}
	*last = at
	if soonest := now.Add(askAgain); at.Before(soonest) {
		at = soonest
	}
	return at
}

// step is how long it takes from one start to the next.
func (a *app) step(now time.Time, why *refusal) time.Duration {
	return time.Duration(float64(time.Second) / a.pace(now, why))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pace estimates how many calls per second can start here: our part of the rate, and as many as ended lately.
func (a *app) pace(now time.Time, why *refusal) float64 {
	const (
		slowest = 0.2                    // one in 5 s: an endpoint that hangs says nothing of when it will not
		soonest = 100 * time.Millisecond // what runs is thought to take, until it shows that it takes longer
	)
	pace := math.Inf(1)
	if a.settings.Rate > 0 {
		pace = a.settings.Rate / float64(a.executors)
	}
	if why == bySlots || why == byShare || why == awayRefusal && a.settings.Concurrent > 0 || math.IsInf(pace, 1) {
		since := soonest
		if a.inUse > 0 {
			since = max(now.Sub(a.progress), soonest)
		}
		running := float64(max(a.inUse, a.settings.Concurrent/a.executors, 1)) / since.Seconds()
		pace = min(pace, max(a.ended.rate(now), running, slowest))
	}
	return max(pace, 1e-3)
}

// waits tells whether fires were given instants that are still to come.
func (a *app) waits(now time.Time) bool {
	return slices.ContainsFunc(a.lines[:], func(l line) bool { return l.waits(now) })
}
