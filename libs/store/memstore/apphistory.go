package memstore

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Outcomes returns a page of an app's finished fires.
func (s *Store) Outcomes(
	_ context.Context,
	q store.OutcomeQuery,
) (page store.OutcomePage, err error) {
	defer s.lock()()
	for n, o := range s.scanned(&q) {
		if q.Matches(o) {
			page.Outcomes = append(page.Outcomes, *o)
		}
		if page.Next = store.PositionOf(o); len(page.Outcomes) == q.Limit || n+1 == q.ScanLimit {
			return page, nil
		}
	}
	page.Next = store.OutcomePosition{}
	return page, nil
}

// CountOutcomes counts an app's finished fires.
func (s *Store) CountOutcomes(
	_ context.Context,
	q store.OutcomeQuery,
	stepMS int64,
) (out store.OutcomeCounts, err error) {
	defer s.lock()()
	q.Ascending, q.After = false, store.OutcomePosition{}
	out.FromMS = q.FromMS
	groups := map[store.OutcomeCount][2]int64{}
	for n, o := range s.scanned(&q) {
		if n >= q.ScanLimit && o.FinishedMS < out.FromMS {
			break
		}
		if n+1 >= q.ScanLimit {
			out.FromMS = o.FinishedMS
		}
		if !q.Matches(o) {
			continue
		}
		g := store.OutcomeCount{
			StepMS:     o.FinishedMS - o.FinishedMS%stepMS,
			Kind:       o.Kind,
			Reason:     o.Reason,
			LatenessMS: store.NotCalled,
		}
		if o.Attempts > 0 {
			g.LatenessMS = store.LatenessBucket(o.LatenessMS)
		}
		had := groups[g]
		groups[g] = [2]int64{had[0] + 1, had[1] + o.Count}
	}
	for g, n := range groups {
		g.Outcomes, g.Fires = n[0], n[1]
		out.Counts = append(out.Counts, g)
	}
	return out, nil
}

// scanned returns the app's outcomes in the range of the query, after its position, in its order.
func (s *Store) scanned(q *store.OutcomeQuery) (all []*timer.Outcome) {
	order := byFinish
	if !q.Ascending {
		order = func(a, b timer.Outcome) int { return byFinish(b, a) }
	}
	for id, of := range s.outcomes {
		if s.timers[id].App != q.App {
			continue
		}
		for i := range of {
			o := &of[i]
			if o.FinishedMS >= q.FromMS && (q.ToMS == 0 || o.FinishedMS < q.ToMS) &&
				(q.After == (store.OutcomePosition{}) || order(*o, place(q.After)) > 0) {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b *timer.Outcome) int { return order(*a, *b) })
	return all
}
