package executor

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// attemptResult is an attempt that was made, and what came of it.
type attemptResult struct {
	callback.Result

	number   int32
	start    time.Time
	took     time.Duration
	recorded bool // its record is written already
}

// attempts are the records of it: one, or one for each of several targets.
func (m *attemptResult) attempts(id timer.FireID) []timer.Attempt {
	if m.recorded {
		return nil
	}
	if len(m.Targets) == 0 {
		return []timer.Attempt{
			{
				FireID:     id,
				N:          m.number,
				StartMS:    m.start.UnixMilli(),
				DurationMS: m.took.Milliseconds(),
				StatusCode: m.StatusCode,
				Error:      m.Error,
				Excerpt:    m.Excerpt,
				Failure:    m.Failure,
			},
		}
	}
	all := make([]timer.Attempt, len(m.Targets))
	for i := range m.Targets {
		t := &m.Targets[i]
		all[i] = timer.Attempt{
			FireID:     id,
			N:          m.number,
			StartMS:    t.Start.UnixMilli(),
			DurationMS: t.Duration.Milliseconds(),
			Target:     t.Name,
			StatusCode: t.StatusCode,
			Error:      t.Error,
			Excerpt:    t.Excerpt,
			Failure:    t.Failure,
		}
	}
	return all
}

// decide turns the result of an attempt into an outcome, a retry, or a wait for the receiver to
// complete it.
func (s *Service) decide(e *claimedFire, m *attemptResult) {
	e.fire.Attempt, e.fire.TargetBits = m.number, e.fire.TargetBits|m.Done
	// where one of several targets is gone and another may still take the fire, the fire is not
	// over.
	if m.Pause && m.Class == callback.Reject {
		s.finish(e, m, timer.ReasonGone)
		return
	}
	switch m.Class {
	case callback.Success:
		o := s.outcome(e, timer.Delivered, timer.ReasonNone)
		o.StatusCode, o.DurationMS = m.StatusCode, m.took.Milliseconds()
		if m.number == 1 && len(m.Targets) == 0 {
			s.recorder.end(o, e) // the outcome tells all of a single attempt that succeeded
			return
		}
		s.recorder.end(o, e, m.attempts(e.fire.FireID)...)
	case callback.Accepted:
		e.fire.State = timer.FireAccepted
		s.moveTo(e, s.opts.Clock.Now().Add(m.CompleteWithin))
		s.recorder.release(e, m.attempts(e.fire.FireID)...)
	case callback.Retry:
		s.retry(e, m)
	default:
		s.fail(e, m, timer.ReasonRejected)
	}
}

// retry puts off the next attempt, or ends the fire as failed.
func (s *Service) retry(e *claimedFire, m *attemptResult) {
	status := m.StatusCode
	if e.def.Several() {
		status = 0 // it is one target's
	}
	wait, end := e.def.Retry.Next(timer.FailedAttempt{
		Attempt: int(m.number), Status: status, NotRetried: m.NotRetried, RetryAfter: m.RetryAfter,
		Since: s.opts.Clock.Now().Sub(time.UnixMilli(plannedMS(e))), Random: rand.Float64(),
	})
	if end != timer.ReasonNone {
		s.finish(e, m, end)
		return
	}
	e.fire.State = timer.FireRetrying
	s.moveTo(e, s.opts.Clock.Now().Add(wait))
	if wait < maxInflightWait {
		s.recorder.hold(e, m.attempts(e.fire.FireID)...)
		return
	}
	s.recorder.release(e, m.attempts(e.fire.FireID)...)
}

// moveTo gives a fire another run. Its bucket belongs to its minute, also where it stays in hand,
// for a stop may give it back.
func (s *Service) moveTo(e *claimedFire, at time.Time) {
	e.fire.RunAtMS = at.UnixMilli()
	e.fire.Bucket = s.opts.Counts.Bucket(e.fire.FireID, e.fire.RunAtMinute())
}

// finish ends a fire as failed that no attempt follows. Where a receiver said that it is gone for
// good, the timer is paused for it.
func (s *Service) finish(e *claimedFire, m *attemptResult, why timer.Reason) {
	if m.Pause || e.fire.TargetBits >= timer.TargetGone {
		s.pauseTimer(e)
		why = timer.ReasonGone
	}
	s.fail(e, m, why)
}

func (s *Service) fail(e *claimedFire, m *attemptResult, why timer.Reason) {
	o := s.outcome(e, timer.Failed, why)
	o.StatusCode, o.DurationMS, o.Failure = m.StatusCode, m.took.Milliseconds(), m.Failure
	e.lastError = m.Error
	s.recorder.end(o, e, m.attempts(e.fire.FireID)...)
}

