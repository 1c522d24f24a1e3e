package executor

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/admission"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// decideVerdict returns the verdict of a state on a fire. It reads earlier inactive periods from
// the store if they decide, which is rare: only for fires left open since before the last
// activation.
func (s *Service) decideVerdict(e *inflight.Entry, state *timer.State) (admission.Verdict, error) {
	nowMS := s.opts.Clock.Now().UnixMilli()
	oneShot := e.Def != nil && e.Def.Schedule.Kind.OneShot()
	v, known := admission.OfStatus(&e.Fire, oneShot, state, nil, nowMS)
	if known {
		return v, nil
	}
	past, err := s.inactivities.of(e.Epoch.Context(), state)
	if err != nil {
		return admission.Verdict{}, err
	}
	v, _ = admission.OfStatus(&e.Fire, oneShot, state, past, nowMS)
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
