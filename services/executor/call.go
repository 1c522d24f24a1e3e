package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/admission"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// maxInflightWait is the longest wait that a fire spends in flight. For a longer one the fire is
// released with a new run time.
const maxInflightWait = 5 * time.Second

// recheckAfter is when a fire is decided again whose timer could not be read.
const recheckAfter = 500 * time.Millisecond

// enqueueDue queues the fires that the wheel has released, and starts workers for them.
func (s *Service) enqueueDue(es []*inflight.Entry) {
	s.startWorkers(s.queue.Push(es))
}

// startWorkers starts workers for entries that find no idle one, up to MaxCalls in all.
func (s *Service) startWorkers(short int) {
	for range short {
		if s.workerCount.Add(1) > int64(s.opts.MaxCalls) {
			s.workerCount.Add(-1)
			return
		}
		s.workers.Go(s.runWorker)
	}
}

// runWorker calls fires until the queue is closed. Workers are never stopped earlier, so there are
// as many as were ever busy at once.
func (s *Service) runWorker() {
	for {
		e, ok := s.queue.Pop()
		if !ok {
			return
		}
		granted := s.takePermit(e)
		if !s.attempt(e, granted) {
			granted.release()
		}
	}
}

// attempt decides about a due fire, calls it, and passes the result on. granted is the permit that
// the fire has waited for, or nil. used reports whether a call used it.
func (s *Service) attempt(e *inflight.Entry, granted *permit) (used bool) {
	s.inflight.CallStarted(e)
	if !e.Epoch.Valid() {
		// If the session has expired, the next owner of the claim makes the call. If its renewal is
		// only late, the fire waits.
		s.recheckLater(e)
		return false
	}
	view, err := s.resolve(e)
	if err != nil {
		s.log.Debug().Err(err).Msg("timer not read, fire delayed")
		s.recheckLater(e)
		return false
	}
	if view.Status.Action == admission.Call {
		e.AdjustDue(&view.State)
	}
	if !s.admit(e, &view) {
		return false
	}
	owner, err := s.tenants.of(e.Epoch.Context(), view.State.AppID, view.State.App)
	switch {
	case err != nil:
		s.log.Debug().Err(err).Msg("settings of the app not read, fire delayed")
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
		if !e.Low && e.Fire.Attempt == 0 && !e.WasLimited() {
			s.catchUpThrottle.observe(
				time.Duration(s.opts.Clock.Now().UnixMilli()-e.Fire.RunAtMS) * time.Millisecond,
			)
		}
		s.call(e, owner, &view, p)
	}
	return p != nil
}

// appUnavailable delays a fire whose app could not be read. It stays in flight, unless these fires
// fill the set while those of other apps could run.
func (s *Service) appUnavailable(e *inflight.Entry) {
	if e.Epoch.Context().Err() == nil && s.inflight.Crowded() {
		s.deferUntil(e, s.opts.Clock.Now().Add(maxInflightWait))
		return
	}
	s.recheckLater(e)
}

// notAttempted counts an attempt that could not be sent as failed, so that the retry policy ends
// the fire.
func (s *Service) notAttempted(e *inflight.Entry, why timer.Failure, text string) {
	s.decide(e, &attemptResult{
		Result: callback.Result{
			Class:   callback.Retry,
			Failure: why,
			Error:   text,
		},
		number: e.Fire.Attempt + 1,
		start:  s.opts.Clock.Now(),
	})
}

