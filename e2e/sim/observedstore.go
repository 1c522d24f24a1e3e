package sim

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// observedStore tells the checks of the effects of one process's calls, also where the answer is
// lost.
type observedStore struct {
	store.Store

	p *process
}

func (s *observedStore) Create(
	ctx context.Context,
	items []store.NewTimer,
	plan store.Planner,
) ([]store.CreateResult, error) {
	defer s.p.env.observer.lockEffects()()
	out, err := s.Store.Create(ctx, items, plan)
	if err == nil {
		s.p.env.observer.created(items, out)
	}
	return out, err
}

func (s *observedStore) SetStatus(
	ctx context.Context,
	items []store.StatusChange,
	plan store.Planner,
) ([]store.StatusResult, error) {
	defer s.p.env.observer.lockEffects()()
	out, err := s.Store.SetStatus(ctx, items, plan)
	if err == nil {
		s.p.env.observer.changed(out)
	}
	return out, err
}

func (s *observedStore) Edit(
	ctx context.Context,
	items []store.Edit,
	plan store.Planner,
) ([]store.EditResult, error) {
	defer s.p.env.observer.lockEffects()()
	out, err := s.Store.Edit(ctx, items, plan)
	if err == nil {
		s.p.env.observer.edited(out)
	}
	return out, err
}

func (s *observedStore) Claim(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	won, err := s.Store.Claim(ctx, session, fires)
	s.p.env.recorder.markClaimed(won)
	for i := range won {
		s.p.env.log.printf("%s claims %s rev %d", s.p, won[i].FireID, won[i].Rev)
	}
	return won, err
}

func (s *observedStore) Release(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
	attempts []timer.Attempt,
) ([]timer.Fire, error) {
	out, err := s.Store.Release(ctx, session, fires, attempts)
	if err != nil {
		return out, err
	}
	for i := range out {
		s.p.env.log.printf(
			"%s releases %s to rev %d, run %s",
			s.p,
			out[i].FireID,
			out[i].Rev,
			stamp(out[i].RunAtMS),
		)
		s.p.env.recorder.markRecorded(s.p, out[i].FireID, out[i].Attempt)
		if out[i].State == timer.FireDeferred {
			s.p.env.deferrals.Add(1)
		}
	}
	return out, nil
}

func (s *observedStore) RecordAttempts(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
	attempts []timer.Attempt,
) ([]timer.FireID, error) {
	lost, err := s.Store.RecordAttempts(ctx, session, fires, attempts)
	if err == nil {
		gone := setOf(lost)
		for i := range fires {
			if !gone[fires[i].FireID] {
				s.p.env.recorder.markRecorded(s.p, fires[i].FireID, fires[i].Attempt)
			}
		}
	}
	return lost, err
}

func (s *observedStore) Record(
	ctx context.Context, session timer.ID, outcomes []timer.Outcome, attempts []timer.Attempt,
) (lost []timer.FireID, started []timer.Fire, err error) {
	s.p.env.recorder.markSkipped(outcomes)
	lost, started, err = s.Store.Record(ctx, session, outcomes, attempts)
	if err != nil {
		return nil, nil, err
	}
	gone := setOf(lost)
	for i := range outcomes {
		o := &outcomes[i]
		if gone[o.FireID] {
			s.p.env.log.printf("%s records %s of %s without effect", s.p, o.Kind, o.FireID)
			continue
		}
		s.p.env.log.printf("%s records %s: %s %s", s.p, o.FireID, o.Kind, o.Reason)
		s.p.env.recorder.markRecorded(s.p, o.FireID, o.Attempts)
	}
	return lost, started, nil
}

func (s *observedStore) Defer(
	ctx context.Context,
	session timer.ID,
	fires []store.Deferral,
) ([]timer.FireID, error) {
	for i := range fires {
		if fires[i].Fire.Attempt == 0 {
			s.p.env.recorder.markInactive(fires[i].Fire.FireID)
		}
	}
	active, err := s.Store.Defer(ctx, session, fires)
	if err == nil {
		still := setOf(active)
		for i := range fires {
			f := &fires[i].Fire
			s.p.env.log.printf(
				"%s defers %s: its timer is active %t",
				s.p,
				f.FireID,
				still[f.FireID],
			)
			if !still[f.FireID] {
				s.p.env.recorder.markRecorded(s.p, f.FireID, f.Attempt)
			}
		}
	}
	return active, err
}

func (s *observedStore) Overdue(
	ctx context.Context,
	q store.OverdueQuery,
) ([]timer.Fire, error) {
	out, err := s.Store.Overdue(ctx, q)
	for i := range out {
		s.p.env.log.printf(
			"%s finds overdue %s rev %d owner %d",
			s.p,
			out[i].FireID,
			out[i].Rev,
			out[i].Owner,
		)
	}
	return out, err
}

func (s *observedStore) OpenSession(ctx context.Context, begun store.Session) error {
	err := s.Store.OpenSession(ctx, begun)
	if err == nil {
		s.p.env.observer.opened(s.p, begun.ID)
	}
	return err
}

func (s *observedStore) RenewSession(
	ctx context.Context,
	id timer.ID,
	load store.Load,
) (bool, error) {
	alive, err := s.Store.RenewSession(ctx, id, load)
	if err == nil && alive {
		s.p.env.observer.renewed(id)
	}
	return alive, err
}

func (s *observedStore) ExpireSession(
	ctx context.Context,
	id timer.ID,
	renewals int64,
) (bool, error) {
	ended, err := s.Store.ExpireSession(ctx, id, renewals)
	if err == nil && ended {
		s.p.env.observer.ended(s.p, id)
	}
	return ended, err
}

func (s *observedStore) CloseSession(ctx context.Context, id timer.ID) error {
	err := s.Store.CloseSession(ctx, id)
	if err == nil {
		s.p.env.observer.closed(id)
	}
	return err
}

func (s *observedStore) AcquireSlots(
	ctx context.Context,
	session timer.ID,
	requests []store.SlotRequest,
) ([]store.SlotResult, error) {
	out, err := s.Store.AcquireSlots(ctx, session, requests)
	for i := range out {
		s.p.env.log.printf(
			"%s acquires a slot for %s: %d",
			s.p,
			requests[i].Fire.FireID,
			out[i].SlotVerdict,
		)
	}
	return out, err
}

func (s *observedStore) CatchUp(
	ctx context.Context,
	requests []store.CatchUpRequest,
) ([]bool, error) {
	s.p.env.recorder.markCatchUps(requests)
	out, err := s.Store.CatchUp(ctx, requests)
	for i := range out {
		s.p.env.log.printf(
			"%s lets %s catch up until %s: %t",
			s.p,
			requests[i].FireID,
			stamp(requests[i].ToMS),
			out[i],
		)
	}
	return out, err
}

// Now returns the simulated time, without a call.
func (s *observedStore) Now(context.Context) (time.Time, error) {
	return time.Now().Truncate(time.Millisecond), nil
}

func setOf(ids []timer.FireID) map[timer.FireID]bool {
	set := make(map[timer.FireID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