// reject ends a fire that can never be called, without a call.
func (s *Service) reject(e *claimedFire, why string) {
	e.fire.Attempt++
	m := attemptResult{
		Result: callback.Result{Class: callback.Reject, Error: why, Failure: timer.FailureInvalid},
		number: e.fire.Attempt,
		start:  s.opts.Clock.Now(),
	}
	s.fail(e, &m, timer.ReasonRejected)
}

// asyncFailed counts the attempt that a receiver accepted, and did not complete in time or completed
// as failed, as one that failed.
func (s *Service) asyncFailed(e *claimedFire) {
	m := attemptResult{
		Result: callback.Result{
			Class:   callback.Retry,
			Error:   "accepted, and not completed in time",
			Failure: timer.FailureAsync,
		},
		number: e.fire.Attempt,
		start:  s.opts.Clock.Now(),
	}
	if e.fire.State == timer.FireAsyncFailed {
		m.Result, m.recorded = s.lastResult(e, timer.FailureAsync, "completed as failed"), true
	}
	s.retry(e, &m)
}

// giveUpLate ends a fire that failed before and waited so long for a limit or a breaker since that no
// attempt may start any more.
func (s *Service) giveUpLate(e *claimedFire) bool {
	now, within := s.opts.Clock.Now(), time.Duration(e.def.Retry.GiveUpAfter)
	if within <= 0 || e.fire.Attempt == 0 || now.Sub(time.UnixMilli(plannedMS(e))) <= within {
		return false
	}
	s.finish(
		e,
		&attemptResult{
			Result:   s.lastResult(e, timer.FailureNone, "given up"),
			number:   e.fire.Attempt,
			start:    now,
			recorded: true,
		},
		timer.ReasonGaveUp,
	)
	return true
}

// lastResult reads what the attempt came to that was recorded last, perhaps by somebody else: an
// outcome and a dead letter tell it. Where it cannot be read, they have what is given here.
func (s *Service) lastResult(e *claimedFire, failure timer.Failure, text string) callback.Result {
	r := callback.Result{Class: callback.Retry, Failure: failure, Error: text}
	ctx, cancel := context.WithTimeout(e.epoch.Context(), claimTimeout)
	defer cancel()
	rec, err := s.opts.Store.Fire(ctx, e.app, e.fire.FireID)
	if err != nil {
		s.log.Debug().
			Err(err).
			Stringer("fire", e.fire.FireID).
			Msg("last attempt of a fire not read")
		return r
	}
	for i := range rec.Attempts {
		a := &rec.Attempts[i]
		if a.N == e.fire.Attempt && a.Failure != timer.FailureNone {
			r.StatusCode, r.Failure, r.Error = a.StatusCode, a.Failure, cmp.Or(a.Error, text)
			break
		}
	}
	return r
}

// pauseTimer pauses a timer whose receiver said that it is gone for good. Should it fail, the next
// fire's receiver will say it again.
func (s *Service) pauseTimer(e *claimedFire) {
	ctx, cancel := context.WithTimeout(e.epoch.Context(), claimTimeout)
	defer cancel()
	changed, err := s.opts.Store.SetStatus(ctx, []store.StatusChange{{
		App: e.app, ID: e.fire.Timer, Status: timer.StatusPaused, Reason: string(timer.ReasonGone),
		// one that was deactivated meanwhile, or paused by somebody, stays so.
		From: []timer.Status{timer.StatusActive},
	}}, s.opts.Planner.Plan)
	var fires []timer.Fire
	for i := range changed {
		if err == nil {
			err = changed[i].Err
		}
		fires = append(fires, changed[i].Fires...)
	}
	s.opts.Dispatch.Committed(ctx, fires)
	if err != nil && timer.CodeOf(err) != timer.CodeConflict {
		s.log.Warn().
			Err(err).
			Stringer("timer", e.fire.Timer).
			Msg("a timer whose receiver is gone was not paused")
	}
}

// token returns what a receiver may complete an attempt by, where it may.
func (s *Service) token(e *claimedFire, number int32) string {
	if s.opts.Tokens == nil {
		return ""
	}
	for i := range e.def.Targets {
		if e.def.Targets[i].Async > 0 {
			return s.opts.Tokens.Token(e.fire.FireID, number)
		}
	}
	if e.def.Target.Async > 0 {
		return s.opts.Tokens.Token(e.fire.FireID, number)
	}
	return ""
}

// templateZone returns the zone that a timer's due instants are shown in by templates.
func templateZone(d *timer.Definition) *time.Location {
	if d.Schedule.Zone == "" || d.Schedule.Zone == time.UTC.String() {
		return nil
	}
	z, err := zone.Load(d.Schedule.Zone)
	if err != nil {
		return nil
	}
	return z.Location()
}
