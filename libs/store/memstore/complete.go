package memstore

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Complete finishes a fire that was accepted, or releases it.
func (s *Store) Complete(
	ctx context.Context,
	app string,
	c store.Completion,
) (store.CompletionResult, error) {
	defer s.lockToWrite(ctx)()
	t := s.timers[c.Timer]
	if t == nil || t.App != app {
		return store.CompletionResult{}, timer.NotFound("timer", c.Timer)
	}
	f := s.fires[c.FireID]
	switch {
	case f == nil:
		return s.completeEnded(t, &c)
	case f.Attempt < c.Attempt:
		return store.CompletionResult{State: store.CompletionTooEarly}, nil
	case f.Attempt == c.Attempt && f.State == timer.FireAccepted && c.Target&^f.TargetBits == 0:
		e, err := store.AuditFireCompleted(&c)
		s.addAudit(store.ActorOf(ctx), app, e, err)
		if c.Failed != nil {
			return s.completeFailed(f, &c), nil
		}
		return s.complete(t, f, &c), nil
	case s.failedBefore(&c):
		out := store.CompletionResult{State: store.CompletionRepeated}
		if f.Owner == 0 && f.State == timer.FireAsyncFailed && f.Attempt == c.Attempt {
			out.Fires = []timer.Fire{*f}
		}
		return out, nil
	}
	return store.CompletionResult{State: store.CompletionTooLate}, nil
}

func (s *Store) completeEnded(t *row, c *store.Completion) (store.CompletionResult, error) {
	i := slices.IndexFunc(
		s.outcomes[c.Timer],
		func(o timer.Outcome) bool { return o.FireID == c.FireID },
	)
	if i < 0 {
		return store.CompletionResult{}, timer.NotFound("fire", c.FireID)
	}
	o := &s.outcomes[c.Timer][i]
	out := store.CompletionResult{State: store.CompletionTooLate}
	switch {
	case c.Failed == nil && o.Kind == timer.Delivered && o.Owner == store.SystemSession && o.Attempts == c.Attempt:
		out.State = store.CompletionRepeated
		if c.Next != nil {
			out.Fires = s.unclaimed(c.Next.FireID)
		}
		out.Fires = distinct(append(out.Fires, s.unclaimed(t.slot)...))
	case s.failedBefore(c):
		out.State = store.CompletionRepeated
	}
	return out, nil
}

func (s *Store) failedBefore(c *store.Completion) bool {
	f := c.Failed
	return f != nil && slices.ContainsFunc(s.attempts[c.FireID], func(a timer.Attempt) bool {
		return a.N == c.Attempt && a.Failure == f.Failure && a.StatusCode == f.StatusCode &&
			a.Error == clip(f.Error) &&
			a.Excerpt == clip(f.Excerpt)
	})
}

func (s *Store) complete(t *row, f *timer.Fire, c *store.Completion) store.CompletionResult {
	o := timer.Outcome{
		Fire:       *f,
		Kind:       timer.Delivered,
		FinishedMS: s.nowMS(),
		UntilMS:    f.DueMS,
		Count:      1,
		Attempts:   f.Attempt,
		LatenessMS: f.FirstLatenessMS,
		Hops:       f.Hops(s.nowMS()),
		Next:       c.Next,
	}
	if skew := c.FinishedMS - o.FinishedMS; max(
		skew,
		-skew,
	) <= store.VisibilityDelay.Milliseconds()/3 {
		o.FinishedMS = c.FinishedMS
	}
	for _, a := range s.attempts[f.FireID] {
		if a.N == c.Attempt {
			o.StatusCode, o.DurationMS = a.StatusCode, a.DurationMS
			o.FinishedMS = max(o.FinishedMS, min(a.EndMS(), s.nowMS()))
		}
	}
	s.finish(f, &o, store.SystemSession)
	if o.Series == 0 {
		t.lastCallEndedMS = max(t.lastCallEndedMS, o.FinishedMS)
	}
	made := s.successor(&o, f)
	delete(t.queue, o.FireID)
	return store.CompletionResult{Fires: distinct(append(made, s.promoteNext(t)...))}
}

func (s *Store) completeFailed(f *timer.Fire, c *store.Completion) store.CompletionResult {
	nowMS := s.nowMS()
	a := *c.Failed
	a.FireID, a.N = f.FireID, c.Attempt
	if a.StartMS == 0 {
		a.StartMS = nowMS - a.DurationMS
	}
	// The acceptance is recorded under the same attempt number. The ends tell the two records
	// apart.
	for slices.ContainsFunc(s.attempts[f.FireID], func(b timer.Attempt) bool {
		return b.N == a.N && b.Target == a.Target && b.EndMS() == a.EndMS()
	}) {
		a.DurationMS++
	}
	s.release(f, nowMS, 0, timer.FireAsyncFailed)
	s.addAttempts(f.FireID, []timer.Attempt{a})
	return store.CompletionResult{Fires: []timer.Fire{*f}}
}
