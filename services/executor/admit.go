package executor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/admission"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/order"
)

const (
	// slotRecheckAfter is when a queued fire asks for a slot again by itself. Usually it is
	// promoted long before.
	slotRecheckAfter = time.Minute
	// requestedRecheckAfter is the same for fires that somebody requested, of which any number may
	// wait. They ask at different times within twice as long.
	requestedRecheckAfter = 10 * time.Minute
	// replanRecheckAfter is when a fire is decided again that waits for the follow-up of an edit.
	// Hundreds of them may wait while no migrator runs, and each asks the store.
	replanRecheckAfter = 2 * time.Second
)

// admit decides about a due fire by what is known. Unless it returns goes, it has carried the
// verdict out or asked for what is missing.
func (s *Service) admit(c *candidate) progress {
	e, view := c.entry, &c.view
	if view.NowMS == 0 {
		view.NowMS = s.opts.Clock.Now().UnixMilli()
	}
	for {
		if c.moved {
			if p := s.loadMoved(c); p != goes {
				return p
			}
		}
		v := admission.Decide(e, &view.View)
		if v.Action == admission.Call {
			return goes
		}
		if v.Action != admission.Read {
			s.carryOut(e, view, v)
			return over
		}
		if p := s.read(c, v.Need); p != goes {
			return p
		}
	}
}

// carryOut does what a verdict says. The fire then no longer belongs to the caller.
func (s *Service) carryOut(e *inflight.Entry, view *timerView, v admission.Verdict) {
	switch v.Action {
	case admission.Call: // only admit starts it
	case admission.Skip:
		s.deliverer.Skip(e, v.Reason)
	case admission.Reject:
		s.deliverer.Reject(e, "the timer's definition is missing")
	case admission.GiveBack:
		s.giveBack(e, v.Err)
	case admission.Defer:
		s.deferFire(e, &view.State)
	case admission.Recheck, admission.Read:
		s.recheckLater(e)
	case admission.Wait:
		s.wheel.Add(e)
	case admission.Queue:
		s.order.Leave(e)
		s.inflight.Remove(e) // first: its task may come back to this process
		s.dispatch(e, view.Slot.Fire)
	case admission.Drop:
		s.inflight.Remove(e)
	case admission.Fail:
		s.deliverer.AsyncFailed(e)
	}
}

// read adds an answer to the view, or asks for it.
func (s *Service) read(c *candidate, need admission.Need) progress {
	e, view := c.entry, &c.view
	switch need {
	case admission.NeedBackfill:
		id := timer.ID(e.Fire.Series)
		if cancelled, ok := s.cache.Backfills.Known(id); ok {
			view.Cancelled = admission.AnswerOf(cancelled)
			return goes
		}
		return ask(s, s.lookups.backfills, c, cache.BackfillQuestion{App: e.App, ID: id},
			func(cancelled bool, _ time.Time) { view.Cancelled = admission.AnswerOf(cancelled) })
	case admission.NeedNextVersion:
		next := store.VersionKey{Timer: e.Fire.Timer, Version: e.Fire.Version + 1}
		return ask(s, s.lookups.nextVersions, c, next,
			func(atMS int64, _ time.Time) { view.NextVersionMS = atMS })
	case admission.NeedRow:
		return s.readRow(c)
	case admission.NeedLatest:
		return s.amongLatest(c)
	case admission.NeedOrder:
		return s.inOrder(c)
	case admission.NeedCatchUp:
		// whether a late fire is the one that misfire policy fire_once runs
		grace := time.Duration(e.Def.Misfire.For(e.Def.Schedule.Kind).Grace).Milliseconds()
		return ask(s, s.lookups.catchUps, c, store.CatchUpRequest{
			FireID:    e.Fire.FireID,
			PlannedMS: e.PlannedMS(),
			ToMS:      view.NowMS - grace,
			GraceMS:   grace,
		}, func(run bool, _ time.Time) { view.CatchesUp = admission.AnswerOf(run) })
	case admission.NeedSuccessor:
		calendars, p := s.calendarsOf(c, e.Def)
		if p != goes {
			return p
		}
		_, view.FollowsErr = s.opts.Planner.Successor(&e.Fire, e.Def, calendars, view.NowMS)
		view.Follows = admission.AnswerOf(view.FollowsErr == nil)
		return goes
	case admission.NeedSlot:
		return ask(s, s.lookups.slots, c, s.slotRequestOf(e),
			func(answer store.SlotResult, _ time.Time) { view.Slot = &answer })
	}
	s.recheckLater(e)
	return over
}

