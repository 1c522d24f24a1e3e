package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxInflightWait is the longest wait for a retry that stays in hand; a longer one gives the fire back,
// with a new mark.
const maxInflightWait = 5 * time.Second

// recheckAfter is when a fire is looked at again whose timer could not be read.
const recheckAfter = 500 * time.Millisecond

// due takes what the wheel gives and finds workers for it.
func (s *Service) due(es []*claimedFire) {
	s.startWorkers(s.queue.push(es))
}

// startWorkers starts workers for so many entries that no idle one takes, up to MaxCalls in all.
func (s *Service) startWorkers(short int) {
	for range short {
		if s.workerCount.Add(1) > int64(s.opts.MaxCalls) {
			s.workerCount.Add(-1)
			return
		}
		s.workers.Go(s.runWorker)
	}
}

// runWorker calls one fire after the other until the queue is closed. There are as many workers as were
// ever busy at once.
func (s *Service) runWorker() {
	for {
		e, ok := s.queue.pop()
		if !ok {
			return
		}
		granted := e.permit
		e.permit = nil
		if !s.attempt(e, granted) {
			granted.release()
		}
	}
}

// attempt decides about one due fire, calls it, and hands the result on. granted is the permit that
// the fire has waited for, nil: none. It tells whether that was used.
func (s *Service) attempt(e *claimedFire, granted *permit) (used bool) {
	s.inflight.callStarted(e)
	if !e.epoch.Valid() {
		// Ended, or about to be: whoever takes the claim over calls. While it merely is not renewed
		// in time, the fire waits.
		s.recheckLater(e)
		return false
	}
	view, err := s.resolve(e)
	if err != nil {
		s.log.Debug().Err(err).Msg("timer not read, its fire waits")
		s.recheckLater(e)
		return false
	}
	if view.verdict.reason != timer.ReasonNone {
		s.skip(e, view.verdict.reason)
		return false
	}
	if e.def == nil {
		s.reject(e, "the timer's definition is missing")
		return false
	}
	if view.verdict.deferred {
		s.deferFire(e, &view.State)
		return false
	}
	e.adjustDue(&view.State)
	if !s.admit(e, &view.State) {
		return false
	}
	if e.fire.State == timer.FireAccepted || e.fire.State == timer.FireAsyncFailed {
		s.asyncFailed(e)
		return false
	}
	owner, err := s.tenants.of(e.epoch.Context(), view.AppID, view.App)
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("settings of an app not read, its fire waits")
		s.appUnavailable(e)
		return false
	case owner.misconfigured != nil:
		s.notAttempted(e, timer.FailureInvalid, "not sent: "+owner.misconfigured.Error())
		return false
	}
	if !s.stillWanted(e, &view) {
		return false
	}
	p := s.acquirePermit(e, owner, granted)
	if p != nil {
		if !e.low && e.fire.Attempt == 0 && !e.wasLimited() {
			s.catchUpThrottle.observe(
				time.Duration(s.opts.Clock.Now().UnixMilli()-e.fire.RunAtMS) * time.Millisecond,
			)
		}
		s.call(e, owner, &view, p)
	}
	return p != nil
}

// appUnavailable lets a fire wait whose app could not be read: in hand, but where that fills up while
// other apps can be read, and what they do recorded.
func (s *Service) appUnavailable(e *claimedFire) {
	if e.epoch.Context().Err() == nil && s.inflight.crowded() {
		s.deferUntil(e, s.opts.Clock.Now().Add(maxInflightWait))
		return
	}
	s.recheckLater(e)
}

// notAttempted counts an attempt that could not be sent as one that failed, so that the fire comes to an
// end by its retry policy.
func (s *Service) notAttempted(e *claimedFire, why timer.Failure, text string) {
	s.decide(e, &attemptResult{
		Result: callback.Result{
			Class:   callback.Retry,
			Failure: why,
			Error:   text,
		},
		number: e.fire.Attempt + 1,
		start:  s.opts.Clock.Now(),
	})
}

