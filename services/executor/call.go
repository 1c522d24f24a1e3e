package executor

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// heldWait is the longest wait for a retry that stays in hand; a longer one gives the fire back, with a new mark.
const heldWait = 5 * time.Second

// askAgain is when a fire is looked at again whose timer could not be read.
const askAgain = 500 * time.Millisecond

// due takes what the wheel gives and finds workers for it.
func (s *Service) due(es []*held) {
	short := s.queue.push(es)
	for range min(short, s.opts.MaxCalls-int(s.nWorkers.Load())) {
		s.nWorkers.Add(1)
		s.workers.Go(s.work)
	}
}

// work calls one fire after the other until the queue is closed. There are as many workers as were ever busy at once.
func (s *Service) work() {
	for {
		e, ok := s.queue.pop()
		if !ok {
			return
		}
		s.attempt(e)
	}
}

// attempt decides about one due fire, calls it, and hands the result on.
func (s *Service) attempt(e *held) {
	s.hands.begun(e)
	if !e.term.Trusted() {
		// Ended, or about to be: whoever takes the claim over calls. While it merely is not renewed in time, the fire waits.
		s.later(e)
		return
	}
	seen, err := s.consult(e)
	if err != nil {
		s.log.Debug().Err(err).Msg("timer not read, its fire waits")
		s.later(e)
		return
	}
	if reason := skipReason(&e.fire, seen.State); reason != timer.ReasonNone {
		s.skip(e, reason)
		return
	}
	if e.def == nil {
		s.reject(e, "the timer's definition is missing")
		return
	}
	if !s.admit(e, &seen.State) {
		return
	}
	if e.fire.State == timer.FireAccepted || e.fire.State == timer.FireReturned {
		s.unfinished(e)
		return
	}
	owner, err := s.tenants.of(e.term.Context(), seen.AppID, seen.App)
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("settings of an app not read, its fire waits")
		s.noTenant(e)
		return
	case owner.unfit != nil:
		s.notMade(e, timer.FailureInvalid, "not sent: "+owner.unfit.Error())
		return
	}
	if !s.still(e, &seen) {
		return
	}
	if p := s.allow(e, owner); p != nil {
		if !e.low && e.fire.Attempt == 0 && !e.putOff() {
			s.pace.began(time.Duration(s.opts.Clock.Now().UnixMilli()-e.fire.RunMS) * time.Millisecond)
		}
		s.call(e, owner, &seen, p)
	}
}

// noTenant lets a fire wait whose app could not be read: in hand, but where that fills up while other apps can be read, and what they do recorded.
func (s *Service) noTenant(e *held) {
	if e.term.Context().Err() == nil && s.hands.crowded() {
		s.park(e, s.opts.Clock.Now().Add(heldWait))
		return
	}
	s.later(e)
}

// notMade counts an attempt that could not be sent as one that failed, so that the fire comes to an end by its retry policy.
func (s *Service) notMade(e *held, why timer.Failure, text string) {
	s.decide(e, &made{
		Result: callback.Result{Class: callback.Retry, Failure: why, Error: text}, n: e.fire.Attempt + 1, start: s.opts.Clock.Now(),
	})
}

// call makes an attempt that the limits let start.
func (s *Service) call(e *held, owner *tenant, seen *view, p *permit) {
	defer p.done()
	def := e.def
	// The last look before the call: at the clock (P1), and at the session (P3) and the state (P5), which a process that stood still finds too old here.
	// The run alone does not do for P1: a fire that an executor whose clock is ahead let wait for its turn is released when that comes, perhaps before its instant.
	start, steady := s.opts.Clock.Look()
	planned := plannedMS(e)
	if from := max(e.fire.RunMS, planned); !steady || start.UnixMilli() < from {
		s.wheel.addAt(from, e)
		return
	}
	if !e.term.Trusted() || time.Since(seen.asOf) >= noticed {
		s.later(e)
		return
	}
	n := e.fire.Attempt + 1
	late := start.UnixMilli() - planned
	if n == 1 {
		e.fire.LateMS = late
	}
	var each *guard
	var ask callback.Guard // nil for a single target: its breaker was asked
	if def.Several() {
		each = &guard{svc: s, held: e}
		ask = each
	} else {
		s.wasLate(e, n, late)
	}
	s.met.calling.Inc()
	began := time.Now()
	ctx, done := s.calls.begin(e)
	r := s.opts.Caller.Call(ctx, &callback.Request{
		Fire: e.fire.FireID, App: seen.App, PlannedMS: planned, Attempt: n,
		Start: start, Target: def.Target, Timeout: time.Duration(def.Retry.Timeout),
		Fanout: def.Fanout, Done: e.fire.Done, NoRetry: def.Retry.NoRetry, Name: seen.Name, Labels: def.Labels, Zone: s.zone(def), Cause: e.fire.Cause.String(),
		Signer: owner.signer, Egress: owner.egress, Token: s.token(e, n), Guard: ask,
	})
	cancelled := done()
	took := time.Since(began)
	s.met.calling.Dec()
	if each != nil {
		if len(each.refused) > 0 && !each.sent && !cancelled {
			s.refused(e, each.at, each.refused...)
			return
		}
		s.wasLate(e, n, late)
	}
	if !e.canary() {
		s.met.callSeconds.Observe(took.Seconds())
	}
	if e.term.Context().Err() != nil && r.Class != callback.Success {
		return // cancelled because the session is dead: not an attempt that failed, and no longer ours to tell
	}
	p.report(&r)
	m := made{Result: r, n: n, start: start, took: took}
	if cancelled && r.Class != callback.Success {
		e.fire.Attempt = n
		s.recorder.end(s.outcome(e, timer.Skipped, timer.ReasonCancelled), e, m.attempts(e.fire.FireID)...)
		return
	}
	s.decide(e, &m)
}

