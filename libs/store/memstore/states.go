package memstore

import (
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func (s *Store) state(t *row) timer.State {
	return timer.State{
		ID:              t.ID,
		App:             t.App,
		AppID:           t.AppID,
		Name:            t.Name,
		Origin:          t.Origin,
		Status:          t.Status,
		Version:         t.Version,
		ActiveSinceMS:   t.ActiveSinceMS,
		ActiveEpoch:     t.ActiveEpoch,
		AnchorMS:        t.AnchorMS,
		VersionMS:       t.VersionMS,
		PlanVersion:     t.planVersion,
		InactiveSinceMS: t.InactiveSinceMS,
		PausedUntilMS:   t.PausedUntilMS,
		Frozen:          s.app(t.App).Frozen,
		Running:         t.slot,
		LastRunning:     t.lastRunning(),
	}
}

// States returns the present states of timers.
func (s *Store) States(_ context.Context, ids []timer.ID) (states []timer.State, err error) {
	defer s.lock()()
	for _, id := range ids {
		if t := s.timers[id]; t != nil {
			states = append(states, s.state(t))
		}
	}
	return states, nil
}

// StatesAfter returns states of timers of all apps, in order of id.
func (s *Store) StatesAfter(
	_ context.Context, after timer.ID, limit int,
) (states []timer.State, err error) {
	defer s.lock()()
	for _, id := range slices.Sorted(maps.Keys(s.timers)) {
		if id > after && len(states) < limit {
			states = append(states, s.state(s.timers[id]))
		}
	}
	return states, nil
}

// Definitions returns versions of definitions.
func (s *Store) Definitions(
	_ context.Context,
	keys []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	defer s.lock()()
	defs := make(map[store.VersionKey]*timer.Definition, len(keys))
	for _, k := range keys {
		if t := s.timers[k.Timer]; t != nil {
			if d, ok := t.versions[k.Version]; ok {
				defs[k] = &d
			}
		}
	}
	return defs, nil
}

// VersionTimes returns when versions came into force.
func (s *Store) VersionTimes(
	_ context.Context,
	keys []store.VersionKey,
) (map[store.VersionKey]int64, error) {
	defer s.lock()()
	times := make(map[store.VersionKey]int64, len(keys))
	for _, k := range keys {
		if t := s.timers[k.Timer]; t != nil {
			if at, ok := t.versionSinceMS[k.Version]; ok {
				times[k] = at
			}
		}
	}
	return times, nil
}

// VersionAt returns the version by which a fire is called.
func (s *Store) VersionAt(_ context.Context, f timer.Fire) (int32, error) {
	defer s.lock()()
	t := s.timers[f.Timer]
	if t == nil {
		return f.Version, nil
	}
	for v := t.Version; v > f.Version; v-- {
		if t.versionSinceMS[v] < f.DueMS {
			if t.planVersions[v] <= f.Version {
				return v, nil
			}
			break
		}
	}
	return f.Version, nil
}

// Changes returns the entries of the change log after a sequence.
func (s *Store) Changes(_ context.Context, after int64, limit int) (out []store.Change, err error) {
	defer s.lock()()
	from := sort.Search(len(s.changes), func(i int) bool { return s.changes[i].seq > after })
	for _, c := range s.changes[from:min(from+limit, len(s.changes))] {
		ch := store.Change{Seq: c.seq, AtMS: c.atMS}
		if c.app != nil {
			ch.AppID, ch.Frozen = c.app.ID, c.app.Frozen
		} else {
			ch.State = s.state(c.row)
		}
		out = append(out, ch)
	}
	return out, nil
}

// LastChange returns the latest sequence of the change log.
func (s *Store) LastChange(context.Context) (int64, error) {
	defer s.lock()()
	return s.lastSeq, nil
}