// call makes an attempt that the limits allow.
func (s *Service) call(e *inflight.Entry, owner *tenant, view *timerView, p *permit) {
	defer p.done()
	def := e.Def
	// Last check before the call: the clock (P1), the session (P3) and the state (P5). A stalled
	// process finds them too old here. For P1 the run time alone is not enough. An executor whose
	// clock is ahead may have queued this fire for a slot, which is granted perhaps before the
	// planned time.
	start, steady := s.opts.Clock.Read()
	planned := e.PlannedMS()
	if from := max(e.Fire.RunAtMS, planned); !steady || start.UnixMilli() < from {
		s.wheel.AddAt(from, e)
		return
	}
	if !e.Epoch.Valid() || time.Since(view.asOf) >= maxStateAgeAtCall {
		s.recheckLater(e)
		return
	}
	n := e.Fire.Attempt + 1
	late := start.UnixMilli() - planned
	if n == 1 {
		e.Fire.FirstLatenessMS = late
	}
	var each *guard
	var ask callback.Guard // nil for a single target, whose breaker was asked already
	if def.Several() {
		each = &guard{svc: s, entry: e}
		ask = each
	} else {
		s.observeLateness(e, n, late)
	}
	p.called = true
	e.Began.Store(true)
	if e.Ordered && n == 1 {
		s.order.Called(e)
	}
	s.met.activeAttempts.Inc()
	began := time.Now()
	ctx, done := s.activeCalls.begin(e)
	r := s.opts.Caller.Call(ctx, &callback.Request{
		Fire:      e.Fire.FireID,
		App:       view.State.App,
		PlannedMS: planned,
		Attempt:   n,
		Start:     start,
		Target:    def.Target,
		Timeout:   time.Duration(def.Retry.Timeout),
		Fanout:    def.Fanout,
		Done:      e.Fire.TargetBits,
		NoRetry:   def.Retry.NoRetry,
		Name:      view.State.Name,
		Labels:    def.Labels,
		Zone:      templateZone(def),
		Cause:     e.Fire.Cause.String(),
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
	if !e.Canary() {
		s.met.callSeconds.Observe(took.Seconds())
	}
	if e.Epoch.Context().Err() != nil && r.Class != callback.Success {
		// Cancelled because the session expired: not a failed attempt, and no longer ours to
		// record.
		return
	}
	p.report(&r)
	m := attemptResult{Result: r, number: n, start: start, took: took}
	if cancelled && r.Class != callback.Success {
		e.Fire.Attempt = n
		s.recorder.End(
			s.outcome(e, timer.Skipped, timer.ReasonCancelled),
			e,
			m.attempts(e.Fire.FireID)...)
		return
	}
	s.decide(e, &m)
}

// observeLateness records the lateness of a fire's first attempt.
func (s *Service) observeLateness(e *inflight.Entry, n int32, lateMS int64) {
	if n == 1 && !e.Canary() {
		s.met.lateness.Observe(float64(lateMS) / 1000) //nolint:mnd // ms to s
	}
}

// skip finishes a fire without a call.
func (s *Service) skip(e *inflight.Entry, reason timer.Reason) {
	o := s.outcome(e, timer.Skipped, reason)
	// The edit that superseded a fire has already uncounted it.
	o.Uncounted = e.Def != nil && e.Def.Schedule.MaxFires > 0 && e.Fire.Series == 0 &&
		e.Fire.Attempt == 0 &&
		reason != timer.ReasonSuperseded &&
		reason != timer.ReasonDeleted
	s.recorder.End(o, e)
}

// passed tells the sequence of a late fire that the fire no longer holds back later ones: it has
// ended, or waits for something else.
func (s *Service) passed(e *inflight.Entry) {
	if e.Ordered {
		s.order.Passed(e.Fire.FireID)
	}
}

// recheckLater returns a fire to the wheel for a moment, or drops it if its session has expired.
func (s *Service) recheckLater(e *inflight.Entry) {
	s.recheckAt(s.opts.Clock.Now().Add(recheckAfter).UnixMilli(), e)
}

func (s *Service) recheckAt(atMS int64, e *inflight.Entry) {
	if e.Epoch.Context().Err() != nil {
		s.inflight.Remove(e)
		return
	}
	s.wheel.AddAt(atMS, e)
}

// timerView is what is known of a fire's timer, and the time as of which its state is true.
type timerView struct {
	admission.View

	asOf time.Time
}

// resolve finds the definition by which to call the fire, which may be missing, and returns the
// timer's state. The state is from the cache if that is fresh and allows the call. Otherwise it is
// read from the store, batched with concurrent reads.
func (s *Service) resolve(e *inflight.Entry) (timerView, error) {
	for {
		view, err := s.stateOf(e)
		if err != nil {
			return timerView{}, err
		}
		version, err := s.versionFor(e, &view.State)
		if err != nil {
			return timerView{}, err
		}
		if e.Def != nil && version == e.Fire.Version {
			return view, nil
		}
		e.Fire.Version, e.Def, e.Endpoint = version, nil, ""
		ctx, cancel := context.WithTimeout(e.Epoch.Context(), claimTimeout)
		err = s.stateCache.load(ctx, []*inflight.Entry{e})
		cancel()
		if err != nil || e.Def == nil {
			return view, err
		}
		// Read the state again, so that it does not age while the definition is read.
	}
}

// stateOf returns the state of a fire's timer, with its verdict.
func (s *Service) stateOf(e *inflight.Entry) (timerView, error) {
	// A cached state may be a second old, which is enough for a call. A skip is final and needs the
	// stored state, because the timer may have been activated since.
	state, asOf, ok := s.stateCache.state(e.Fire.Timer)
	var v admission.Verdict
	var err error
	if ok {
		if v, err = s.decideVerdict(e, &state); err != nil {
			return timerView{}, err
		}
	}
	if !ok || v.Action != admission.Call {
		asOf = time.Now()
		if state, err = s.stateReads.Do(e.Epoch.Context(), e.Fire.Timer); err != nil {
			return timerView{}, err //nolint:wrapcheck // already wrapped
		}
		if v, err = s.decideVerdict(e, &state); err != nil {
			return timerView{}, err
		}
	}
	if state.App != "" {
		e.App = state.App // the cache may evict the timer before the call ends
	}
	return timerView{View: admission.View{State: state, Status: v}, asOf: asOf}, nil
}

// versionFor returns the version by which to call a fire, given its timer's state. An edit that
// keeps the due times leaves open fires untouched, so a row has the version it was planned by. If
// an edit changed the plan, the row itself tells, see readRow.
func (s *Service) versionFor(e *inflight.Entry, state *timer.State) (int32, error) {
	f := e.Fire
	f.DueMS = e.DueMS(state)
	version, sure := currentVersion(&f, state)
	if sure || e.Def != nil && e.StateVersion == state.Version {
		return version, nil
	}
	ctx, cancel := context.WithTimeout(e.Epoch.Context(), claimTimeout)
	defer cancel()
	version, err := s.opts.Store.VersionAt(ctx, f)
	if err != nil {
		return 0, fmt.Errorf("reading the version to call a fire by: %w", err)
	}
	if e.Def != nil { // without a definition it is unknown whether it is a one-shot
		e.StateVersion = state.Version
	}
	return version, nil
}

// currentVersion returns the version by which to call a fire. sure is false if the state does not
// suffice to tell. A fire due after the current version took effect is called by it, an earlier one
// by the version in effect then.
func currentVersion(f *timer.Fire, s *timer.State) (version int32, sure bool) {
	switch {
	case f.Series != 0, f.Version >= s.Version, f.DueMS <= s.VersionMS && f.Version+1 == s.Version:
		return f.Version, true
	case f.DueMS <= s.VersionMS:
		return f.Version, false
	case s.PlanVersion <= f.Version:
		return s.Version, true
	default:
		return f.Version, true // its row was moved to the version, or the fire is superseded
	}
}

// stillWanted reports whether the timer still wants the fire as decided. The reads since (slot,
// catch-up, app) may have taken longer than P5 allows for the state. If the state has changed, the
// fire is decided again at once.
func (s *Service) stillWanted(e *inflight.Entry, view *timerView) bool {
	if time.Since(view.asOf) >= maxStateAgeAtDecision {
		asOf := time.Now()
		now, err := s.stateReads.Do(e.Epoch.Context(), e.Fire.Timer)
		if err != nil {
			s.log.Debug().Err(err).Msg("timer not read again, fire delayed")
			s.recheckLater(e)
			return false
		}
		now.Running = view.State.Running // acquiring its own slot changes this
		if now != view.State {
			// no wait is needed: the cache has the new state
			s.wheel.AddAt(s.opts.Clock.Now().UnixMilli(), e)
			return false
		}
		view.asOf = asOf
	}
	if e.Fire.Cause != timer.CauseBackfill {
		return true
	}
	view.Cancelled = admission.Unknown // it was read before the slot and the app
	return s.admit(e, view)
}

func (s *Service) outcome(
	e *inflight.Entry,
	kind timer.OutcomeKind,
	reason timer.Reason,
) timer.Outcome {
	o := timer.Outcome{
		Fire:       e.Fire,
		Kind:       kind,
		Reason:     reason,
		FinishedMS: s.opts.Clock.Now().UnixMilli(),
		UntilMS:    e.Fire.DueMS,
		Count:      1,
		Attempts:   e.Fire.Attempt,
		LatenessMS: e.Fire.FirstLatenessMS,
	}
	s.addSuccessor(e, &o)
	return o
}
