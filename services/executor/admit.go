package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	storeBatchWait    = time.Millisecond
	storeBatchTimeout = 5 * time.Second
	// slotRecheckAfter is when a fire that waits for another looks again by itself. Most often it is
	// promoted long before.
	slotRecheckAfter = time.Minute
)

// admit decides, just before an attempt, what else than the timer's status there is to say: the
// version, lateness, and the fires before it. It returns true when the attempt shall be made; else
// the fire is on its way somewhere else.
func (s *Service) admit(e *claimedFire, state *timer.State) bool {
	if e.fire.Cause == timer.CauseBackfill && !s.backfillActive(e) {
		return false
	}
	first := e.fire.Attempt == 0
	if e.fire.Series == 0 && first && state.Status != timer.StatusActive &&
		(isSerial(e) || e.fire.Version < state.Version) {
		// Its pause is over, and nobody has activated it yet. That plans anew what was edited
		// meanwhile, and begins another chain: until then nobody can tell what is superseded.
		s.recheckLater(e)
		return false
	}
	if e.fire.Series == 0 && first &&
		(e.fire.Version < state.Version || e.fire.Epoch < state.ActiveEpoch) {
		over, err := s.superseded(e, state)
		if err != nil {
			s.log.Debug().Err(err).Msg("versions of a timer not read, its fire waits")
			s.recheckLater(e)
			return false
		}
		if over && !s.adoptNewVersion(e, state) {
			return false
		}
	}
	if first && e.fire.Series == 0 && !s.passesMisfirePolicy(e, state) {
		return false
	}
	return concurrencyOf(e).Policy == timer.ConcurrencyAllow || s.acquireSlot(e)
}

// backfillActive tells whether a fire's backfill was not cancelled.
func (s *Service) backfillActive(e *claimedFire) bool {
	ctx, cancel := context.WithTimeout(e.epoch.Context(), claimTimeout)
	defer cancel()
	cancelled, err := s.backfills.cancelled(ctx, e.app, timer.ID(e.fire.Series))
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("backfill not read, its fire waits")
		s.recheckLater(e)
	case cancelled:
		s.skip(e, timer.ReasonCancelled)
	default:
		return true
	}
	return false
}

// isSerial tells whether a fire is one of the chain of a fixed delay.
func isSerial(e *claimedFire) bool {
	return e.def.Schedule.Kind == timer.KindFixedDelay && e.fire.Series == 0
}

// concurrencyOf returns how a fire goes together with others of its timer. The chain of a fixed
// delay is one fire at a time, whatever else may run beside it: where an edit or an activation
// begins it anew during a call, the first of the new chain waits for the last of the old one, which
// no other follows.
func concurrencyOf(e *claimedFire) timer.Concurrency {
	c := e.def.Concurrency.Resolved()
	if c.Policy == timer.ConcurrencyAllow && isSerial(e) {
		c.Policy, c.MaxQueue = timer.ConcurrencyQueueAll, timer.MaxMaxQueue
	}
	return c
}

// superseded tells whether a newer version than the fire's was in force when it was due. Mostly
// that is the present one; of a timer that was edited again since, the store knows when the one
// after the fire's came. Of a fixed delay, each activation begins a chain: what is left of the one
// before is superseded, whenever it is due.
func (s *Service) superseded(e *claimedFire, state *timer.State) (bool, error) {
	if isSerial(e) && e.fire.Epoch < state.ActiveEpoch {
		return true, nil
	}
	if e.fire.Version >= state.Version {
		return false, nil
	}
	due := max(e.fire.DueMS, e.dueFromMS)
	if due > state.VersionMS || e.fire.Version+1 == state.Version {
		return due > state.VersionMS, nil
	}
	ctx, cancel := context.WithTimeout(e.epoch.Context(), claimTimeout)
	defer cancel()
	next := store.VersionKey{Timer: e.fire.Timer, Version: e.fire.Version + 1}
	times, err := s.opts.Store.VersionTimes(ctx, []store.VersionKey{next})
	if err != nil {
		return false, fmt.Errorf("reading when version %d came: %w", next.Version, err)
	}
	at, ok := times[next]
	return ok && due > at, nil
}

