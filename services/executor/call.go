package executor

import (
	"context"
	"fmt"
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
	low := s.hands.begun(e)
	if !e.term.Trusted() {
		// Ended, or about to be: whoever takes the claim over calls. While it merely is not renewed in time, the fire waits.
		s.later(e)
		return
	}
	state, def, err := s.consult(e)
	if err != nil {
		s.log.Debug().Err(err).Msg("timer not read, its fire waits")
		s.later(e)
		return
	}
	if reason := skipReason(&e.fire, state); reason != timer.ReasonNone {
		s.skip(e, reason)
		return
	}
	if def == nil {
		s.reject(e, "the timer's definition is missing")
		return
	}
	if !s.admit(e, &state) {
		return
	}
	def = e.def // of the version that it belongs to by now
	caller := s.opts.Callers[def.Target.Kind]
	if caller == nil {
		s.reject(e, fmt.Sprintf("no target of kind %q can be called", def.Target.Kind))
		return
	}
	if !low && e.fire.Attempt == 0 {
		s.pace.began(time.Duration(s.opts.Clock.Now().UnixMilli()-e.fire.RunMS) * time.Millisecond)
	}
	s.call(e, caller, def, state.App)
}

func (s *Service) call(e *held, caller callback.Caller, def *timer.Definition, app string) {
	// The last look before the call: at the clock (P1), and at the session (P3), which a frozen process finds too old here.
	start, steady := s.opts.Clock.Look()
	if !steady || start.UnixMilli() < e.fire.RunMS {
		s.wheel.add(e)
		return
	}
	if !e.term.Trusted() {
		s.later(e)
		return
	}
	n := e.fire.Attempt + 1
	planned := plannedMS(e)
	late := start.UnixMilli() - planned
	if n == 1 {
		e.fire.LateMS = late
		if !e.canary() {
			s.met.lateness.Observe(float64(late) / 1000) //nolint:mnd // ms to s
		}
	}
	s.met.calling.Inc()
	began := time.Now()
	ctx, done := s.calls.begin(e)
	r := caller.Call(ctx, &callback.Request{
		Fire: e.fire.FireID, App: app, PlannedMS: planned, Attempt: n,
		Start: start, Target: def.Target, Timeout: time.Duration(def.Retry.Timeout),
	})
	cancelled := done()
	took := time.Since(began)
	s.met.calling.Dec()
	if !e.canary() {
		s.met.callSeconds.Observe(took.Seconds())
	}
	if e.term.Context().Err() != nil && r.Class != callback.Success {
		return // cancelled because the session is dead: not an attempt that failed, and no longer ours to tell
	}
	a := timer.Attempt{
		FireID: e.fire.FireID, N: n, StartMS: start.UnixMilli(), DurationMS: took.Milliseconds(),
		StatusCode: r.StatusCode, Error: r.Error, Excerpt: r.Excerpt,
	}
	if cancelled && r.Class != callback.Success {
		e.fire.Attempt = n
		s.recorder.end(s.outcome(e, timer.Skipped, timer.ReasonCancelled), e, &a)
		return
	}
	s.decide(e, def, r, a)
}

// skip ends a fire without a call.
func (s *Service) skip(e *held, reason timer.Reason) {
	s.recorder.end(s.outcome(e, timer.Skipped, reason), e, nil)
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

// decide turns the result of an attempt into an outcome or a retry.
func (s *Service) decide(e *held, def *timer.Definition, r callback.Result, a timer.Attempt) {
	e.fire.Attempt = a.N
	more := a.N < int32(max(def.Retry.Attempts, 1)) //nolint:gosec // a handful
	switch {
	case r.Class == callback.Success:
		o := s.outcome(e, timer.Delivered, timer.ReasonNone)
		o.StatusCode, o.DurationMS = a.StatusCode, a.DurationMS
		if a.N == 1 {
			s.recorder.end(o, e, nil) // the outcome tells all of a single attempt that succeeded
			return
		}
		s.recorder.end(o, e, &a)
	case r.Class == callback.Retry && more:
		wait := def.Retry.WaitAfter(int(a.N))
		e.fire.State = timer.FireRetrying
		e.fire.RunMS = s.opts.Clock.Now().Add(wait).UnixMilli()
		// Also where it stays in hand, for a stop may give it back: a bucket belongs to its minute.
		e.fire.Bucket = s.opts.Counts.Bucket(e.fire.FireID, e.fire.RunMinute())
		if wait < heldWait {
			s.recorder.hold(e, a)
			return
		}
		s.recorder.release(e, &a)
	default:
		reason := timer.ReasonExhausted
		if r.Class == callback.Reject {
			reason = timer.ReasonRejected
		}
		o := s.outcome(e, timer.Failed, reason)
		o.StatusCode, o.DurationMS = a.StatusCode, a.DurationMS
		s.recorder.end(o, e, &a)
	}
}

// reject ends a fire that can never be called, without a call.
func (s *Service) reject(e *held, why string) {
	a := timer.Attempt{
		FireID: e.fire.FireID, N: e.fire.Attempt + 1, StartMS: s.opts.Clock.Now().UnixMilli(), Error: why,
	}
	s.recorder.end(s.outcome(e, timer.Failed, timer.ReasonRejected), e, &a)
}

// later puts a fire back onto the wheel for a moment; of a dead term it lets it go.
func (s *Service) later(e *held) {
	if e.term.Context().Err() != nil {
		s.hands.drop(e)
		return
	}
	s.wheel.addAt(s.opts.Clock.Now().Add(askAgain).UnixMilli(), e)
}

// consult returns the timer's state and definition, from the book where it is fresh and speaks for a call, else from the store, together with
// whoever else asks at this moment.
func (s *Service) consult(e *held) (timer.State, *timer.Definition, error) {
	if e.def == nil {
		ctx, cancel := context.WithTimeout(e.term.Context(), claimTimeout)
		defer cancel()
		if err := s.book.learn(ctx, []*held{e}); err != nil {
			return timer.State{}, nil, err
		}
	}
	// The state comes last: what it takes to read a definition would else make it older than P5 allows. The book's may be a second old, and
	// a call may be made by it. A skip may not: it is final, and the timer may have been activated since.
	state, ok := s.book.state(e.fire.Timer)
	if !ok || skipReason(&e.fire, state) != timer.ReasonNone {
		var err error
		if state, err = s.ask.Do(e.term.Context(), e.fire.Timer); err != nil {
			return state, nil, err //nolint:wrapcheck // the book says what it was doing
		}
	}
	return state, e.def, nil
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
