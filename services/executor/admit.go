package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/admission"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/order"
)

const (
	storeBatchWait    = time.Millisecond
	storeBatchTimeout = 5 * time.Second
	// slotRecheckAfter is when a queued fire asks for a slot again by itself. Usually it is
	// promoted long before.
	slotRecheckAfter = time.Minute
	// replanRecheckAfter is when a fire is decided again that waits for the follow-up of an edit.
	// Hundreds of them may wait while no migrator runs, and each asks the store.
	replanRecheckAfter = 2 * time.Second
	calendarRetry      = 200 * time.Millisecond // between reads of the calendars of a successor
)

// admit decides about a due fire, with what its decision reads. It returns true if the attempt may
// start. Otherwise it has carried the verdict out.
func (s *Service) admit(e *inflight.Entry, view *timerView) bool {
	view.NowMS = s.opts.Clock.Now().UnixMilli()
	for {
		v := admission.Decide(e, &view.View)
		if v.Action != admission.Read {
			return s.carryOut(e, view, v)
		}
		mine, err := s.read(e, view, v.Need)
		if err != nil {
			s.log.Debug().Err(err).Msg("fire not decided, delayed")
			s.recheckLater(e)
			return false
		}
		if !mine {
			return false
		}
	}
}

// carryOut does what a verdict says. It returns true if the attempt may start. Otherwise the fire
// no longer belongs to this worker.
func (s *Service) carryOut(e *inflight.Entry, view *timerView, v admission.Verdict) bool {
	switch v.Action {
	case admission.Call:
		return true
	case admission.Skip:
		s.skip(e, v.Reason)
	case admission.Reject:
		s.reject(e, "the timer's definition is missing")
	case admission.GiveBack:
		s.giveBack(e, v.Err)
	case admission.Defer:
		s.deferFire(e, &view.State)
	case admission.Recheck, admission.Read:
		s.recheckLater(e)
	case admission.Wait:
		s.wheel.Add(e)
	case admission.Queue:
		s.passed(e)
		s.inflight.Remove(e) // first: its task may come back to this process
		s.opts.Dispatch.Committed(e.Epoch.Context(), []timer.Fire{view.Slot.Fire})
	case admission.Drop:
		s.inflight.Remove(e)
	case admission.Fail:
		s.asyncFailed(e)
	}
	return false
}

// read adds an answer to the view. mine is false if the fire no longer belongs to this worker.
func (s *Service) read(
	e *inflight.Entry,
	view *timerView,
	need admission.Need,
) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(e.Epoch.Context(), claimTimeout)
	defer cancel()
	switch need {
	case admission.NeedBackfill:
		var cancelled bool
		cancelled, err = s.backfills.cancelled(ctx, e.App, timer.ID(e.Fire.Series))
		view.Cancelled = admission.AnswerOf(cancelled)
	case admission.NeedNextVersion:
		view.NextVersionMS, err = s.nextVersionMS(ctx, e)
	case admission.NeedRow:
		return s.readRow(ctx, e, view)
	case admission.NeedLatest:
		var latest bool
		latest, err = s.amongLatest(ctx, e, view)
		view.Latest = admission.AnswerOf(latest)
	case admission.NeedOrder:
		var first bool
		first, err = s.inOrder(ctx, e, view)
		view.InOrder = admission.Yes
		return first, err
	case admission.NeedCatchUp:
		var run bool
		run, err = s.catchesUp(e, view.NowMS)
		view.CatchesUp = admission.AnswerOf(run)
	case admission.NeedSlot:
		var answer store.SlotResult
		answer, err = s.acquireSlot(e)
		view.Slot = &answer
	}
	return true, err
}

// nextVersionMS returns when the version after the fire's took effect, or timer.NeverMS.
func (s *Service) nextVersionMS(ctx context.Context, e *inflight.Entry) (int64, error) {
	next := store.VersionKey{Timer: e.Fire.Timer, Version: e.Fire.Version + 1}
	times, err := s.opts.Store.VersionTimes(ctx, []store.VersionKey{next})
	if err != nil {
		return 0, fmt.Errorf("reading when version %d took effect: %w", next.Version, err)
	}
	if at, ok := times[next]; ok {
		return at, nil
	}
	return timer.NeverMS, nil
}

