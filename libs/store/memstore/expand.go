package memstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// planRetryDelay postpones a timer whose plan failed without naming a later instant.
const planRetryDelay = time.Minute

var errBadPlan = errors.New("the plan moves back, repeats a fire, or is for another timer")

// activate activates a timer from now on, or from the end of its pause, and plans its first fires.
func (s *Store) activate(t *row, plan store.Planner, nowMS int64) []timer.Fire {
	sinceMS, undecidedMS := nowMS, t.undecidedSince()
	if t.pauseIsOver(nowMS) {
		sinceMS = max(t.PausedUntilMS, t.InactiveSinceMS)
	}
	t.endStretch(sinceMS)
	t.Status, t.ActiveSinceMS, t.UpdatedMS, t.InactiveSinceMS = timer.StatusActive, sinceMS, nowMS, 0
	t.ActiveEpoch++
	t.PauseReason, t.PausedUntilMS = "", 0
	if t.AnchorMS == 0 {
		t.AnchorMS = nowMS
	}
	if t.Definition.Schedule.Kind == timer.KindFixedDelay && t.NextDueMS != 0 &&
		(t.NextDueMS == timer.NeverMS || t.NextDueMS <= sinceMS) {
		// Each activation begins a new chain, after all fires of the one before.
		t.NextDueMS = sinceMS + 1
	}
	released := s.releaseDeferred(t)
	s.endChain(t, nowMS)
	if t.Definition.Schedule.Kind == timer.KindFixedDelay {
		t.chainBeforeMS, t.LastDueMS = t.LastDueMS, 0
	}
	fires := s.proceedFrom(t, plan, nowMS, undecidedMS)
	t.chainBeforeMS = 0
	return append(fires, released...)
}

// undecidedSince returns since when the timer has not been active. A pause that was changed has
// several stretches.
func (t *row) undecidedSince() int64 {
	for _, i := range t.inactive {
		if i.FromMS >= t.ActiveSinceMS {
			return i.FromMS
		}
	}
	return t.InactiveSinceMS
}

// endChain ends the fire that the chain before this activation of a fixed delay had ahead, so that
// it does not count towards max_fires.
func (s *Store) endChain(t *row, nowMS int64) {
	f := s.fires[timer.FireID{Timer: t.ID, DueMS: t.LastDueMS}]
	if sch := &t.Definition.Schedule; sch.Kind != timer.KindFixedDelay || sch.MaxFires == 0 ||
		t.LastDueMS <= t.ActiveSinceMS || f == nil || f.Owner != 0 || f.Attempt != 0 ||
		f.State != timer.FireReady || f.Epoch >= t.ActiveEpoch {
		return
	}
	o := &timer.Outcome{
		Fire:       *f,
		Kind:       timer.Skipped,
		Reason:     timer.ReasonSuperseded,
		FinishedMS: nowMS,
		UntilMS:    f.DueMS,
		Count:      1,
	}
	s.finish(f, o, store.SystemSession)
	t.FiresCreated = max(0, t.FiresCreated-1)
}

// proceed plans the next part of an active timer, and replans it if Replan is set.
func (s *Store) proceed(t *row, plan store.Planner, nowMS int64) []timer.Fire {
	return s.proceedFrom(t, plan, nowMS, nowMS+1)
}

// proceedFrom is proceed. A one-shot without a fire has missed its instant if that was before
// undecidedMS.
func (s *Store) proceedFrom(
	t *row,
	plan store.Planner,
	nowMS, undecidedMS int64,
) []timer.Fire {
	was, wasPlan := t.Timer, t.planVersion
	var openUntilMS int64
	t.Replan = false
	if was.Replan && t.replanCalendar && t.NextDueMS > nowMS+1 {
		if t.NextDueMS == timer.NeverMS && t.Definition.Schedule.Kind.OneShot() &&
			len(s.ahead(t, nowMS)) == 0 && !store.NewlyDue(&t.Timer, undecidedMS, plan) {
			// it was due before, and is not due again; a fire may have been added, see keep
			t.replanCalendar, t.ExpandAtMS = false, nowMS+store.AddedFireRetention.Milliseconds()
			s.expandMS = min(s.expandMS, t.ExpandAtMS)
			return nil
		}
		ahead := s.ahead(t, nowMS)
		openUntilMS = t.LastDueMS + 1
		s.takeBack(t, nowMS)
		if t.Definition.Schedule.Kind == timer.KindFixedDelay &&
			len(ahead) > 0 { // the delay goes on
			t.NextDueMS = store.DelayBefore(&t.Timer, lastDue(ahead), nowMS, true)
		}
		t.LastDueMS = 0
		t.versions[t.Version+1] = t.Definition
		t.versionSinceMS[t.Version+1] = nowMS
		t.Version++
		t.VersionMS, t.UpdatedMS, t.planVersion = nowMS, nowMS, t.Version
		t.planVersions[t.Version] = t.planVersion
	}
	fires, ok := s.expand(t, plan, nowMS)
	switch {
	case ok:
		t.replanCalendar = false
		fires = append(fires, s.planRest(t, plan, nowMS, openUntilMS)...)
	case was.Replan:
		delete(t.versions, was.Version+1)
		was.ExpandAtMS = t.ExpandAtMS
		t.Timer, t.planVersion = was, wasPlan
	}
	return fires
}

