package executor

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/admission"
)

// verdictOf returns the verdict of a state on a fire. It needs earlier inactive periods if they
// decide, which is rare: only for fires left open since before the last activation.
func (s *Service) verdictOf(c *candidate, state *timer.State) (admission.Verdict, progress) {
	e, nowMS := c.entry, s.opts.Clock.Now().UnixMilli()
	oneShot := e.Def != nil && e.Def.Schedule.Kind.OneShot()
	v, known := admission.OfStatus(&e.Fire, oneShot, state, nil, nowMS)
	if known {
		return v, goes
	}
	key := inactivityKey{state.ID, state.ActiveEpoch, state.InactiveSinceMS}
	past, ok := c.past, c.past != nil && c.pastKey == key
	if !ok {
		past, ok = s.inactivities.Get(key)
	}
	if !ok {
		return v, ask(s, s.lookups.inactivities, c, state.ID,
			func(past []timer.Inactivity, _ time.Time) {
				c.past, c.pastKey = past, key
				s.inactivities.Add(key, past)
			})
	}
	v, _ = admission.OfStatus(&e.Fire, oneShot, state, past, nowMS)
	return v, goes
}

// inactivityCacheSize is how many timers have their earlier inactive periods cached.
const inactivityCacheSize = 10_000

// inactivities caches the inactive periods of timers, never nil. Those before the current one never
// change.
type inactivities = lru.Cache[inactivityKey, []timer.Inactivity]

// inactivityKey identifies an immutable value: a timer's inactive periods before one of its states.
type inactivityKey struct {
	timer        timer.ID
	epoch, since int64
}

// readInactivities reads the inactive periods of many timers at once, never nil.
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
		if out[i] = found[id]; out[i] == nil {
			out[i] = []timer.Inactivity{}
		}
	}
	return out, nil
}
