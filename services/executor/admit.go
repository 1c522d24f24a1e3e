package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/order"
)

const (
	storeBatchWait    = time.Millisecond
	storeBatchTimeout = 5 * time.Second
	// slotRecheckAfter is when a queued fire asks for a slot again by itself. Usually it is
	// promoted long before.
	slotRecheckAfter = time.Minute
	calendarRetry    = 200 * time.Millisecond // between reads of the calendars of a successor
)

// admit makes the checks after the timer's status, just before an attempt: version, lateness, and
// concurrency with other fires. It returns true if the attempt may start. Otherwise it has passed
// the fire on.
func (s *Service) admit(e *inflight.Entry, state *timer.State) bool {
	if e.Fire.Cause == timer.CauseBackfill && !s.backfillActive(e) {
		return false
	}
	first := e.Fire.Attempt == 0
	if e.Fire.Series == 0 && first && state.Status != timer.StatusActive &&
		(e.Serial() || e.Fire.Version < state.Version) {
		// The pause is over, but the activation is not recorded yet. The activation replans edits
		// made meanwhile and starts a new serial of a fixed delay. Until then superseded fires
		// cannot be told.
		s.recheckLater(e)
		return false
	}
	if e.Fire.Series == 0 && first &&
		(e.Fire.Version < state.Version || e.Fire.Epoch < state.ActiveEpoch) {
		over, err := s.superseded(e, state)
		if err != nil {
			s.log.Debug().Err(err).Msg("versions of the timer not read, fire delayed")
			s.recheckLater(e)
			return false
		}
		if over && !s.adoptNewVersion(e, state) {
			return false
		}
	}
	if first && e.Fire.Series == 0 && !s.passesMisfirePolicy(e, state) {
		return false
	}
	return e.Concurrency().Policy == timer.ConcurrencyAllow || s.acquireSlot(e)
}

// backfillActive reports whether the fire's backfill is not cancelled. Otherwise it has skipped or
// delayed the fire.
func (s *Service) backfillActive(e *inflight.Entry) bool {
	ctx, cancel := context.WithTimeout(e.Epoch.Context(), claimTimeout)
	defer cancel()
	cancelled, err := s.backfills.cancelled(ctx, e.App, timer.ID(e.Fire.Series))
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("backfill not read, fire delayed")
		s.recheckLater(e)
	case cancelled:
		s.skip(e, timer.ReasonCancelled)
	default:
		return true
	}
	return false
}

// superseded reports whether a newer version than the fire's was in effect when the fire was due.
// Usually the newer version is the current one; otherwise the store knows when the fire's next
// version came. Each activation of a fixed delay starts a new serial and supersedes the fires of
// the old one, whatever their due time.
func (s *Service) superseded(e *inflight.Entry, state *timer.State) (bool, error) {
	if e.Serial() && e.Fire.Epoch < state.ActiveEpoch {
		return true, nil
	}
	if e.Fire.Version >= state.Version {
		return false, nil
	}
	due := max(e.Fire.DueMS, e.DueFromMS)
	if due > state.VersionMS || e.Fire.Version+1 == state.Version {
		return due > state.VersionMS, nil
	}
	ctx, cancel := context.WithTimeout(e.Epoch.Context(), claimTimeout)
	defer cancel()
	next := store.VersionKey{Timer: e.Fire.Timer, Version: e.Fire.Version + 1}
	times, err := s.opts.Store.VersionTimes(ctx, []store.VersionKey{next})
	if err != nil {
		return false, fmt.Errorf("reading when version %d took effect: %w", next.Version, err)
	}
	at, ok := times[next]
	return ok && due > at, nil
}

// adoptNewVersion checks whether the newer version or activation has the same due time. If so, the
// fire's row was moved to it, and the fire is called by it. An edit or activation at this moment is
// not missed. The outcome "superseded" is recorded only if the row still has the old version and
// epoch.
func (s *Service) adoptNewVersion(e *inflight.Entry, state *timer.State) bool {
	ctx, cancel := context.WithTimeout(e.Epoch.Context(), claimTimeout)
	defer cancel()
	// Claiming an owned fire changes nothing and returns its stored row.
	now, err := s.opts.Store.Claim(ctx, e.Epoch.ID, []timer.Fire{e.Fire})
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("version of the fire not read, fire delayed")
		s.recheckLater(e)
		return false
	case len(now) == 0:
		s.inflight.Remove(e) // no longer owned
		return false
	case now[0].Version == e.Fire.Version && now[0].Epoch == e.Fire.Epoch:
		s.skip(e, timer.ReasonSuperseded)
		return false
	}
	e.Fire, e.Def = now[0], nil
	if err := s.stateCache.load(ctx, []*inflight.Entry{e}); err != nil || e.Def == nil {
		s.log.Debug().Err(err).Msg("new version of the timer not read, fire delayed")
		s.recheckLater(e)
		return false
	}
	// edited twice meanwhile: decide again
	if over, err := s.superseded(e, state); err != nil || over {
		s.recheckLater(e)
		return false
	}
	if err := checkKnown(&e.Fire, e.Def); err != nil {
		s.giveBack(e, err)
		return false
	}
	if e.Fire.RunAtMS > s.opts.Clock.Now().UnixMilli() {
		s.wheel.Add(e)
		return false
	}
	return true
}

