package history

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxKnown is the number of versions at which a matcher forgets those that it knows.
const maxKnown = 10_000

// labelMatcher selects outcomes by the labels of their version. A version never changes, so what is
// known of it stays true. It is for one goroutine.
type labelMatcher struct {
	store    store.Definitions
	selector selector.Selector
	known    map[store.VersionKey]bool
}

func newLabelMatcher(s store.Definitions, labels selector.Selector) *labelMatcher {
	return &labelMatcher{store: s, selector: labels, known: map[store.VersionKey]bool{}}
}

// keep returns the outcomes with the labels, in their order. Without a selector it reads nothing.
func (m *labelMatcher) keep(
	ctx context.Context,
	outcomes []timer.Outcome,
) ([]timer.Outcome, error) {
	if len(m.selector) == 0 || len(outcomes) == 0 {
		return outcomes, nil
	}
	if len(m.known) > maxKnown {
		clear(m.known)
	}
	var unknown []store.VersionKey
	for i := range outcomes {
		k := versionOf(&outcomes[i])
		if _, ok := m.known[k]; !ok {
			m.known[k] = false // in case the version is gone
			unknown = append(unknown, k)
		}
	}
	for part := range slices.Chunk(unknown, store.MaxBatch) {
		defs, err := m.store.Definitions(ctx, part)
		if err != nil {
			for _, k := range unknown {
				delete(m.known, k)
			}
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		for k, d := range defs {
			m.known[k] = m.selector.Matches(d.Labels)
		}
	}
	var kept []timer.Outcome
	for i := range outcomes {
		if m.known[versionOf(&outcomes[i])] {
			kept = append(kept, outcomes[i])
		}
	}
	return kept, nil
}

func versionOf(o *timer.Outcome) store.VersionKey {
	return store.VersionKey{Timer: o.Timer, Version: o.Version}
}
