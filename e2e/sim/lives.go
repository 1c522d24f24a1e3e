package sim

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// livesPerTimer bounds the fires of each timer whose lives are read.
const livesPerTimer = 50

// start is an attempt as the receiver saw it, with its start by the clock of the executor.
type start struct {
	fire    timer.FireID
	attempt int32
	ms      int64
}

// anyStart stands for an attempt whose start the receiver saw, whenever it was.
const anyStart = -1

// starts returns the attempts that the receiver saw.
func (r *recorder) starts() map[start]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make(map[start]bool, 2*len(r.arrivals)) //nolint:mnd // two keys each
	for i := range r.arrivals {
		a := &r.arrivals[i]
		seen[start{a.Fire, a.Attempt, time.Unix(0, a.StartNS).UnixMilli()}] = true
		seen[start{a.Fire, a.Attempt, anyStart}] = true
	}
	return seen
}

// checkLives compares the lives of finished fires with their outcomes and with what the receiver
// saw.
func (env *Environment) checkLives(
	t *testing.T, o *timerPlan, h *history, recorded map[int64]timer.Outcome, seen map[start]bool,
) {
	t.Helper()
	left := livesPerTimer
	for _, due := range slices.Sorted(maps.Keys(recorded)) {
		out := recorded[due]
		if out.Count > 1 {
			continue // a stretch of skipped fires, under the id of its first
		}
		if left--; left < 0 {
			return
		}
		life, err := explain.ReadLife(
			t.Context(), env.store, h.app, out.FireID, time.Now().UnixMilli())
		require.NoError(t, err)
		env.checkTimeline(o, &out, life.Timeline())
		env.checkHops(o, &out, life)
		env.checkSeen(o, &out, life, seen)
	}
}

// checkTimeline checks that hops are in order of time, and that the record is the last one. Only the
// due instant may follow, if a clock that was fast started the call.
func (env *Environment) checkTimeline(o *timerPlan, out *timer.Outcome, hops []explain.Hop) {
	before := int64(0)
	for _, hop := range hops {
		if hop.AtMS != 0 && hop.AtMS < before {
			env.failf("%s of %s: the hop %q is before the one before: %+v",
				out.FireID, o.name, hop.Code, hops)
		}
		before = max(before, hop.AtMS)
	}
	last := hops[len(hops)-1]
	if last.Code == explain.HopDue && last.AtMS < out.FinishedMS+clockTolerance.Milliseconds() {
		last = hops[len(hops)-2]
	}
	if last.Code != explain.HopRecorded {
		env.failf("the life of %s of %s does not end with its record: %+v",
			out.FireID, o.name, hops)
	}
}

// checkHops checks that the session that recorded a fire knows how the fire came to it, and that
// its hops are possible. An executor that died took what it knew along, but the next owner has a
// way of its own. Only fires that the store itself ended have none.
func (env *Environment) checkHops(o *timerPlan, out *timer.Outcome, life *explain.Life) {
	x := &out.Hops
	if out.Owner == store.SystemSession {
		if x.Path != timer.PathUnknown || x.ClaimedMS != 0 || x.DispatchedMS != 0 {
			env.failf("%s of %s was ended by the store, with a way: %+v", out.FireID, o.name, *x)
		}
		return
	}
	switch {
	case x.Path == timer.PathUnknown || x.ClaimedMS == 0 || life.Owner.Name == "":
		env.failf("nobody knows what brought %s of %s: %+v", out.FireID, o.name, *x)
	case x.Path.HasTask() != (x.DispatchedMS != 0):
		env.failf("%s of %s has a task and no instant for it, or the reverse: %+v",
			out.FireID, o.name, *x)
	case x.DispatchedMS > x.ClaimedMS || x.ClaimedMS > out.FinishedMS:
		env.failf("%s of %s was claimed before its task, or after its end: %+v",
			out.FireID, o.name, *x)
	}
	first := len(life.Attempts) > 0 && life.Attempts[0].N == 1 &&
		life.Attempts[0].StartMS >= x.ClaimedMS
	if first && x.WaitedFor == timer.WaitUnknown {
		env.failf("the session that made the first attempt of %s of %s does not know its wait: %+v",
			out.FireID, o.name, *x)
	}
}

// checkSeen checks that the receiver saw the attempts of a life. A first attempt that succeeded has
// no row, so its start is computed back from the outcome.
func (env *Environment) checkSeen(
	o *timerPlan, out *timer.Outcome, life *explain.Life, seen map[start]bool,
) {
	for i := range life.Attempts {
		a := &life.Attempts[i]
		if a.N > out.Attempts {
			env.failf("%s of %s had %d attempts, and its life has attempt %d",
				out.FireID, o.name, out.Attempts, a.N)
		}
		at := start{out.FireID, a.N, a.StartMS}
		if out.Attempts == 1 {
			at.ms = anyStart
		}
		if sent(a) && !seen[at] {
			env.failf("the receiver did not see attempt %d of %s of %s: %+v",
				a.N, out.FireID, o.name, *a)
		}
	}
}

// sent reports whether an attempt reached its receiver. The others were refused by a breaker, or
// are the end of an attempt that the receiver did not complete.
func sent(a *timer.Attempt) bool {
	switch a.Failure { //nolint:exhaustive // the others are calls
	case timer.FailureCircuit, timer.FailureInvalid, timer.FailureAsync:
		return false
	}
	return true
}
