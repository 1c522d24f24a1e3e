package executor

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// verdict is what a timer's status makes of one of its fires. The zero value lets it be called.
type verdict struct {
	reason   timer.Reason // other than none: it is skipped for that
	deferred bool         // it is called when the timer is active again
}

// call tells whether the fire may be called now.
func (f verdict) call() bool { return f == verdict{} }

// verdictOf decides by the instant at which a fire is due, and not by when somebody looks at it: what
// is due within a stretch in which the timer was not active is skipped, what is due outside of all
// of them is called, though not while the timer is not active. A one-shot has no other instant: one
// that is due within such a stretch is due at its end. What somebody asked for by itself is called
// also while the timer is not active.
//
// past are the stretches before the present one. known is false where they are needed and are nil.
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
	case s.Frozen && (f.Cause != timer.CauseRunNow || f.Attempt > 0): // a run-now is there only where it was asked for before
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

// decideVerdict returns what becomes of a fire by the state given. It asks the store where the
// stretches before the present one decide, which is rare: for what is still open of the time before
// the last activation.
func (s *Service) decideVerdict(e *claimedFire, state *timer.State) (verdict, error) {
	nowMS := s.opts.Clock.Now().UnixMilli()
	oneShot := e.def != nil && e.def.Schedule.Kind.OneShot()
	v, known := verdictOf(&e.fire, oneShot, state, nil, nowMS)
	if known {
		return v, nil
	}
	past, err := s.inactivities.of(e.epoch.Context(), state)
	if err != nil {
		return verdict{}, err
	}
	v, _ = verdictOf(&e.fire, oneShot, state, past, nowMS)
	return v, nil
}

// inactivityCacheSize is of how many timers the earlier stretches are kept.
const inactivityCacheSize = 10_000

// inactivities are the stretches in which timers were not active. Those before the present one
// never change.
type inactivities struct {
	reads *batch.Group[timer.ID, []timer.Inactivity]
	cache *lru.Cache[inactivityKey, []timer.Inactivity]
}

// inactivityKey names what never changes: a timer's stretches before one of its states.
type inactivityKey struct {
	timer        timer.ID
	epoch, since int64
}

// of returns the stretches before a state, never nil.
func (i *inactivities) of(ctx context.Context, state *timer.State) ([]timer.Inactivity, error) {
	key := inactivityKey{state.ID, state.ActiveEpoch, state.InactiveSinceMS}
	if past, ok := i.cache.Get(key); ok {
		return past, nil
	}
	past, err := i.reads.Do(ctx, state.ID)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	if past == nil {
		past = []timer.Inactivity{}
	}
	i.cache.Add(key, past)
	return past, nil
}

// readInactivities asks the store for many timers at once.
func (s *Service) readInactivities(
	ctx context.Context,
	ids []timer.ID,
) ([][]timer.Inactivity, error) {
	found, err := s.opts.Store.Inactivities(ctx, ids)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	out := make([][]timer.Inactivity, len(ids))
	for i, id := range ids {
		out[i] = found[id]
	}
	return out, nil
}

// deferral is a fire that is to wait for its timer, under the session that holds it.
type deferral struct {
	session timer.ID
	store.Deferral
}

// deferFire lets a fire wait in the store until its timer is active. Where it is active by now, the
// fire is decided anew at once. Dying after the answer: the fire is nobody's, and an activation
// finds it. Where the answer is lost, nobody here knows whose the fire is: it is claimed again.
func (s *Service) deferFire(e *claimedFire, state *timer.State) {
	d := store.Deferral{Fire: e.fire, RunAtMS: timer.DeferredMS}
	if from := state.ActiveFromMS(); e.def.Schedule.Kind.OneShot() && from < timer.DeferredMS {
		// it is due at the end of the pause, and wants nobody to notice that first.
		d.RunAtMS = max(from, s.opts.Clock.Now().UnixMilli()+1)
	}
	active, err := s.deferrals.Do(e.epoch.Context(), deferral{e.epoch.ID, d})
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("deferral of a fire not confirmed, it is claimed again")
		s.inflight.remove(e)
		s.unconfirmedClaims.add([]timer.Fire{e.fire})
	case active:
		s.wheel.addAt(s.opts.Clock.Now().Add(redecideAfter).UnixMilli(), e)
	default:
		s.met.inactiveDeferred.Inc()
		s.inflight.remove(e)
	}
}

// redecideAfter is when a fire is decided anew whose timer was activated while it was being
// deferred.
const redecideAfter = 10 * time.Millisecond

// deferAll defers many fires, by session: there is more than one only just after a session's end.
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
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		for _, id := range active {
			out[place[id]] = true
		}
	}
	return out, nil
}