// wasLate counts how late the first attempt of a fire is.
func (s *Service) wasLate(e *held, n int32, lateMS int64) {
	if n == 1 && !e.canary() {
		s.met.lateness.Observe(float64(lateMS) / 1000) //nolint:mnd // ms to s
	}
}

// skip ends a fire without a call.
func (s *Service) skip(e *held, reason timer.Reason) {
	s.recorder.end(s.outcome(e, timer.Skipped, reason), e)
}

// plannedMS returns when the first attempt of a fire was meant to start: at its due instant and its jitter, or when it was asked for.
func plannedMS(e *held) int64 {
	f := &e.fire
	switch f.Cause {
	case timer.CauseSchedule:
		return f.DueMS + schedule.Jitter(f.Timer, f.DueMS, e.def.Schedule.Jitter)
	case timer.CauseRunNow:
		return f.DueMS
	default: // the series is the id of what asked for it
		return max(f.DueMS, timer.ID(f.Series).TimeMS())
	}
}

// later puts a fire back onto the wheel for a moment; of a dead term it lets it go.
func (s *Service) later(e *held) {
	if e.term.Context().Err() != nil {
		s.hands.drop(e)
		return
	}
	s.wheel.addAt(s.opts.Clock.Now().Add(askAgain).UnixMilli(), e)
}

// view is a timer's state, and the time as of which it is true.
type view struct {
	timer.State

	asOf time.Time
}

// consult learns the fire's definition, which may be missing, and returns the timer's state: from the book where that is
// fresh and speaks for a call, else from the store, together with whoever else asks at this moment.
func (s *Service) consult(e *held) (view, error) {
	if e.def == nil {
		ctx, cancel := context.WithTimeout(e.term.Context(), claimTimeout)
		defer cancel()
		if err := s.book.learn(ctx, []*held{e}); err != nil {
			return view{}, err
		}
	}
	// The state comes last: it need not be any older for what it takes to read a definition. The book's may be a second old, and
	// a call may be made by it. A skip may not: it is final, and the timer may have been activated since.
	state, asOf, ok := s.book.state(e.fire.Timer)
	if !ok || skipReason(&e.fire, state) != timer.ReasonNone {
		asOf = time.Now()
		var err error
		if state, err = s.ask.Do(e.term.Context(), e.fire.Timer); err != nil {
			return view{}, err //nolint:wrapcheck // the book says what it was doing
		}
	}
	if state.App != "" {
		e.app = state.App // the book may have dropped the timer by the time that the call ends
	}
	return view{state, asOf}, nil
}

// still tells whether the timer wants the fire as it did when its state was read: the store may have taken its time over what was asked since, be it a turn, a
// catch-up or the app, and the state have grown older than P5 allows. Where anything is new, all is decided anew.
func (s *Service) still(e *held, seen *view) bool {
	if time.Since(seen.asOf) >= freshFor {
		asOf := time.Now()
		now, err := s.ask.Do(e.term.Context(), e.fire.Timer)
		if err != nil {
			s.log.Debug().Err(err).Msg("timer not read again, its fire waits")
			s.later(e)
			return false
		}
		now.Running = seen.Running // which its own turn changes
		if now != seen.State {
			s.wheel.addAt(s.opts.Clock.Now().UnixMilli(), e) // nobody is to be waited for: the book has what is new
			return false
		}
		seen.asOf = asOf
	}
	return e.fire.Cause != timer.CauseBackfill || s.wanted(e)
}

// skipReason tells why a timer does not want a fire, if it does not. What somebody asked for by itself is called also while the timer is not active.
func skipReason(f *timer.Fire, s timer.State) timer.Reason {
	switch {
	case !s.Exists(), s.Status == timer.StatusDeleted:
		return timer.ReasonDeleted
	case s.Frozen:
		return timer.ReasonFrozen
	case f.Series != 0:
		return timer.ReasonNone
	case s.Status == timer.StatusPaused:
		return timer.ReasonPaused
	case s.Status != timer.StatusActive:
		return timer.ReasonInactive
	case f.DueMS < s.ActiveSinceMS:
		return timer.ReasonBeforeEpoch
	}
	return timer.ReasonNone
}

func (s *Service) outcome(e *held, kind timer.OutcomeKind, reason timer.Reason) timer.Outcome {
	o := timer.Outcome{
		Fire: e.fire, Kind: kind, Reason: reason, FinishedMS: s.opts.Clock.Now().UnixMilli(),
		UntilMS: e.fire.DueMS, Count: 1, Attempts: e.fire.Attempt, LatenessMS: e.fire.LateMS,
	}
	s.follow(e, &o)
	return o
}