// ahead returns the open fires of a timer's schedule that are due later than now, without those
// that an edit took back.
func (s *Store) ahead(t *row, nowMS int64) (open []*timer.Fire) {
	for id, f := range s.fires {
		_, deferred := t.deferred[id]
		if id.Timer == t.ID && id.Series == 0 &&
			(id.DueMS > nowMS || deferred && t.Definition.Schedule.Kind.OneShot()) &&
			id.DueMS < t.NextDueMS &&
			f.Version >= t.planVersion && !t.chainBefore(f) {
			open = append(open, f)
		}
	}
	return open
}

// lastDue returns the latest due instant of fires.
func lastDue(fires []*timer.Fire) (ms int64) {
	for _, f := range fires {
		ms = max(ms, f.DueMS)
	}
	return ms
}

// takeBack sets the expansion back to now.
func (s *Store) takeBack(t *row, nowMS int64) {
	if t.NextDueMS > nowMS+1 {
		t.FiresCreated = max(0, t.FiresCreated-int64(len(s.ahead(t, nowMS))))
		t.NextDueMS = nowMS + 1
	}
}

// expand plans the next part of a timer and inserts its fires.
func (s *Store) expand(t *row, plan store.Planner, nowMS int64) (fires []timer.Fire, ok bool) {
	p := planNext(t, plan, nowMS)
	if p.Err != nil {
		t.ExpandAtMS = p.ExpandAtMS
		if t.ExpandAtMS <= nowMS {
			t.ExpandAtMS = nowMS + planRetryDelay.Milliseconds()
		}
		s.expandMS = min(s.expandMS, t.ExpandAtMS)
		return nil, false
	}
	fires = s.addPlan(t, &p, nowMS)
	s.expandMS = min(s.expandMS, t.ExpandAtMS)
	return fires, true
}

// addPlan advances a timer past a plan and writes the plan. It returns the fires for the window.
func (s *Store) addPlan(t *row, p *store.Plan, nowMS int64) (forWindow []timer.Fire) {
	t.NextDueMS, t.ExpandAtMS = p.NextDueMS, p.ExpandAtMS
	for i := range p.Skips {
		o := &p.Skips[i]
		o.AppID, o.Version, o.Epoch, o.Kind, o.FinishedMS = t.AppID, t.Version, t.ActiveEpoch, timer.Skipped, nowMS
		s.add(asStored(*o, store.SystemSession))
	}
	for i := range p.Fires {
		f := &p.Fires[i]
		t.LastDueMS = max(t.LastDueMS, f.DueMS)
		s.withdraw(t, f.FireID)
		_, done := s.ended[f.FireID]
		switch row := s.fires[f.FireID]; {
		case done:
			continue
		case row == nil:
			s.insert(f)
			forWindow = append(forWindow, *f)
		default:
			counted := row.Epoch < f.Epoch && row.DueMS == t.chainBeforeMS
			if s.move(row, f) {
				forWindow = append(forWindow, *row)
			}
			if counted {
				continue
			}
		}
		t.FiresCreated++
	}
	return forWindow
}

// withdraw deletes the outcome of a fire of a one-shot or fixed delay that was ended as superseded before
// it was due, by the store or by an executor without a call, and that the plan or the chain has
// again.
func (s *Store) withdraw(t *row, id timer.FireID) {
	by, done := s.ended[id]
	if t.Definition.Schedule.Kind.Repeats() || !done {
		return
	}
	ended := func(o timer.Outcome) bool {
		return o.FireID == id && o.Reason == timer.ReasonSuperseded && o.FinishedMS < o.DueMS &&
			(o.Attempts == 0 || by == store.SystemSession)
	}
	if !slices.ContainsFunc(s.outcomes[t.ID], ended) {
		return
	}
	delete(s.ended, id)
	for _, all := range []map[timer.ID][]timer.Outcome{s.outcomes, s.bySession} {
		for by, outcomes := range all {
			all[by] = slices.DeleteFunc(outcomes, ended)
		}
	}
}

// move gives an open fire of an older version or epoch the planned one. It reports whether the fire
// needs a new entry in the window. A fire with an owner keeps its run_at.
func (s *Store) move(row, planned *timer.Fire) bool {
	if row.Version >= planned.Version && row.Epoch >= planned.Epoch {
		return false
	}
	row.Version, row.Epoch, row.PriorityLevel = planned.Version, planned.Epoch, planned.PriorityLevel
	if row.Owner != 0 || row.State != timer.FireReady || row.RunAtMS == planned.RunAtMS {
		return false
	}
	s.remove(row)
	row.RunAtMS, row.Bucket = planned.RunAtMS, planned.Bucket
	row.Rev++
	s.insert(row)
	return true
}