// readRow reads whether the newer version or activation has the same due time. If so, the fire's
// row was moved to it, and the fire is called by it. An edit or activation at this moment is not
// missed. The outcome "superseded" is recorded only if the row still has the old version and epoch,
// and no follow-up of an edit is to decide about it.
func (s *Service) readRow(c *candidate) progress {
	e, view := c.entry, &c.view
	if c.row == nil {
		return ask(s, s.lookups.rows, c, e.Fire.FireID,
			func(row rowAnswer, _ time.Time) { c.row = &row })
	}
	row := &c.row.fire
	switch {
	case !c.row.open || row.Owner != e.Epoch.ID:
		s.inflight.Remove(e)
		return over
	case row.Version != e.Fire.Version || row.Epoch != e.Fire.Epoch:
		e.Fire, e.Def, e.Endpoint, view.NextVersionMS = *row, nil, "", 0
		view.Follows, view.FollowsErr = admission.Unknown, nil
		e.Fire.Version, _ = admission.VersionOf(&e.Fire, &view.State)
		view.Moved, c.moved = admission.Yes, true
		return goes
	case c.row.undecided:
		return s.anticipateReplan(c)
	}
	view.Moved = admission.No
	return goes
}

// loadMoved loads the definition of a fire whose row was moved to another version.
func (s *Service) loadMoved(c *candidate) progress {
	d, p := s.definitionOf(c, c.entry.VersionKey())
	switch {
	case p != goes:
		return p
	case d == nil:
		s.log.Debug().Func(s.traces.About(c.entry)).
			Msg("new version of the timer is missing, fire delayed")
		s.recheckLater(c.entry)
		return over
	}
	s.define(c.entry, d)
	c.moved = false
	return goes
}

// anticipateReplan lets the present version call a fire, if that has its due time, before the
// follow-up of the edit has moved its row. So the fire is on time if migrators are behind. The
// follow-up then finds the row owned or the outcome recorded, and changes neither. Any other fire
// waits for the follow-up, because the store records it as superseded only then.
func (s *Service) anticipateReplan(c *candidate) progress {
	e, view := c.entry, &c.view
	d, p := s.definitionOf(c, store.VersionKey{Timer: e.Fire.Timer, Version: view.State.Version})
	if p != goes {
		return p
	}
	againMS := view.NowMS + replanRecheckAfter.Milliseconds()
	if d != nil {
		calendars, p := s.calendarsOf(c, d.Definition)
		if p != goes {
			return p
		}
		old, def, endpoint := e.Fire.Version, e.Def, e.Endpoint
		e.Fire.Version, e.Def, e.Endpoint = view.State.Version, d.Definition, d.Endpoint
		if s.hasDue(e, calendars, &view.State) {
			if e.PlannedMS() <= view.NowMS {
				view.Moved = admission.Yes
				return goes
			}
			againMS = e.PlannedMS() // the new version has more jitter
		}
		e.Fire.Version, e.Def, e.Endpoint = old, def, endpoint
	}
	s.recheckAt(againMS, e)
	return over
}

// hasDue reports whether the fire's version has its due time.
func (s *Service) hasDue(e *inflight.Entry, calendars []timer.Calendar, state *timer.State) bool {
	t := &timer.Timer{
		ID:         e.Fire.Timer,
		Version:    e.Fire.Version,
		Definition: *e.Def,
		Calendars:  calendars,
		AnchorMS:   state.AnchorMS,
	}
	dues, err := s.opts.Planner.Before(t, e.Fire.DueMS+1, e.Fire.DueMS, 0, timer.NeverMS, 1)
	if err != nil {
		s.log.Debug().Func(s.traces.About(e)).
			Err(err).
			Msg("schedule of the new version not read, fire delayed")
	}
	return err == nil && len(dues) > 0
}

// amongLatest finds whether a late fire is among the latest ones that misfire policy fire_all runs,
// of those planned by the fire's version. Each executor counts from when it meets the first late
// fire. Executors that start moments apart may count slightly different backlogs.
func (s *Service) amongLatest(c *candidate) progress {
	e, view := c.entry, &c.view
	if e.Def.Schedule.Kind.OneShot() {
		view.Latest = admission.Yes
		return goes
	}
	calendars, p := s.calendarsOf(c, e.Def)
	if p != goes {
		return p
	}
	inactive, p := s.inactivitiesOf(c, &view.State)
	if p != goes {
		return p
	}
	m := e.Def.Misfire.For(e.Def.Schedule.Kind)
	backlog := expansion.Backlog{
		Inactive:    inactive,
		SinceMS:     heldSince(e, inactive),
		UntilMS:     view.NowMS - m.MisfiredAfter().Milliseconds(),
		DueBeforeMS: timer.NeverMS,
		AnchorMS:    view.State.AnchorMS,
	}
	if e.Fire.Version < view.State.Version {
		backlog.DueBeforeMS = view.State.VersionMS + 1
	}
	run, err := s.opts.Planner.AmongLatest(&e.Fire, e.Def, calendars, &backlog, m.MaxFires)
	if err != nil {
		s.log.Warn().Func(s.traces.About(e)).
			Err(err).
			Msg("schedule not readable, late fire is called")
		run = true
	}
	view.Latest = admission.AnswerOf(run)
	return goes
}

