package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// found is a timer that a search selects.
type found struct {
	timer.Timer

	position store.SearchPosition
}

// Search sorts all timers that the filter selects.
func (s *Store) Search(
	ctx context.Context,
	q store.SearchQuery,
) (page store.SearchPage, err error) {
	all, err := s.selected(ctx, &q)
	if err != nil {
		return page, err
	}
	if q.Sort == store.SortLastFired && len(all) > store.SortExact {
		return page, store.TooManyToSort()
	}
	slices.SortFunc(all, func(a, b found) int { return q.Compare(a.position, b.position) })
	if q.After != (store.SearchPosition{}) {
		all = slices.DeleteFunc(
			all,
			func(f found) bool { return q.Compare(f.position, q.After) <= 0 },
		)
	}
	if q.Limit <= 0 {
		q.Limit = store.MaxBatch
	}
	page.More = len(all) > q.Limit
	bytes := 0
	for _, f := range all[:min(len(all), q.Limit)] {
		var n int
		if n, bytes = q.Fitting([]timer.Timer{f.Timer}, bytes); n == 0 {
			page.More = true
			break
		}
		page.Timers, page.Next = append(page.Timers, f.Timer), f.position
	}
	return page, nil
}

// Count counts all timers that the filter selects.
func (s *Store) Count(ctx context.Context, q store.SearchQuery) (store.SearchCount, error) {
	q.Sort = store.SortID
	all, err := s.selected(ctx, &q)
	n := len(all)
	return store.SearchCount{N: min(n, q.Limit), Minimum: n > q.Limit}, err
}

// selected returns the timers that a filter selects, with their positions. It calls NextDue without
// the lock, because that may call the store.
func (s *Store) selected(ctx context.Context, q *store.SearchQuery) (all []found, err error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	for _, f := range s.selectedByRow(q) {
		if q.ByDue() || q.Sort == store.SortNextDue {
			due, err := q.NextDue(ctx, &f.Timer)
			if err != nil {
				return nil, err
			}
			if !q.SelectsDue(due) {
				continue
			}
			if q.Sort == store.SortNextDue {
				f.position.AtMS = due
			}
		}
		all = append(all, f)
	}
	return all, nil
}

func (s *Store) selectedByRow(q *store.SearchQuery) (all []found) {
	defer s.lock()()
	for _, t := range s.rows {
		if !q.SelectsDefinition(&t.Timer) {
			continue
		}
		kind, lastMS := store.OutcomeNone, timer.NeverMS
		if q.LastOutcome != "" || q.Sort == store.SortLastFired {
			if o, ok := s.lastOutcome(t.ID); ok {
				kind, lastMS = o.Kind, o.DueMS
			}
			if q.LastOutcome != "" && q.LastOutcome != kind {
				continue
			}
		}
		f := found{t.Timer, store.SearchPosition{ID: t.ID}}
		switch q.Sort {
		case store.SortName:
			f.position.Name = t.Name
		case store.SortLastFired:
			f.position.AtMS = lastMS
		case store.SortID, store.SortNextDue:
		}
		all = append(all, f)
	}
	return all
}

// lastOutcome returns the latest outcome of a timer, as LastOutcomes does.
func (s *Store) lastOutcome(id timer.ID) (timer.Outcome, bool) {
	all := slices.DeleteFunc(slices.Clone(s.outcomes[id]), func(o timer.Outcome) bool {
		return o.Reason == timer.ReasonSuperseded
	})
	if len(all) == 0 {
		return timer.Outcome{}, false
	}
	return slices.MaxFunc(all, func(a, b timer.Outcome) int {
		return cmp.Or(cmp.Compare(a.DueMS, b.DueMS), cmp.Compare(a.Series, b.Series))
	}), true
}

// LastOutcomes returns the latest outcomes of timers.
func (s *Store) LastOutcomes(
	_ context.Context,
	ids []timer.ID,
) (map[timer.ID]timer.Outcome, error) {
	defer s.lock()()
	last := make(map[timer.ID]timer.Outcome, len(ids))
	for _, id := range ids {
		if o, ok := s.lastOutcome(id); ok {
			last[id] = o
		}
	}
	return last, nil
}