// expandPast expands what came due while the timer was active and was not expanded yet.
func (s *Store) expandPast(t *row, plan store.Planner, nowMS int64) (fires []timer.Fire) {
	for t.NextDueMS <= nowMS {
		p := planNext(t, plan, nowMS)
		if p.Err != nil {
			if rest := store.Unplanned(&t.Timer, nowMS); rest != nil {
				p = store.Plan{Skips: rest, NextDueMS: nowMS + 1, ExpandAtMS: t.ExpandAtMS}
				s.addPlan(t, &p, nowMS)
			}
			break
		}
		cutPlan(&p, nowMS)
		fires = append(fires, s.addPlan(t, &p, nowMS)...)
		if len(p.Fires)+len(p.Skips) == 0 {
			break
		}
	}
	return fires
}

// checkPlan verifies that no due instant of a timer is planned twice.
func checkPlan(t *timer.Timer, p *store.Plan) error {
	slices.SortFunc(p.Fires, timer.CompareFires)
	slices.SortFunc(p.Skips, func(a, b timer.Outcome) int { return cmp.Compare(a.DueMS, b.DueMS) })
	type stretch struct{ from, to int64 }
	var all []stretch
	for i := range p.Fires {
		f := &p.Fires[i]
		if f.Timer != t.ID || f.Series != 0 {
			return errBadPlan
		}
		f.AppID, f.Version, f.Epoch, f.Rev, f.Owner, f.TargetBits = t.AppID, t.Version, t.ActiveEpoch, 0, 0, 0
		all = append(all, stretch{f.DueMS, f.DueMS})
	}
	for i := range p.Skips {
		o := &p.Skips[i]
		if o.Timer != t.ID || o.Series != 0 || o.UntilMS < o.DueMS || o.Count < 1 {
			return errBadPlan
		}
		all = append(all, stretch{o.DueMS, o.UntilMS})
	}
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	last := t.NextDueMS - 1
	for _, x := range all {
		if x.from <= last {
			return errBadPlan
		}
		last = x.to
	}
	if p.NextDueMS < t.NextDueMS || len(all) > 0 && last >= p.NextDueMS {
		return errBadPlan
	}
	return nil
}

// dueForExpansion returns the timers that are due for expansion, or whose pause has ended, earliest
// first.
func (s *Store) dueForExpansion(nowMS int64) (ts []*row) {
	if nowMS < s.expandMS {
		return nil
	}
	s.expandMS = timer.NeverMS
	for _, t := range s.rows {
		if t.Status != timer.StatusActive && t.Status != timer.StatusPaused {
			continue
		}
		s.expandMS = min(s.expandMS, t.ExpandAtMS)
		if t.ExpandAtMS <= nowMS {
			ts = append(ts, t)
		}
	}
	slices.SortStableFunc(
		ts,
		func(a, b *row) int { return cmp.Compare(a.ExpandAtMS, b.ExpandAtMS) },
	)
	return ts
}

// inTurns returns up to limit timers, the longest due and the latest.
func inTurns(ts []*row, limit int) []*row {
	if len(ts) <= limit {
		return ts
	}
	return slices.Delete(ts, (limit+1)/2, len(ts)-limit/2)
}

// Expand plans timers one by one.
func (s *Store) Expand(
	_ context.Context,
	limit int,
	plan store.Planner,
) (fires []timer.Fire, n int, err error) {
	defer s.lock()()
	nowMS := s.nowMS()
	var paused, active []*row
	for _, t := range s.dueForExpansion(nowMS) {
		if t.Status == timer.StatusPaused {
			paused = append(paused, t)
		} else {
			active = append(active, t)
		}
	}
	paused = inTurns(paused, (limit+1)/2)
	ts := slices.Concat(paused, inTurns(active, limit-len(paused)))
	for _, t := range ts {
		fires = append(fires, s.expandOne(t, plan, nowMS)...)
	}
	return fires, len(ts), nil
}

// DueWork says what is due.
func (s *Store) DueWork(context.Context) (store.DueWork, error) {
	defer s.lock()()
	nowMS := s.nowMS()
	return store.DueWork{
		Timers:    len(s.dueForExpansion(nowMS)) > 0,
		Replans:   s.dueReplan(nowMS) != nil,
		Backfills: len(s.dueBackfills(nowMS)) > 0,
		Jobs:      len(s.dueJobs(nowMS)) > 0,
	}, nil
}

// ExpandBacklog counts the timers that Expand would take.
func (s *Store) ExpandBacklog(_ context.Context, limit int) (n int, oldestMS int64, err error) {
	defer s.lock()()
	ts := s.dueForExpansion(s.nowMS())
	if len(ts) == 0 {
		return 0, 0, nil
	}
	return min(len(ts), limit), ts[0].ExpandAtMS, nil
}
