package executor

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/lookup"
)

// deferral is a fire that must wait for its timer, with the session that owns it.
type deferral struct {
	session timer.ID
	store.Deferral
}

// deferFire releases a fire to wait in the store until its timer is active. If the timer is active
// or deleted by now, the fire is decided again at once. After a crash behind the commit nobody owns
// the fire, and the activation finds it. If the answer is lost, its owner is unknown, and the claim
// is repeated.
func (s *Service) deferFire(e *inflight.Entry, state *timer.State) {
	runAtMS := timer.DeferredMS
	if from := state.ActiveFromMS(); e.Def.Schedule.Kind.OneShot() && from < timer.DeferredMS {
		// It is due at the end of the pause, with no other trigger.
		runAtMS = max(from, s.opts.Clock.Now().UnixMilli()+1)
	}
	// A row has one wait. With the wait for a call, the row would be found as one that may run.
	if e.Fire.Attempt == 0 && e.Fire.State != timer.FireDeferred || e.Fire.WaitsForCall() {
		e.DeferFor(timer.WaitActive, s.opts.Clock.Now().UnixMilli())
	}
	d := store.Deferral{Fire: e.Fire, RunAtMS: runAtMS}
	s.lookups.deferrals.Ask(e.Fire.AppID, e.Priority(), deferral{e.Epoch.ID, d},
		func(kept lookup.Answer[bool]) {
			switch {
			case kept.Err != nil:
				s.log.Debug().Func(s.traces.About(e)).
					Err(kept.Err).
					Msg("deferral of a fire not confirmed, claim repeated")
				s.inflight.Remove(e)
				s.intake.Unconfirmed(e.Fire)
			case kept.Value:
				s.wheel.AddAt(s.opts.Clock.Now().Add(redecideAfter).UnixMilli(), e)
			default:
				s.met.inactiveDeferred.Inc()
				s.inflight.Remove(e)
			}
		})
}

// endInactivity notes that a fire no longer waits for the activation of its timer, which was at the
// latest when the state says. What comes after it, such as earlier fires of a backlog, is another wait.
func endInactivity(e *inflight.Entry, state *timer.State, nowMS int64) {
	if since := e.DeferredSince(timer.WaitActive); since != 0 {
		e.EndDeferral(min(max(since, state.ActiveFromMS()), nowMS))
	}
}

// redecideAfter is when a fire is decided again whose timer was activated or deleted during the
// deferral.
const redecideAfter = 10 * time.Millisecond

// deferAll defers fires, grouped by session. There are several sessions only just after one has
// expired.
func (s *Service) deferAll(ctx context.Context, asks []deferral) ([]bool, error) {
	out := make([]bool, len(asks))
	by := make(map[timer.ID][]store.Deferral, 1)
	place := make(map[timer.FireID]int, len(asks))
	for i, a := range asks {
		by[a.session] = append(by[a.session], a.Deferral)
		place[a.Fire.FireID] = i
	}
	for session, fires := range by {
		kept, err := s.opts.Store.Defer(ctx, session, fires)
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what failed
		}
		for _, id := range kept {
			out[place[id]] = true
		}
	}
	return out, nil
}

// giveBack releases a fire to an executor that knows the value, first held for a while because it
// may come back to this one at once. Its row stays as it is, so its lateness counts for its misfire
// policy. After a crash the session expires, as for any fire.
func (s *Service) giveBack(e *inflight.Entry, why error) {
	if !e.ToGiveBack {
		e.ToGiveBack = true
		s.wheel.AddAt(s.opts.Clock.Now().Add(inflight.MaxWait).UnixMilli(), e)
		return
	}
	s.newerValues.Warn().
		Err(why).
		Stringer("timer", e.Fire.Timer).
		Msg("fire needs a newer release, given back")
	s.order.Leave(e)
	s.recorder.Release(e)
}
