package executor

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// verdict is what a timer's status decides about one of its fires. The zero value allows the call.
type verdict struct {
	reason   timer.Reason // unless ReasonNone, the fire is skipped for it
	deferred bool         // the fire waits until the timer is active
}

// call reports whether the fire may be called now.
func (f verdict) call() bool { return f == verdict{} }

// verdictOf decides by a fire's due time, not by the time of the decision. A fire due while the
// timer was inactive is skipped; any other is called, once the timer is active. A one-shot due in
// an inactive period is due at its end. Fires of explicit requests are called regardless of
// activity.
//
// past are the inactive periods before the current one. known is false if they are needed and nil.
func verdictOf(
	f *timer.Fire,
	oneShot bool,
	s *timer.State,
	past []timer.Inactivity,
	nowMS int64,
) (v verdict, known bool) {
	switch {
	case !s.Exists(), s.Status == timer.StatusDeleted:
		return verdict{reason: timer.ReasonDeleted}, true
	// a run-now exists only if it was requested before the freeze
	case s.Frozen && (f.Cause != timer.CauseRunNow || f.Attempt > 0):
		return verdict{reason: timer.ReasonFrozen}, true
	case f.Series != 0:
		return verdict{}, true
	}
	deferred := verdict{deferred: !s.ActiveAt(nowMS)}
	if oneShot {
		return deferred, true
	}
	reason, sure := s.SkipReasonAt(f.DueMS)
	if !sure {
		reason = timer.SkipReasonIn(past, f.DueMS)
	}
	if reason != timer.ReasonNone {
		return verdict{reason: reason}, true
	}
	return deferred, sure || past != nil
}

// decideVerdict returns the verdict of a state on a fire. It reads earlier inactive periods from
// the store if they decide, which is rare: only for fires left open since before the last
// activation.
func (s *Service) decideVerdict(e *inflight.Entry, state *timer.State) (verdict, error) {
	nowMS := s.opts.Clock.Now().UnixMilli()
	oneShot := e.Def != nil && e.Def.Schedule.Kind.OneShot()
	v, known := verdictOf(&e.Fire, oneShot, state, nil, nowMS)
	if known {
		return v, nil
	}
	past, err := s.inactivities.of(e.Epoch.Context(), state)
	if err != nil {
		return verdict{}, err
	}
	v, _ = verdictOf(&e.Fire, oneShot, state, past, nowMS)
	return v, nil
}

// inactivityCacheSize is how many timers have their earlier inactive periods cached.
const inactivityCacheSize = 10_000

// inactivities caches the inactive periods of timers. Those before the current one never change.
type inactivities struct {
	reads *batch.Group[timer.ID, []timer.Inactivity]
	cache *lru.Cache[inactivityKey, []timer.Inactivity]
}

// inactivityKey identifies an immutable value: a timer's inactive periods before one of its states.
type inactivityKey struct {
	timer        timer.ID
	epoch, since int64
}

// of returns the inactive periods before a state, never nil.
func (i *inactivities) of(ctx context.Context, state *timer.State) ([]timer.Inactivity, error) {
	key := inactivityKey{state.ID, state.ActiveEpoch, state.InactiveSinceMS}
	if past, ok := i.cache.Get(key); ok {
		return past, nil
	}
	past, err := i.reads.Do(ctx, state.ID)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what failed
	}
	if past == nil {
		past = []timer.Inactivity{}
	}
	i.cache.Add(key, past)
	return past, nil
}

// readInactivities reads the inactive periods of many timers at once.
func (s *Service) readInactivities(
	ctx context.Context,
	ids []timer.ID,
) ([][]timer.Inactivity, error) {
	found, err := s.opts.Store.Inactivities(ctx, ids)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what failed
	}
	out := make([][]timer.Inactivity, len(ids))
	for i, id := range ids {
		out[i] = found[id]
	}
	return out, nil
}

// deferral is a fire that must wait for its timer, with the session that owns it.
type deferral struct {
	session timer.ID
	store.Deferral
}

// deferFire releases a fire to wait in the store until its timer is active. If the timer is active
// by now, the fire is decided again at once. After a crash behind the commit nobody owns the fire,
// and the activation finds it. If the answer is lost, its owner is unknown, and the claim is
// repeated.
func (s *Service) deferFire(e *inflight.Entry, state *timer.State) {
	d := store.Deferral{Fire: e.Fire, RunAtMS: timer.DeferredMS}
	if from := state.ActiveFromMS(); e.Def.Schedule.Kind.OneShot() && from < timer.DeferredMS {
		// It is due at the end of the pause, with no other trigger.
		d.RunAtMS = max(from, s.opts.Clock.Now().UnixMilli()+1)
	}
	active, err := s.deferrals.Do(e.Epoch.Context(), deferral{e.Epoch.ID, d})
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("deferral of a fire not confirmed, claim repeated")
		s.inflight.Remove(e)
		s.unconfirmedClaims.add([]timer.Fire{e.Fire})
	case active:
		s.wheel.AddAt(s.opts.Clock.Now().Add(redecideAfter).UnixMilli(), e)
	default:
		s.met.inactiveDeferred.Inc()
		s.inflight.Remove(e)
	}
}

// redecideAfter is when a fire is decided again whose timer was activated during the deferral.
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
		active, err := s.opts.Store.Defer(ctx, session, fires)
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what failed
		}
		for _, id := range active {
			out[place[id]] = true
		}
	}
	return out, nil
}