// adoptNewVersion finds out whether the newer version, or activation, has the instant too: then the fire's
// row was moved to it, and the fire is called as that says. An edit, or an activation, that comes
// right now is not missed: who records a fire as superseded does so only where the row still has
// the old version and epoch.
func (s *Service) adoptNewVersion(e *claimedFire, state *timer.State) bool {
	ctx, cancel := context.WithTimeout(e.epoch.Context(), claimTimeout)
	defer cancel()
	// Claiming what one owns changes nothing, and answers with what the store has.
	now, err := s.opts.Store.Claim(ctx, e.epoch.ID, []timer.Fire{e.fire})
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("version of a fire not read, it waits")
		s.recheckLater(e)
		return false
	case len(now) == 0:
		s.inflight.remove(e) // no longer ours
		return false
	case now[0].Version == e.fire.Version && now[0].Epoch == e.fire.Epoch:
		s.skip(e, timer.ReasonSuperseded)
		return false
	}
	e.fire, e.def = now[0], nil
	if err := s.stateCache.load(ctx, []*claimedFire{e}); err != nil || e.def == nil {
		s.log.Debug().Err(err).Msg("new version of a timer not read, its fire waits")
		s.recheckLater(e)
		return false
	}
	if over, err := s.superseded(e, state); err != nil || over { // two edits at once: look again
		s.recheckLater(e)
		return false
	}
	if e.fire.RunAtMS > s.opts.Clock.Now().UnixMilli() {
		s.wheel.add(e)
		return false
	}
	return true
}

// passesMisfirePolicy tells whether a fire's first attempt is to be made, late as it may be. One whose run was
// moved, or that was put off here, has waited for its turn or for a limit, which is not for the
// misfire policy to punish. So has one that waited for earlier ones.
func (s *Service) passesMisfirePolicy(e *claimedFire, state *timer.State) bool {
	m := e.def.Misfire.For(e.def.Schedule.Kind)
	planned, now := plannedMS(e), s.opts.Clock.Now().UnixMilli()
	late := time.Duration(now-planned) * time.Millisecond
	if e.ordered || e.wasLimited() || e.fire.RunAtMS != planned || late <= m.MisfiredAfter() {
		return true
	}
	switch {
	case m.CatchUpWindow > 0 && late > time.Duration(m.CatchUpWindow),
		m.Policy == timer.MisfireSkip:
		s.skip(e, timer.ReasonMisfired)
		return false
	case m.Policy == timer.MisfireFireAll:
		return s.amongLatest(e, state, &m, now) && s.inOrder(e, state, &m, now)
	}
	run, err := s.catchUps.Do(e.epoch.Context(), store.CatchUpRequest{
		FireID:  e.fire.FireID,
		ToMS:    now - time.Duration(m.Grace).Milliseconds(),
		GraceMS: time.Duration(m.Grace).Milliseconds(),
	})
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("no answer whether a late fire runs, it waits")
		s.recheckLater(e)
	case !run:
		s.skip(e, timer.ReasonMisfired)
	default:
		return true
	}
	return false
}

// amongLatest tells whether a late fire is one of so many that fire_all runs: the latest of those
// that are late, of what the fire's version had until another came. Each executor counts by itself,
// from when it meets the first of them: a backlog of which two take their parts moments apart may
// lose or gain what came late in between.
func (s *Service) amongLatest(
	e *claimedFire,
	state *timer.State,
	m *timer.Misfire,
	nowMS int64,
) bool {
	if e.def.Schedule.Kind.OneShot() {
		return true
	}
	until := nowMS - m.MisfiredAfter().Milliseconds()
	if e.fire.Version < state.Version {
		until = min(until, state.VersionMS+1)
	}
	ctx, cancel := context.WithTimeout(e.epoch.Context(), claimTimeout)
	defer cancel()
	calendars, err := s.calendars.of(ctx, e.app, e.def)
	if err != nil {
		s.log.Debug().Err(err).Msg("calendars of a late fire not read, it waits")
		s.recheckLater(e)
		return false
	}
	run, err := s.opts.Planner.AmongLatest(&e.fire, e.def, calendars, until, m.MaxFires)
	if err != nil {
		s.log.Warn().
			Err(err).
			Stringer("fire", e.fire.FireID).
			Msg("a late fire is called: the schedule that others follow by cannot be read")
		return true
	}
	if !run {
		s.skip(e, timer.ReasonMisfired)
	}
	return run
}

