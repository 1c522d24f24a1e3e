package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// heldWait is the longest wait for a retry that stays in hand; a longer one gives the fire back,
// with a new mark.
const heldWait = 5 * time.Second

// askAgain is when a fire is looked at again whose timer could not be read.
const askAgain = 500 * time.Millisecond

// due takes what the wheel gives and finds workers for it.
func (s *Service) due(es []*held) {
	s.findWorkers(s.queue.push(es))
}

// findWorkers starts workers for so many entries that no idle one takes, up to MaxCalls in all.
func (s *Service) findWorkers(short int) {
	for range short {
		if s.nWorkers.Add(1) > int64(s.opts.MaxCalls) {
			s.nWorkers.Add(-1)
			return
		}
		s.workers.Go(s.work)
	}
}

// work calls one fire after the other until the queue is closed. There are as many workers as were
// ever busy at once.
func (s *Service) work() {
	for {
		e, ok := s.queue.pop()
		if !ok {
			return
		}
		granted := e.granted
		e.granted = nil
		if !s.attempt(e, granted) {
			granted.unused()
		}
	}
}

// attempt decides about one due fire, calls it, and hands the result on. granted is the permit that
// the fire has waited for, nil: none. It tells whether that was used.
func (s *Service) attempt(e *held, granted *permit) (used bool) {
	s.hands.begun(e)
	if !e.term.Valid() {
		// Ended, or about to be: whoever takes the claim over calls. While it merely is not renewed
		// in time, the fire waits.
		s.later(e)
		return false
	}
	seen, err := s.consult(e)
	if err != nil {
		s.log.Debug().Err(err).Msg("timer not read, its fire waits")
		s.later(e)
		return false
	}
	if seen.fate.reason != timer.ReasonNone {
		s.skip(e, seen.fate.reason)
		return false
	}
	if e.def == nil {
		s.reject(e, "the timer's definition is missing")
		return false
	}
	if seen.fate.waits {
		s.deferFire(e, &seen.State)
		return false
	}
	e.dueAgain(&seen.State)
	if !s.admit(e, &seen.State) {
		return false
	}
	if e.fire.State == timer.FireAccepted || e.fire.State == timer.FireReturned {
		s.unfinished(e)
		return false
	}
	owner, err := s.tenants.of(e.term.Context(), seen.AppID, seen.App)
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("settings of an app not read, its fire waits")
		s.noTenant(e)
		return false
	case owner.unfit != nil:
		s.notMade(e, timer.FailureInvalid, "not sent: "+owner.unfit.Error())
		return false
	}
	if !s.still(e, &seen) {
		return false
	}
	p := s.allow(e, owner, granted)
	if p != nil {
		if !e.low && e.fire.Attempt == 0 && !e.putOff() {
			s.pace.began(
				time.Duration(s.opts.Clock.Now().UnixMilli()-e.fire.RunAtMS) * time.Millisecond,
			)
		}
		s.call(e, owner, &seen, p)
	}
	return p != nil
}

// noTenant lets a fire wait whose app could not be read: in hand, but where that fills up while
// other apps can be read, and what they do recorded.
func (s *Service) noTenant(e *held) {
	if e.term.Context().Err() == nil && s.hands.crowded() {
		s.park(e, s.opts.Clock.Now().Add(heldWait))
		return
	}
	s.later(e)
}

// notMade counts an attempt that could not be sent as one that failed, so that the fire comes to an
// end by its retry policy.
func (s *Service) notMade(e *held, why timer.Failure, text string) {
	s.decide(e, &made{
		Result: callback.Result{
			Class:   callback.Retry,
			Failure: why,
			Error:   text,
		},
		n:     e.fire.Attempt + 1,
		start: s.opts.Clock.Now(),
	})
}