// passesMisfirePolicy reports whether a late fire's first attempt may start. The misfire policy
// does not apply to a fire whose run time was moved, or that waited here for a limit, a slot or
// earlier fires.
func (s *Service) passesMisfirePolicy(e *inflight.Entry, state *timer.State) bool {
	m := e.Def.Misfire.For(e.Def.Schedule.Kind)
	planned, now := e.PlannedMS(), s.opts.Clock.Now().UnixMilli()
	late := time.Duration(now-planned) * time.Millisecond
	if e.Ordered || e.WasLimited() || e.Fire.RunAtMS != planned || late <= m.MisfiredAfter() {
		return true
	}
	if m.CatchUpWindow > 0 && late > time.Duration(m.CatchUpWindow) {
		s.skip(e, timer.ReasonMisfired)
		return false
	}
	switch m.Policy { // checkKnown knows them all
	case timer.MisfireSkip:
		s.skip(e, timer.ReasonMisfired)
	case timer.MisfireFireAll:
		return s.amongLatest(e, state, &m, now) && s.inOrder(e, state, &m, now)
	case timer.MisfireFireOnce:
		return s.catchesUp(e, &m, now)
	}
	return false
}

// catchesUp reports whether a late fire is the one that misfire policy fire_once runs.
func (s *Service) catchesUp(e *inflight.Entry, m *timer.Misfire, now int64) bool {
	run, err := s.catchUps.Do(e.Epoch.Context(), store.CatchUpRequest{
		FireID:  e.Fire.FireID,
		ToMS:    now - time.Duration(m.Grace).Milliseconds(),
		GraceMS: time.Duration(m.Grace).Milliseconds(),
	})
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("misfire policy not decided, fire delayed")
		s.recheckLater(e)
	case !run:
		s.skip(e, timer.ReasonMisfired)
	default:
		return true
	}
	return false
}

// amongLatest reports whether a late fire is among the latest ones that misfire policy fire_all
// runs, of those planned by the fire's version. Each executor counts from when it meets the first
// late fire. Executors that start moments apart may count slightly different backlogs.
func (s *Service) amongLatest(
	e *inflight.Entry,
	state *timer.State,
	m *timer.Misfire,
	nowMS int64,
) bool {
	if e.Def.Schedule.Kind.OneShot() {
		return true
	}
	until := nowMS - m.MisfiredAfter().Milliseconds()
	if e.Fire.Version < state.Version {
		until = min(until, state.VersionMS+1)
	}
	ctx, cancel := context.WithTimeout(e.Epoch.Context(), claimTimeout)
	defer cancel()
	calendars, err := s.calendars.of(ctx, e.App, e.Def)
	if err != nil {
		s.log.Debug().Err(err).Msg("calendars of a late fire not read, fire delayed")
		s.recheckLater(e)
		return false
	}
	run, err := s.opts.Planner.AmongLatest(&e.Fire, e.Def, calendars, until, m.MaxFires)
	if err != nil {
		s.log.Warn().
			Err(err).
			Stringer("fire", e.Fire.FireID).
			Msg("schedule not readable, late fire is called")
		return true
	}
	if !run {
		s.skip(e, timer.ReasonMisfired)
	}
	return run
}

// slotRequest asks the store for a concurrency slot, for a fire that the session owns.
type slotRequest struct {
	session timer.ID
	request store.SlotRequest
}

// acquireSlot asks for the fire's concurrency slot. After a crash behind the answer the next owner
// asks again, and gets the slot that the fire already has.
func (s *Service) acquireSlot(e *inflight.Entry) bool {
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
		s.log.Debug().Err(err).Msg("concurrency slot not acquired, fire delayed")
		s.recheckLater(e)
		return false
	}
	switch answer.SlotVerdict {
	case store.SlotGranted:
		return true
	case store.SlotQueued:
		s.passed(e)
		s.inflight.Remove(e) // first: its task may come back to this process
		s.opts.Dispatch.Committed(e.Epoch.Context(), []timer.Fire{answer.Fire})
	case store.SlotSkipped:
		s.skip(e, timer.ReasonOverlap)
	case store.SlotQueueFull:
		s.skip(e, timer.ReasonQueueFull)
	case store.SlotReplaced:
		s.skip(e, timer.ReasonCancelled)
	case store.SlotNotOwned:
		s.inflight.Remove(e)
	}
	return false
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
	e *inflight.Entry,
	state *timer.State,
	m *timer.Misfire,
	nowMS int64,
) bool {
	if kind := e.Def.Schedule.Kind; kind != timer.KindCron && kind != timer.KindInterval {
		return true // it has no other fires
	}
	ctx, cancel := context.WithTimeout(e.Epoch.Context(), claimTimeout)
	defer cancel()
	calendars, err := s.calendars.of(ctx, e.App, e.Def)
	if err != nil {
		s.log.Debug().Err(err).Msg("calendars of a late fire not read, fire delayed")
		s.recheckLater(e)
		return false
	}
	t := &timer.Timer{
		ID:         e.Fire.Timer,
		AppID:      e.Fire.AppID,
		Version:    e.Fire.Version,
		Definition: *e.Def,
		Calendars:  calendars,
		AnchorMS:   state.AnchorMS,
	}
	w := &order.LateFire{
		Entry:   e,
		Timer:   t,
		UntilMS: nowMS - m.MisfiredAfter().Milliseconds(),
		Limit:   m.MaxFires,
	}
	if m.CatchUpWindow > 0 {
		w.CatchUpMS = nowMS - time.Duration(m.CatchUpWindow).Milliseconds()
	}
	return s.order.Join(w, state.ActiveEpoch)
}