// call makes an attempt that the limits let start.
func (s *Service) call(e *claimedFire, owner *tenant, view *timerView, p *permit) {
	defer p.done()
	def := e.def
	// The last look before the call: at the clock (P1), and at the session (P3) and the state (P5),
	// which a process that stood still finds too old here. The run alone does not do for P1: a fire
	// that an executor whose clock is ahead let wait for its turn is released when that comes,
	// perhaps before its instant.
	start, steady := s.opts.Clock.Read()
	planned := plannedMS(e)
	if from := max(e.fire.RunAtMS, planned); !steady || start.UnixMilli() < from {
		s.wheel.addAt(from, e)
		return
	}
	if !e.epoch.Valid() || time.Since(view.asOf) >= maxStateAgeAtCall {
		s.recheckLater(e)
		return
	}
	n := e.fire.Attempt + 1
	late := start.UnixMilli() - planned
	if n == 1 {
		e.fire.FirstLatenessMS = late
	}
	var each *guard
	var ask callback.Guard // nil for a single target: its breaker was asked
	if def.Several() {
		each = &guard{svc: s, entry: e}
		ask = each
	} else {
		s.observeLateness(e, n, late)
	}
	p.called = true
	e.began.Store(true)
	if e.ordered && n == 1 {
		s.order.called(e)
	}
	s.met.activeAttempts.Inc()
	began := time.Now()
	ctx, done := s.activeCalls.begin(e)
	r := s.opts.Caller.Call(ctx, &callback.Request{
		Fire:      e.fire.FireID,
		App:       view.App,
		PlannedMS: planned,
		Attempt:   n,
		Start:     start,
		Target:    def.Target,
		Timeout:   time.Duration(def.Retry.Timeout),
		Fanout:    def.Fanout,
		Done:      e.fire.TargetBits,
		NoRetry:   def.Retry.NoRetry,
		Name:      view.Name,
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
	s.met.activeAttempts.Dec()
	if each != nil {
		if len(each.refused) > 0 && !each.sent && !cancelled {
			s.refused(e, each.at, each.refused...)
			return
		}
		s.observeLateness(e, n, late)
	}
	if !e.canary() {
		s.met.callSeconds.Observe(took.Seconds())
	}
	if e.epoch.Context().Err() != nil && r.Class != callback.Success {
		// cancelled because the session is dead: not an attempt that failed, and no longer ours to
		// tell.
		return
	}
	p.report(&r)
	m := attemptResult{Result: r, number: n, start: start, took: took}
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

// observeLateness counts how late the first attempt of a fire is.
func (s *Service) observeLateness(e *claimedFire, n int32, lateMS int64) {
	if n == 1 && !e.canary() {
		s.met.lateness.Observe(float64(lateMS) / 1000) //nolint:mnd // ms to s
	}
}

// skip ends a fire without a call.
func (s *Service) skip(e *claimedFire, reason timer.Reason) {
	o := s.outcome(e, timer.Skipped, reason)
	// What a newer version superseded was taken back by that already.
	o.Uncounted = e.def != nil && e.def.Schedule.MaxFires > 0 && e.fire.Series == 0 &&
		e.fire.Attempt == 0 &&
		reason != timer.ReasonSuperseded &&
		reason != timer.ReasonDeleted
	s.recorder.end(o, e)
}

// passed tells that a fire waits for something else than its turn among late ones, or ends.
func (s *Service) passed(e *claimedFire) {
	if e.ordered {
		s.order.passed(e.fire.FireID)
	}
}

// dueMS returns when a fire is due: a one-shot that came due while its timer was not active is due
// when it is.
func (e *claimedFire) dueMS(state *timer.State) int64 {
	if e.fire.Series != 0 || e.def == nil || !e.def.Schedule.Kind.OneShot() {
		return e.fire.DueMS
	}
	return max(e.fire.DueMS, state.ActiveFromMS())
}

// adjustDue notes that of a one-shot.
func (e *claimedFire) adjustDue(state *timer.State) {
	if due := e.dueMS(state); due > e.fire.DueMS {
		e.dueFromMS = due
	}
}

// plannedMS returns when the first attempt of a fire was meant to start: at its due instant and its
// jitter, or when it was asked for; a one-shot no sooner than its timer is active.
func plannedMS(e *claimedFire) int64 {
	f := &e.fire
	switch f.Cause {
	case timer.CauseSchedule:
		return max(f.DueMS+schedule.Jitter(f.Timer, f.DueMS, e.def.Schedule.Jitter), e.dueFromMS)
	case timer.CauseRunNow:
		return f.DueMS
	default: // the series is the id of what asked for it
		return max(f.DueMS, timer.ID(f.Series).TimeMS())
	}
}

// recheckLater puts a fire back onto the wheel for a moment; of a dead term it lets it go.
func (s *Service) recheckLater(e *claimedFire) {
	if e.epoch.Context().Err() != nil {
		s.inflight.remove(e)
		return
	}
	s.wheel.addAt(s.opts.Clock.Now().Add(recheckAfter).UnixMilli(), e)
}

// timerView is a timer's state, the time as of which it is true, and what it makes of the fire that it
// was read for.
type timerView struct {
	timer.State

	asOf    time.Time
	verdict verdict
}

// resolve finds out by which definition the fire is called, which may be missing, and returns the
// timer's state: from the book where that is fresh and speaks for a call, else from the store,
// together with whoever else asks at this moment.
func (s *Service) resolve(e *claimedFire) (timerView, error) {
	for {
		view, err := s.stateOf(e)
		if err != nil {
			return timerView{}, err
		}
		version, err := s.versionFor(e, &view.State)
		if err != nil {
			return timerView{}, err
		}
		if e.def != nil && version == e.fire.Version {
			return view, nil
		}
		e.fire.Version, e.def, e.endpoint = version, nil, ""
		ctx, cancel := context.WithTimeout(e.epoch.Context(), claimTimeout)
		err = s.stateCache.load(ctx, []*claimedFire{e})
		cancel()
		if err != nil || e.def == nil {
			return view, err
		}
		// The state is asked for once more: it need not be any older for what it takes to read a
		// definition.
	}
}

// stateOf returns the state of a fire's timer.
func (s *Service) stateOf(e *claimedFire) (timerView, error) {
	// The book's may be a second old, and a call may be made by it. A skip may not: it is final,
	// and the timer may have been activated since.
	state, asOf, ok := s.stateCache.state(e.fire.Timer)
	var v verdict
	var err error
	if ok {
		if v, err = s.decideVerdict(e, &state); err != nil {
			return timerView{}, err
		}
	}
	if !ok || !v.call() {
		asOf = time.Now()
		if state, err = s.stateReads.Do(e.epoch.Context(), e.fire.Timer); err != nil {
			return timerView{}, err //nolint:wrapcheck // the book says what it was doing
		}
		if v, err = s.decideVerdict(e, &state); err != nil {
			return timerView{}, err
		}
	}
	if state.App != "" {
		e.app = state.App // the book may have dropped the timer by the time that the call ends
	}
	return timerView{state, asOf, v}, nil
}

// versionFor returns the version by which a fire is called, as its timer's state says. An edit that
// leaves the instants as they are leaves the rows of its open fires alone, so that a row's version
// is the one by which the fire was planned. What another plan has come between for, the row tells:
// see adopt.
func (s *Service) versionFor(e *claimedFire, state *timer.State) (int32, error) {
	f := e.fire
	f.DueMS = e.dueMS(state)
	version, sure := currentVersion(&f, state)
	if sure || e.def != nil && e.stateVersion == state.Version {
		return version, nil
	}
	ctx, cancel := context.WithTimeout(e.epoch.Context(), claimTimeout)
	defer cancel()
	version, err := s.opts.Store.VersionAt(ctx, f)
	if err != nil {
		return 0, fmt.Errorf("reading by which version a fire is called: %w", err)
	}
	if e.def != nil { // else nobody knows yet whether it is a one-shot
		e.stateVersion = state.Version
	}
	return version, nil
}

// currentVersion returns the version by which a fire is called, if the state of its timer suffices
// to tell: what is due later than the present version came into force is called by that, and what
// was due before by the one that was in force then.
func currentVersion(f *timer.Fire, s *timer.State) (version int32, sure bool) {
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

// stillWanted tells whether the timer wants the fire as it did when its state was read: the store may
// have taken its time over what was asked since, be it a turn, a catch-up or the app, and the state
// have grown older than P5 allows. Where anything is new, all is decided anew.
func (s *Service) stillWanted(e *claimedFire, view *timerView) bool {
	if time.Since(view.asOf) >= maxStateAgeAtDecision {
		asOf := time.Now()
		now, err := s.stateReads.Do(e.epoch.Context(), e.fire.Timer)
		if err != nil {
			s.log.Debug().Err(err).Msg("timer not read again, its fire waits")
			s.recheckLater(e)
			return false
		}
		now.Running = view.Running // which its own turn changes
		if now != view.State {
			// nobody is to be waited for: the book has what is new.
			s.wheel.addAt(s.opts.Clock.Now().UnixMilli(), e)
			return false
		}
		view.asOf = asOf
	}
	return e.fire.Cause != timer.CauseBackfill || s.backfillActive(e)
}

func (s *Service) outcome(
	e *claimedFire,
	kind timer.OutcomeKind,
	reason timer.Reason,
) timer.Outcome {
	o := timer.Outcome{
		Fire:       e.fire,
		Kind:       kind,
		Reason:     reason,
		FinishedMS: s.opts.Clock.Now().UnixMilli(),
		UntilMS:    e.fire.DueMS,
		Count:      1,
		Attempts:   e.fire.Attempt,
		LatenessMS: e.fire.FirstLatenessMS,
	}
	s.addSuccessor(e, &o)
	return o
}