// readRow reads whether the newer version or activation has the same due time. If so, the fire's
// row was moved to it, and the fire is called by it. An edit or activation at this moment is not
// missed. The outcome "superseded" is recorded only if the row still has the old version and epoch,
// and no follow-up of an edit is to decide about it.
//
// The follow-up moves the row before it says that it has done so. It is therefore asked first.
func (s *Service) readRow(
	ctx context.Context,
	e *inflight.Entry,
	view *timerView,
) (mine bool, err error) {
	undecided, err := s.opts.Store.Replanning(ctx, []timer.FireID{e.Fire.FireID})
	if err != nil {
		return true, fmt.Errorf("reading the replan of a timer: %w", err)
	}
	rows, err := s.opts.Store.OpenAmong(ctx, []timer.FireID{e.Fire.FireID})
	if err != nil {
		return true, fmt.Errorf("reading the row of a fire: %w", err)
	}
	if len(rows) == 0 || rows[0].Owner != e.Epoch.ID {
		s.inflight.Remove(e)
		return false, nil
	}
	view.Moved = admission.AnswerOf(
		rows[0].Version != e.Fire.Version || rows[0].Epoch != e.Fire.Epoch,
	)
	if view.Moved == admission.No {
		if len(undecided) > 0 {
			return s.anticipateReplan(ctx, e, view)
		}
		return true, nil
	}
	e.Fire, e.Def, view.NextVersionMS = rows[0], nil, 0
	if err := s.stateCache.load(ctx, []*inflight.Entry{e}); err != nil {
		return true, err
	}
	if e.Def == nil {
		return true, errors.New("the new version of the timer is missing")
	}
	return true, nil
}

// anticipateReplan lets the present version call a fire, if that has its due time, before the
// follow-up of the edit has moved its row. So the fire is on time if migrators are behind. The
// follow-up then finds the row owned or the outcome recorded, and changes neither. Any other fire
// waits for the follow-up, because the store records it as superseded only then.
func (s *Service) anticipateReplan(
	ctx context.Context,
	e *inflight.Entry,
	view *timerView,
) (mine bool, err error) {
	old, def, endpoint := e.Fire.Version, e.Def, e.Endpoint
	e.Fire.Version, e.Def = view.State.Version, nil
	has, err := s.hasDue(ctx, e, &view.State)
	againMS := view.NowMS + replanRecheckAfter.Milliseconds()
	if err == nil && has {
		if e.PlannedMS() <= view.NowMS {
			view.Moved = admission.Yes
			return true, nil
		}
		againMS = e.PlannedMS() // the new version has more jitter
	}
	if err != nil {
		s.log.Debug().Err(err).Msg("schedule of the new version not read, fire delayed")
	}
	e.Fire.Version, e.Def, e.Endpoint = old, def, endpoint
	s.recheckAt(againMS, e)
	return false, nil
}

// hasDue reports whether the fire's version has its due time. It loads the definition.
func (s *Service) hasDue(
	ctx context.Context,
	e *inflight.Entry,
	state *timer.State,
) (bool, error) {
	if err := s.stateCache.load(ctx, []*inflight.Entry{e}); err != nil {
		return false, err
	}
	if e.Def == nil {
		return false, fmt.Errorf("version %d has no definition", e.Fire.Version)
	}
	calendars, err := s.calendars.of(ctx, e.App, e.Def)
	if err != nil {
		return false, err
	}
	t := &timer.Timer{
		ID:         e.Fire.Timer,
		Version:    e.Fire.Version,
		Definition: *e.Def,
		Calendars:  calendars,
		AnchorMS:   state.AnchorMS,
	}
	dues, err := s.opts.Planner.Before(t, e.Fire.DueMS+1, e.Fire.DueMS, timer.NeverMS, 1)
	if err != nil {
		return false, fmt.Errorf("planning fire %s: %w", e.Fire.FireID, err)
	}
	return len(dues) > 0, nil
}

// catchesUp returns whether a late fire is the one that misfire policy fire_once runs.
func (s *Service) catchesUp(e *inflight.Entry, nowMS int64) (bool, error) {
	grace := time.Duration(e.Def.Misfire.For(e.Def.Schedule.Kind).Grace).Milliseconds()
	run, err := s.catchUps.Do(e.Epoch.Context(), store.CatchUpRequest{
		FireID:  e.Fire.FireID,
		ToMS:    nowMS - grace,
		GraceMS: grace,
	})
	if err != nil {
		return false, fmt.Errorf("deciding which late fire catches up: %w", err)
	}
	return run, nil
}

