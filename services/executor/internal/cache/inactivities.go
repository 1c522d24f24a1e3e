package cache

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/timer"
)

// inactivityCacheSize is how many timers have their earlier inactive periods cached.
const inactivityCacheSize = 10_000

// Inactivities caches the inactive periods of timers, never nil. Those before the current one never
// change.
type Inactivities struct {
	*lru.Cache[InactivityKey, []timer.Inactivity]

	store Store
}

// InactivityKey identifies an immutable value: a timer's inactive periods before one of its states.
type InactivityKey struct {
	timer        timer.ID
	epoch, since int64
}

// InactivityKeyOf returns the key of a state.
func InactivityKeyOf(s *timer.State) InactivityKey {
	return InactivityKey{s.ID, s.ActiveEpoch, s.InactiveSinceMS}
}

func newInactivities(st Store) *Inactivities {
	return &Inactivities{newLRU[InactivityKey, []timer.Inactivity](inactivityCacheSize), st}
}

// Read reads the inactive periods of many timers at once, never nil. It does not cache them, because
// only the caller knows their state.
func (c *Inactivities) Read(ctx context.Context, ids []timer.ID) ([][]timer.Inactivity, error) {
	found, err := c.store.Inactivities(ctx, ids)
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