// heldSince returns the beginning of the inactive period in which a fire was planned, or 0.
func heldSince(e *inflight.Entry, inactive []timer.Inactivity) int64 {
	planned := e.PlannedMS()
	for _, i := range inactive {
		if i.Covers(planned) {
			return i.FromMS
		}
	}
	return 0
}

// slotRequest asks the store for a concurrency slot, for a fire that the session owns.
type slotRequest struct {
	session timer.ID
	request store.SlotRequest
}

func recheckSlotAfter(e *inflight.Entry) time.Duration {
	if e.Fire.Series == 0 {
		return slotRecheckAfter
	}
	return requestedRecheckAfter + rand.N(requestedRecheckAfter)
}

// slotRequestOf asks for the fire's concurrency slot. After a crash behind the answer the next owner
// asks again, and gets the slot that the fire already has.
func (s *Service) slotRequestOf(e *inflight.Entry) slotRequest {
	waiting := e.Fire
	now := s.opts.Clock.Now()
	waiting.State = timer.FireWaiting
	if e.DeferredSince(timer.WaitTurn) == 0 {
		waiting.WaitedFor, waiting.WaitingSinceMS = timer.WaitTurn, now.UnixMilli()
	}
	waiting.RunAtMS = now.Add(recheckSlotAfter(e)).UnixMilli()
	waiting.Bucket = s.opts.Counts.Bucket(waiting.FireID, waiting.RunAtMinute())
	r := store.SlotRequest{
		Fire:        waiting,
		Concurrency: e.Concurrency(),
		NowMS:       now.UnixMilli(),
	}
	if e.Serial() && e.Fire.Attempt == 0 {
		r.DelayAfterEnd = time.Duration(e.Def.Schedule.Every)
	}
	return slotRequest{e.Epoch.ID, r}
}

// acquireSlots sends requests to the store, grouped by session. There are several sessions only
// just after one has expired.
func (s *Service) acquireSlots(
	ctx context.Context,
	asks []slotRequest,
) ([]store.SlotResult, error) {
	out := make([]store.SlotResult, len(asks))
	by := make(map[timer.ID][]int, 1)
	for i, a := range asks {
		by[a.session] = append(by[a.session], i)
	}
	for session, places := range by {
		requests := make([]store.SlotRequest, len(places))
		for n, i := range places {
			requests[n] = asks[i].request
		}
		answers, err := s.opts.Store.AcquireSlots(ctx, session, requests)
		if err != nil {
			return nil, fmt.Errorf("acquiring concurrency slots: %w", err)
		}
		for n, i := range places {
			out[i] = answers[n]
		}
	}
	return out, nil
}

// inOrder finds whether a late fire of fire_all may start now. Otherwise the fire waits in its
// sequence.
func (s *Service) inOrder(c *candidate) progress {
	e, view := c.entry, &c.view
	if !e.Def.Schedule.Kind.Repeats() {
		view.InOrder = admission.Yes // it has no other fires
		return goes
	}
	calendars, p := s.calendarsOf(c, e.Def)
	if p != goes {
		return p
	}
	inactive, p := s.inactivitiesOf(c, &view.State)
	if p != goes {
		return p
	}
	m := e.Def.Misfire.For(e.Def.Schedule.Kind)
	t := &timer.Timer{
		ID:         e.Fire.Timer,
		AppID:      e.Fire.AppID,
		Version:    e.Fire.Version,
		Definition: *e.Def,
		Calendars:  calendars,
		AnchorMS:   view.State.AnchorMS,
	}
	w := &order.LateFire{
		Entry:   e,
		Timer:   t,
		SinceMS: heldSince(e, inactive),
		UntilMS: view.NowMS - m.MisfiredAfter().Milliseconds(),
		Limit:   m.MaxFires,
		// The timer is due again, as its pause has ended, but no activation is stored yet.
		Deferred: view.State.Status != timer.StatusActive,
	}
	if m.CatchUpWindow > 0 {
		w.CatchUpMS = view.NowMS - time.Duration(m.CatchUpWindow).Milliseconds()
	}
	e.WaitFor(timer.WaitOrder, s.opts.Clock.Now().UnixMilli())
	if !s.order.Join(w, view.State.ActiveEpoch) {
		return over
	}
	view.InOrder = admission.Yes
	return goes
}
