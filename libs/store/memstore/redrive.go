package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// byFinish orders outcomes by position.
func byFinish(a, b timer.Outcome) int {
	return cmp.Or(
		cmp.Compare(a.FinishedMS, b.FinishedMS),
		cmp.Compare(a.Timer, b.Timer),
		timer.CompareFires(a.Fire, b.Fire),
	)
}

// Redrive creates failed fires anew.
func (s *Store) Redrive(
	_ context.Context,
	q store.RedriveQuery,
	series timer.ID,
	dryRun bool,
) (out store.RedriveResult, err error) {
	if series == 0 && !dryRun {
		return out, timer.Invalid("series", "a redrive has a series of its own")
	}
	defer s.lock()()
	if err := s.checkRedrive(&q); err != nil {
		return out, err
	}
	if q.Limit <= 0 || q.Limit > store.MaxBatch {
		q.Limit = store.MaxBatch
	}
	found := s.failed(&q, int64(series))
	if out.More = len(found) > q.Limit; out.More {
		found = found[:q.Limit]
	}
	nowMS := s.nowMS()
	for _, o := range found {
		if !dryRun {
			t := s.timers[o.Timer]
			id := timer.FireID{Timer: o.Timer, DueMS: o.DueMS, Series: int64(series)}
			if _, done := s.ended[id]; !done && s.fires[id] == nil {
				s.insert(&timer.Fire{
					FireID:        id,
					RunAtMS:       nowMS,
					AppID:         o.AppID,
					Version:       t.Version,
					Epoch:         t.ActiveEpoch,
					Cause:         timer.CauseRedrive,
					PriorityLevel: t.Definition.Priority.PriorityLevel(),
				})
			}
			out.Fires = append(out.Fires, s.unclaimed(id)...)
			o.Redriven = int64(series)
		}
		out.Outcomes = append(out.Outcomes, *o)
	}
	out.Fires = distinct(out.Fires)
	return out, nil
}

func (s *Store) checkRedrive(q *store.RedriveQuery) error {
	if t := s.timers[q.Timer]; q.Timer != 0 &&
		(t == nil || t.App != q.App || t.Status == timer.StatusDeleted) {
		return timer.NotFound("timer", q.Timer)
	}
	for _, id := range q.Fires {
		t := s.timers[id.Timer]
		if _, done := s.ended[id]; t == nil || t.App != q.App || !done && s.fires[id] == nil {
			return timer.NotFound("fire", id)
		}
	}
	return nil
}

// failed selects outcomes, earliest finish first.
func (s *Store) failed(q *store.RedriveQuery, series int64) (found []*timer.Outcome) {
	after := timer.Outcome{Fire: timer.Fire{FireID: q.After}, FinishedMS: q.AfterFinishedMS}
	for id, all := range s.outcomes {
		t := s.timers[id]
		if t.App != q.App || t.Status == timer.StatusDeleted || q.Timer != 0 && id != q.Timer {
			continue
		}
		for i := range all {
			o := &all[i]
			switch {
			case o.Kind != timer.Failed,
				o.DueMS < q.FromMS,
				q.ToMS != 0 && o.DueMS >= q.ToMS,
				q.Failure != timer.FailureNone && o.Failure != q.Failure,
				!q.IncludeRedriven && o.Redriven != 0 &&
					o.Redriven != series,
				q.AfterFinishedMS != 0 && byFinish(*o, after) <= 0,
				len(q.Fires) > 0 && !slices.Contains(q.Fires, o.FireID):
			default:
				found = append(found, o)
			}
		}
	}
	slices.SortFunc(found, func(a, b *timer.Outcome) int { return byFinish(*a, *b) })
	return found
}

// RedrivenAmong returns the fires whose dead letters can be acknowledged.
func (s *Store) RedrivenAmong(
	_ context.Context,
	ids []timer.FireID,
) (redriven []timer.FireID, err error) {
	defer s.lock()()
	for _, id := range ids {
		waits := func(o timer.Outcome) bool { return o.FireID == id && o.Kind == timer.Failed && o.Redriven == 0 }
		if s.fires[id] == nil && !slices.ContainsFunc(s.outcomes[id.Timer], waits) {
			redriven = append(redriven, id)
		}
	}
	return redriven, nil
}
