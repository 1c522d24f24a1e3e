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

// DeadLetters returns a page of failed fires.
func (s *Store) DeadLetters(
	_ context.Context,
	q store.DeadLetterQuery,
) (out store.DeadLetterPage, err error) {
	defer s.lock()()
	found, next, err := s.failedPage(&q)
	if err != nil {
		return out, err
	}
	for _, o := range found {
		letter := store.DeadLetter{Outcome: *o, LastError: s.lastError(o.FireID)}
		out.DeadLetters = append(out.DeadLetters, letter)
	}
	out.Next = next
	return out, nil
}

// Redrive creates failed fires anew.
func (s *Store) Redrive(
	ctx context.Context,
	q store.DeadLetterQuery,
) (out store.RedriveResult, err error) {
	if q.Series == 0 {
		return out, timer.Invalid("series", "a redrive has a series of its own")
	}
	defer s.lockToWrite(ctx)()
	found, next, err := s.failedPage(&q)
	if err != nil {
		return out, err
	}
	nowMS, series := s.nowMS(), int64(q.Series)
	isNew := func(o *timer.Outcome) bool {
		id := timer.FireID{Timer: o.Timer, DueMS: o.DueMS, Series: series}
		_, done := s.ended[id]
		return !done && s.fires[id] == nil
	}
	if slices.ContainsFunc(found, isNew) {
		if err := s.refuseFrozen(q.App); err != nil {
			return out, err
		}
	}
	noted := 0
	for _, o := range found {
		t := s.timers[o.Timer]
		id := timer.FireID{Timer: o.Timer, DueMS: o.DueMS, Series: series}
		if isNew(o) {
			s.keep(t)
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
		if o.Redriven != series {
			noted++
		}
		o.Redriven = series
		out.Outcomes = append(out.Outcomes, *o)
	}
	if noted > 0 {
		e, err := store.AuditRedriven(&q, noted)
		s.addAudit(store.ActorOf(ctx), q.App, e, err)
	}
	out.Fires, out.Next = distinct(out.Fires), next
	return out, nil
}

// failedPage checks a query and selects its page.
func (s *Store) failedPage(
	q *store.DeadLetterQuery,
) (found []*timer.Outcome, next store.OutcomePosition, err error) {
	if err := s.checkRedrive(q); err != nil {
		return nil, next, err
	}
	q.SetLimits()
	found, next = s.failed(q)
	if len(found) > q.Limit {
		found = found[:q.Limit]
		next = store.PositionOf(found[q.Limit-1])
	}
	return found, next, nil
}

func (s *Store) checkRedrive(q *store.DeadLetterQuery) error {
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

// failed selects outcomes, earliest finish first. If it does not examine all failed ones of the app,
// it returns where it stopped.
func (s *Store) failed(
	q *store.DeadLetterQuery,
) (found []*timer.Outcome, end store.OutcomePosition) {
	if len(q.Fires) > 0 {
		all := s.failedOf(
			q,
			func(o *timer.Outcome) bool { return slices.Contains(q.Fires, o.FireID) },
		)
		return s.selectFailed(q, all), end
	}
	all := s.failedOf(q, func(*timer.Outcome) bool { return true })
	if len(all) >= q.ScanLimit {
		all = all[:q.ScanLimit]
		end = store.PositionOf(all[q.ScanLimit-1])
	}
	return s.selectFailed(q, all), end
}

// failedOf returns the failed outcomes of an app after the position, earliest finish first.
func (s *Store) failedOf(
	q *store.DeadLetterQuery,
	wanted func(*timer.Outcome) bool,
) (found []*timer.Outcome) {
	for id, all := range s.outcomes {
		if s.timers[id].App != q.App {
			continue
		}
		for i := range all {
			o := &all[i]
			if o.Kind == timer.Failed && q.After.Before(store.PositionOf(o)) && wanted(o) {
				found = append(found, o)
			}
		}
	}
	slices.SortFunc(found, func(a, b *timer.Outcome) int { return byFinish(*a, *b) })
	return found
}

// selectFailed returns those of the outcomes that the query selects.
func (s *Store) selectFailed(q *store.DeadLetterQuery, all []*timer.Outcome) []*timer.Outcome {
	return slices.DeleteFunc(all, func(o *timer.Outcome) bool {
		series := int64(q.Series)
		return s.timers[o.Timer].Status == timer.StatusDeleted ||
			q.Timer != 0 && o.Timer != q.Timer ||
			o.DueMS < q.FromMS ||
			q.ToMS != 0 && o.DueMS >= q.ToMS ||
			q.Failure != timer.FailureNone && o.Failure != q.Failure ||
			!q.IncludeRedriven && o.Redriven != 0 && o.Redriven != series ||
			q.Series != 0 && o.Series == series ||
			q.BegunMS != 0 && o.Redriven != series && o.FinishedMS > q.BegunMS
	})
}