// slotRequest is a question to the store's gate, under the session that holds the fire.
type slotRequest struct {
	session timer.ID
	request store.SlotRequest
}

// acquireSlot asks for the fire's turn among those of its timer. Dying after the answer: whoever gets
// the fire's claim asks again, and gets the turn that the fire has.
func (s *Service) acquireSlot(e *claimedFire) bool {
	waiting := e.fire
	waiting.State = timer.FireWaiting
	waiting.RunAtMS = s.opts.Clock.Now().Add(slotRecheckAfter).UnixMilli()
	waiting.Bucket = s.opts.Counts.Bucket(waiting.FireID, waiting.RunAtMinute())
	ask := store.SlotRequest{
		Fire:        waiting,
		Concurrency: concurrencyOf(e),
		NowMS:       s.opts.Clock.Now().UnixMilli(),
	}
	if isSerial(e) && e.fire.Attempt == 0 {
		ask.DelayAfterEnd = time.Duration(e.def.Schedule.Every)
	}
	answer, err := s.slots.Do(e.epoch.Context(), slotRequest{e.epoch.ID, ask})
	if err != nil {
		s.log.Debug().Err(err).Msg("no answer whose turn it is, the fire waits")
		s.recheckLater(e)
		return false
	}
	switch answer.SlotVerdict {
	case store.SlotGranted:
		return true
	case store.SlotQueued:
		s.passed(e)
		s.inflight.remove(e) // first: its task may come back to this very process
		s.opts.Dispatch.Committed(e.epoch.Context(), []timer.Fire{answer.Fire})
	case store.SlotSkipped:
		s.skip(e, timer.ReasonOverlap)
	case store.SlotQueueFull:
		s.skip(e, timer.ReasonQueueFull)
	case store.SlotReplaced:
		s.skip(e, timer.ReasonCancelled)
	case store.SlotNotOwned:
		s.inflight.remove(e)
	}
	return false
}

// acquireSlots asks the store for many, by session: there is more than one only just after a session's
// end.
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
			return nil, fmt.Errorf("asking whose turn it is: %w", err)
		}
		for n, i := range places {
			out[i] = answers[n]
		}
	}
	return out, nil
}

// addSuccessor adds to an outcome what it sets off: the turn that is handed on, and the next fire of a
// fixed delay.
func (s *Service) addSuccessor(e *claimedFire, o *timer.Outcome) {
	if e.def == nil {
		return
	}
	if o.Serial = concurrencyOf(e).Policy != timer.ConcurrencyAllow; !isSerial(e) {
		return
	}
	next, err := s.opts.Planner.Successor(&e.fire, e.def, s.calendarsOf(e), o.FinishedMS)
	if err != nil {
		s.log.Error().
			Err(err).
			Stringer("fire", e.fire.FireID).
			Msg("a fixed delay ends: its next fire cannot be planned")
		return
	}
	o.Next = next
}

// calendarsOf insists: a chain must not end for a store that is away for a moment, which the
// outcome has to wait for in any case.
func (s *Service) calendarsOf(e *claimedFire) []timer.Calendar {
	for {
		ctx, cancel := context.WithTimeout(e.epoch.Context(), claimTimeout)
		calendars, err := s.calendars.of(ctx, e.app, e.def)
		cancel()
		if err == nil || e.epoch.Context().Err() != nil {
			return calendars
		}
		s.log.Warn().
			Err(err).
			Stringer("fire", e.fire.FireID).
			Msg("the fire that follows waits for its calendars")
		clock.Pause(e.epoch.Context(), minRecordRetry)
	}
}