// call makes an attempt that the limits let start.
func (s *Service) call(e *held, owner *tenant, seen *view, p *permit) {
	defer p.done()
	def := e.def
	// The last look before the call: at the clock (P1), and at the session (P3) and the state (P5),
	// which a process that stood still finds too old here. The run alone does not do for P1: a fire
	// that an executor whose clock is ahead let wait for its turn is released when that comes,
	// perhaps before its instant.
	start, steady := s.opts.Clock.Look()
	planned := plannedMS(e)
	if from := max(e.fire.RunAtMS, planned); !steady || start.UnixMilli() < from {
		s.wheel.addAt(from, e)
		return
	}
	if !e.term.Valid() || time.Since(seen.asOf) >= noticed {
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
	p.begun = true
	s.met.calling.Inc()
	began := time.Now()
	ctx, done := s.calls.begin(e)
	r := s.opts.Caller.Call(ctx, &callback.Request{
		Fire:      e.fire.FireID,
		App:       seen.App,
		PlannedMS: planned,
		Attempt:   n,
		Start:     start,
		Target:    def.Target,
		Timeout:   time.Duration(def.Retry.Timeout),
		Fanout:    def.Fanout,
		Done:      e.fire.Done,
		NoRetry:   def.Retry.NoRetry,
		Name:      seen.Name,
		Labels:    def.Labels,
		Zone:      templateZone(def),
		Cause:     e.fire.Cause.String(),
		Signer:    owner.signer,
		Egress:    owner.egress,
		Token:     s.token(e, n),
		Guard:     ask,
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
		// cancelled because the session is dead: not an attempt that failed, and no longer ours to
		// tell.
		return
	}
	p.report(&r)
	m := made{Result: r, n: n, start: start, took: took}
	if cancelled && r.Class != callback.Success {
		e.fire.Attempt = n
		s.recorder.end(
			s.outcome(e, timer.Skipped, timer.ReasonCancelled),
			e,
			m.attempts(e.fire.FireID)...)
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
	o := s.outcome(e, timer.Skipped, reason)
	// What a newer version superseded was taken back by that already.
	o.Uncounted = e.def != nil && e.def.Schedule.MaxFires > 0 && e.fire.Series == 0 &&
		e.fire.Attempt == 0 &&
		reason != timer.ReasonSuperseded &&
		reason != timer.ReasonDeleted
	s.recorder.end(o, e)
}

// dueMS returns when a fire is due: a one-shot that came due while its timer was not active is due
// when it is.
func (e *held) dueMS(state *timer.State) int64 {
	if e.fire.Series != 0 || e.def == nil || !e.def.Schedule.Kind.OneShot() {
		return e.fire.DueMS
	}
	return max(e.fire.DueMS, state.ActiveFromMS())
}

// dueAgain notes that of a one-shot.
func (e *held) dueAgain(state *timer.State) {
	if due := e.dueMS(state); due > e.fire.DueMS {
		e.activeMS = due
	}
}

// plannedMS returns when the first attempt of a fire was meant to start: at its due instant and its
// jitter, or when it was asked for; a one-shot no sooner than its timer is active.
func plannedMS(e *held) int64 {
	f := &e.fire
	switch f.Cause {
	case timer.CauseSchedule:
		return max(f.DueMS+schedule.Jitter(f.Timer, f.DueMS, e.def.Schedule.Jitter), e.activeMS)
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

// view is a timer's state, the time as of which it is true, and what it makes of the fire that it
// was read for.
type view struct {
	timer.State

	asOf time.Time
	fate fate
}

// consult finds out by which definition the fire is called, which may be missing, and returns the
// timer's state: from the book where that is fresh and speaks for a call, else from the store,
// together with whoever else asks at this moment.
func (s *Service) consult(e *held) (view, error) {
	for {
		seen, err := s.stateOf(e)
		if err != nil {
			return view{}, err
		}
		version, err := s.versionBy(e, &seen.State)
		if err != nil {
			return view{}, err
		}
		if e.def != nil && version == e.fire.Version {
			return seen, nil
		}
		e.fire.Version, e.def, e.endpoint = version, nil, ""
		ctx, cancel := context.WithTimeout(e.term.Context(), claimTimeout)
		err = s.book.learn(ctx, []*held{e})
		cancel()
		if err != nil || e.def == nil {
			return seen, err
		}
		// The state is asked for once more: it need not be any older for what it takes to read a
		// definition.
	}
}

// stateOf returns the state of a fire's timer.
func (s *Service) stateOf(e *held) (view, error) {
	// The book's may be a second old, and a call may be made by it. A skip may not: it is final,
	// and the timer may have been activated since.
	state, asOf, ok := s.book.state(e.fire.Timer)
	var what fate
	var err error
	if ok {
		if what, err = s.decideFate(e, &state); err != nil {
			return view{}, err
		}
	}
	if !ok || !what.call() {
		asOf = time.Now()
		if state, err = s.ask.Do(e.term.Context(), e.fire.Timer); err != nil {
			return view{}, err //nolint:wrapcheck // the book says what it was doing
		}
		if what, err = s.decideFate(e, &state); err != nil {
			return view{}, err
		}
	}
	if state.App != "" {
		e.app = state.App // the book may have dropped the timer by the time that the call ends
	}
	return view{state, asOf, what}, nil
}

// versionBy returns the version by which a fire is called, as its timer's state says. An edit that
// leaves the instants as they are leaves the rows of its open fires alone, so that a row's version
// is the one by which the fire was planned. What another plan has come between for, the row tells:
// see adopt.
func (s *Service) versionBy(e *held, state *timer.State) (int32, error) {
	f := e.fire
	f.DueMS = e.dueMS(state)
	version, sure := presentVersion(&f, state)
	if sure || e.def != nil && e.asOf == state.Version {
		return version, nil
	}
	ctx, cancel := context.WithTimeout(e.term.Context(), claimTimeout)
	defer cancel()
	version, err := s.opts.Store.VersionAt(ctx, f)
	if err != nil {
		return 0, fmt.Errorf("reading by which version a fire is called: %w", err)
	}
	if e.def != nil { // else nobody knows yet whether it is a one-shot
		e.asOf = state.Version
	}
	return version, nil
}

// presentVersion returns the version by which a fire is called, if the state of its timer suffices
// to tell: what is due later than the present version came into force is called by that, and what
// was due before by the one that was in force then.
func presentVersion(f *timer.Fire, s *timer.State) (version int32, sure bool) {
	switch {
	case f.Series != 0, f.Version >= s.Version, f.DueMS <= s.VersionMS && f.Version+1 == s.Version:
		return f.Version, true
	case f.DueMS <= s.VersionMS:
		return f.Version, false
	case s.PlanVersion <= f.Version:
		return s.Version, true
	default:
		return f.Version, true // its row was moved, or else it is superseded
	}
}

// still tells whether the timer wants the fire as it did when its state was read: the store may
// have taken its time over what was asked since, be it a turn, a catch-up or the app, and the state
// have grown older than P5 allows. Where anything is new, all is decided anew.
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
			// nobody is to be waited for: the book has what is new.
			s.wheel.addAt(s.opts.Clock.Now().UnixMilli(), e)
			return false
		}
		seen.asOf = asOf
	}
	return e.fire.Cause != timer.CauseBackfill || s.wanted(e)
}

func (s *Service) outcome(e *held, kind timer.OutcomeKind, reason timer.Reason) timer.Outcome {
	o := timer.Outcome{
		Fire: e.fire, Kind: kind, Reason: reason, FinishedMS: s.opts.Clock.Now().UnixMilli(),
		UntilMS: e.fire.DueMS, Count: 1, Attempts: e.fire.Attempt, LatenessMS: e.fire.LateMS,
	}
	s.follow(e, &o)
	return o
}