// amongLatest returns whether a late fire is among the latest ones that misfire policy fire_all
// runs, of those planned by the fire's version. Each executor counts from when it meets the first
// late fire. Executors that start moments apart may count slightly different backlogs.
func (s *Service) amongLatest(
	ctx context.Context,
	e *inflight.Entry,
	view *timerView,
) (bool, error) {
	if e.Def.Schedule.Kind.OneShot() {
		return true, nil
	}
	m := e.Def.Misfire.For(e.Def.Schedule.Kind)
	until := view.NowMS - m.MisfiredAfter().Milliseconds()
	if e.Fire.Version < view.State.Version {
		until = min(until, view.State.VersionMS+1)
	}
	calendars, err := s.calendars.of(ctx, e.App, e.Def)
	if err != nil {
		return false, err
	}
	run, err := s.opts.Planner.AmongLatest(&e.Fire, e.Def, calendars, until, m.MaxFires)
	if err != nil {
		s.log.Warn().
			Err(err).
			Stringer("fire", e.Fire.FireID).
			Msg("schedule not readable, late fire is called")
		return true, nil
	}
	return run, nil
}

// slotRequest asks the store for a concurrency slot, for a fire that the session owns.
type slotRequest struct {
	session timer.ID
	request store.SlotRequest
}

// acquireSlot asks for the fire's concurrency slot. After a crash behind the answer the next owner
// asks again, and gets the slot that the fire already has.
func (s *Service) acquireSlot(e *inflight.Entry) (store.SlotResult, error) {
	waiting := e.Fire
	waiting.State = timer.FireWaiting
	waiting.RunAtMS = s.opts.Clock.Now().Add(slotRecheckAfter).UnixMilli()
	waiting.Bucket = s.opts.Counts.Bucket(waiting.FireID, waiting.RunAtMinute())
	ask := store.SlotRequest{
		Fire:        waiting,
		Concurrency: e.Concurrency(),
		NowMS:       s.opts.Clock.Now().UnixMilli(),
	}
	if e.Serial() && e.Fire.Attempt == 0 {
		ask.DelayAfterEnd = time.Duration(e.Def.Schedule.Every)
	}
	answer, err := s.slots.Do(e.Epoch.Context(), slotRequest{e.Epoch.ID, ask})
	if err != nil {
		return answer, fmt.Errorf("acquiring a concurrency slot: %w", err)
	}
	return answer, nil
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

// addSuccessor adds to an outcome what its record triggers: the slot passed on, and the successor
// of a fixed delay.
func (s *Service) addSuccessor(e *inflight.Entry, o *timer.Outcome) {
	if e.Def == nil {
		return
	}
	if o.Serial = e.Concurrency().Policy != timer.ConcurrencyAllow; !e.Serial() {
		return
	}
	next, err := s.opts.Planner.Successor(&e.Fire, e.Def, s.calendarsOf(e), o.FinishedMS)
	if err != nil {
		s.log.Error().
			Err(err).
			Stringer("fire", e.Fire.FireID).
			Msg("fixed delay stopped: successor cannot be planned")
		return
	}
	o.Next = next
}

// calendarsOf retries until it succeeds: a fixed delay must not stop because the store is
// unavailable for a moment. The outcome needs the store in any case.
func (s *Service) calendarsOf(e *inflight.Entry) []timer.Calendar {
	for {
		ctx, cancel := context.WithTimeout(e.Epoch.Context(), claimTimeout)
		calendars, err := s.calendars.of(ctx, e.App, e.Def)
		cancel()
		if err == nil || e.Epoch.Context().Err() != nil {
			return calendars
		}
		s.log.Warn().
			Err(err).
			Stringer("fire", e.Fire.FireID).
			Msg("calendars not read, successor delayed")
		clock.Pause(e.Epoch.Context(), calendarRetry)
	}
}

// inOrder reports whether a late fire of fire_all may start now. Otherwise the fire waits in its
// sequence.
func (s *Service) inOrder(
	ctx context.Context,
	e *inflight.Entry,
	view *timerView,
) (bool, error) {
	if kind := e.Def.Schedule.Kind; kind != timer.KindCron && kind != timer.KindInterval {
		return true, nil // it has no other fires
	}
	calendars, err := s.calendars.of(ctx, e.App, e.Def)
	if err != nil {
		return true, err
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
		UntilMS: view.NowMS - m.MisfiredAfter().Milliseconds(),
		Limit:   m.MaxFires,
	}
	if m.CatchUpWindow > 0 {
		w.CatchUpMS = view.NowMS - time.Duration(m.CatchUpWindow).Milliseconds()
	}
	return s.order.Join(w, view.State.ActiveEpoch), nil
}
