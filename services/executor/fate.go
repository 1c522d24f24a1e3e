package executor

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// fate is what a timer's status makes of one of its fires. The zero value lets it be called.
type fate struct {
	reason timer.Reason // other than none: it is skipped for that
	waits  bool         // it is called when the timer is active again
}

// call tells whether the fire may be called now.
func (f fate) call() bool { return f == fate{} }

// fateOf decides by the instant at which a fire is due, and not by when somebody looks at it: what
// is due within a stretch in which the timer was not active is skipped, what is due outside of all
// of them is called, though not while the timer is not active. A one-shot has no other instant: one
// that is due within such a stretch is due at its end. What somebody asked for by itself is called
// also while the timer is not active.
//
// past are the stretches before the present one. known is false where they are needed and are nil.
func fateOf(
	f *timer.Fire,
	oneShot bool,
	s *timer.State,
	past []timer.Inactivity,
	nowMS int64,
) (what fate, known bool) {
	switch {
	case !s.Exists(), s.Status == timer.StatusDeleted:
		return fate{reason: timer.ReasonDeleted}, true
	case s.Frozen && (f.Cause != timer.CauseRunNow || f.Attempt > 0): // a run-now is there only where it was asked for before
		return fate{reason: timer.ReasonFrozen}, true
	case f.Series != 0:
		return fate{}, true
	}
	waits := fate{waits: !s.ActiveAt(nowMS)}
	if oneShot {
		return waits, true
	}
	reason, sure := s.Covering(f.DueMS)
	if !sure {
		reason = timer.CoveredBy(past, f.DueMS)
	}
	if reason != timer.ReasonNone {
		return fate{reason: reason}, true
	}
	return waits, sure || past != nil
}

// decideFate returns what becomes of a fire by the state given. It asks the store where the
// stretches before the present one decide, which is rare: for what is still open of the time before
// the last activation.
func (s *Service) decideFate(e *held, state *timer.State) (fate, error) {
	nowMS := s.opts.Clock.Now().UnixMilli()
	oneShot := e.def != nil && e.def.Schedule.Kind.OneShot()
	what, known := fateOf(&e.fire, oneShot, state, nil, nowMS)
	if known {
		return what, nil
	}
	past, err := s.past.of(e.term.Context(), state)
	if err != nil {
		return fate{}, err
	}
	what, _ = fateOf(&e.fire, oneShot, state, past, nowMS)
	return what, nil
}

// pastKept is of how many timers the earlier stretches are kept.
const pastKept = 10_000

// inactivities are the stretches in which timers were not active. Those before the present one
// never change.
type inactivities struct {
	ask  *batch.Group[timer.ID, []timer.Inactivity]
	kept *lru.Cache[pastKey, []timer.Inactivity]
}

// pastKey names what never changes: a timer's stretches before one of its states.
type pastKey struct {
	timer        timer.ID
	epoch, since int64
}

// of returns the stretches before a state, never nil.
func (i *inactivities) of(ctx context.Context, state *timer.State) ([]timer.Inactivity, error) {
	key := pastKey{state.ID, state.ActiveEpoch, state.InactiveSinceMS}
	if past, ok := i.kept.Get(key); ok {
		return past, nil
	}
	past, err := i.ask.Do(ctx, state.ID)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	if past == nil {
		past = []timer.Inactivity{}
	}
	i.kept.Add(key, past)
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
// finds it.
func (s *Service) deferFire(e *held, state *timer.State) {
	d := store.Deferral{Fire: e.fire, RunAtMS: timer.DeferredMS}
	if from := state.ActiveFromMS(); e.def.Schedule.Kind.OneShot() && from < timer.DeferredMS {
		// it is due at the end of the pause, and wants nobody to notice that first.
		d.RunAtMS = max(from, s.opts.Clock.Now().UnixMilli()+1)
	}
	active, err := s.deferrals.Do(e.term.Context(), deferral{e.term.ID, d})
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("fire of a timer that is not active not deferred, it waits here")
		s.later(e)
	case active:
		s.wheel.addAt(s.opts.Clock.Now().Add(stateSettles).UnixMilli(), e)
	default:
		s.met.deferred.Inc()
		s.hands.drop(e)
	}
}

// stateSettles is when a fire is decided anew whose timer was activated while it was being
// deferred.
const stateSettles = 10 * time.Millisecond

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
