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
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/lookup"
)

// attemptResult is an attempt and its result.
type attemptResult struct {
	callback.Result

	number   int32
	start    time.Time
	took     time.Duration
	recorded bool // its record is already written
}

// attempts returns its records: one, or one per target.
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

// decide turns the result of an attempt into an outcome, a retry, or a wait for asynchronous
// completion.
func (s *Service) decide(e *inflight.Entry, m *attemptResult) {
	e.Fire.Attempt, e.Fire.TargetBits = m.number, e.Fire.TargetBits|m.Done
	// If only one of several targets is gone, the fire continues for the others.
	if m.Pause && m.Class == callback.Reject {
		s.finish(e, m, timer.ReasonGone)
		return
	}
	switch m.Class {
	case callback.Success:
		o := s.outcome(e, timer.Delivered, timer.ReasonNone)
		o.StatusCode, o.DurationMS = m.StatusCode, m.took.Milliseconds()
		if m.number == 1 && len(m.Targets) == 0 {
			s.end(e, o) // the outcome alone records a successful first attempt
			return
		}
		s.end(e, o, m.attempts(e.Fire.FireID)...)
	case callback.Accepted:
		e.Fire.State = timer.FireAccepted
		s.moveTo(e, s.opts.Clock.Now().Add(m.CompleteWithin))
		s.recorder.Release(e, m.attempts(e.Fire.FireID)...)
	case callback.Retry:
		s.retry(e, m)
	case callback.Reject:
		s.fail(e, m, timer.ReasonRejected)
	}
}

// retry delays the next attempt, or finishes the fire as failed.
func (s *Service) retry(e *inflight.Entry, m *attemptResult) {
	status := m.StatusCode
	if e.Def.Several() {
		status = 0 // it would be the status of only one target
	}
	wait, end := e.Def.Retry.Next(timer.FailedAttempt{
		Attempt: int(m.number), Status: status, NotRetried: m.NotRetried, RetryAfter: m.RetryAfter,
		Since: s.opts.Clock.Now().Sub(time.UnixMilli(e.PlannedMS())), Random: rand.Float64(),
	})
	if end != timer.ReasonNone {
		s.finish(e, m, end)
		return
	}
	e.Fire.State = timer.FireRetrying
	s.moveTo(e, s.opts.Clock.Now().Add(wait))
	if wait < maxInflightWait {
		s.recorder.Hold(e, m.attempts(e.Fire.FireID)...)
		return
	}
	s.recorder.Release(e, m.attempts(e.Fire.FireID)...)
}

// moveTo sets a fire's run time. Its bucket depends on the minute and is set even if the fire stays
// in flight, because a stop may release it.
func (s *Service) moveTo(e *inflight.Entry, at time.Time) {
	e.Fire.RunAtMS = at.UnixMilli()
	e.Fire.Bucket = s.opts.Counts.Bucket(e.Fire.FireID, e.Fire.RunAtMinute())
}

// finish ends a fire as failed, without another attempt. If a receiver said that it is gone for
// good, finish pauses the timer.
func (s *Service) finish(e *inflight.Entry, m *attemptResult, why timer.Reason) {
	if m.Pause || e.Fire.TargetBits.AnyGone() {
		s.lookups.pauses.Ask(e.Fire.AppID, e.Priority(), pauseQuestion{e.App, e.Fire.Timer},
			func(lookup.Answer[struct{}]) { s.fail(e, m, timer.ReasonGone) })
		return
	}
	s.fail(e, m, why)
}

func (s *Service) fail(e *inflight.Entry, m *attemptResult, why timer.Reason) {
	o := s.outcome(e, timer.Failed, why)
	o.StatusCode, o.DurationMS, o.Failure = m.StatusCode, m.took.Milliseconds(), m.Failure
	e.LastError = m.Error
	s.end(e, o, m.attempts(e.Fire.FireID)...)
}

// reject finishes as failed a fire that can never be called, without a call.
func (s *Service) reject(e *inflight.Entry, why string) {
	e.Fire.Attempt++
	m := attemptResult{
		Result: callback.Result{Class: callback.Reject, Error: why, Failure: timer.FailureInvalid},
		number: e.Fire.Attempt,
		start:  s.opts.Clock.Now(),
	}
	s.fail(e, &m, timer.ReasonRejected)
}

// asyncFailed counts an accepted attempt as failed: it was not completed in time, or completed as
// failed.
func (s *Service) asyncFailed(e *inflight.Entry) {
	m := attemptResult{
		Result: callback.Result{
			Class:   callback.Retry,
			Error:   "accepted, and not completed in time",
			Failure: timer.FailureAsync,
		},
		number: e.Fire.Attempt,
		start:  s.opts.Clock.Now(),
	}
	if e.Fire.State != timer.FireAsyncFailed {
		s.retry(e, &m)
		return
	}
	s.lastResult(e, timer.FailureAsync, "completed as failed", func(r callback.Result) {
		m.Result, m.recorded = r, true
		s.retry(e, &m)
	})
}

// giveUpLate finishes a failed fire that has waited for a limit or breaker past its give-up time.
// It reports whether it did.
func (s *Service) giveUpLate(e *inflight.Entry) bool {
	now, within := s.opts.Clock.Now(), time.Duration(e.Def.Retry.GiveUpAfter)
	if within <= 0 || e.Fire.Attempt == 0 || now.Sub(time.UnixMilli(e.PlannedMS())) <= within {
		return false
	}
	s.lastResult(e, timer.FailureNone, "gave up", func(r callback.Result) {
		m := attemptResult{Result: r, number: e.Fire.Attempt, start: now, recorded: true}
		s.finish(e, &m, timer.ReasonGaveUp)
	})
	return true
}

// lastResult reads the last recorded attempt, perhaps by another executor, for the outcome and the
// dead letter, and passes it on. If the read fails, that is the given failure and text.
func (s *Service) lastResult(
	e *inflight.Entry,
	failure timer.Failure,
	text string,
	next func(callback.Result),
) {
	s.lookups.records.Ask(e.Fire.AppID, e.Priority(), recordQuestion{e.App, e.Fire.FireID},
		func(rec lookup.Answer[store.FireRecord]) {
			r := callback.Result{Class: callback.Retry, Failure: failure, Error: text}
			for i := range rec.Value.Attempts {
				a := &rec.Value.Attempts[i]
				if a.N == e.Fire.Attempt && a.Failure != timer.FailureNone {
					r.StatusCode, r.Failure = a.StatusCode, a.Failure
					r.Error = cmp.Or(a.Error, text)
					break
				}
			}
			next(r)
		})
}

// readRecords reads the records of fires. One that cannot be read is empty.
func (s *Service) readRecords(ctx context.Context, q recordQuestion) (store.FireRecord, error) {
	rec, err := s.opts.Store.Fire(ctx, q.app, q.id)
	if err != nil {
		s.log.Debug().
			Err(err).
			Stringer("fire", q.id).
			Msg("last attempt of the fire not read")
		return store.FireRecord{}, nil // the others of the batch may be readable
	}
	return rec, nil
}

// pauseTimers pauses timers whose receivers said that they are gone for good. If that fails, the
// next fire's receiver says it again.
func (s *Service) pauseTimers(ctx context.Context, gone []pauseQuestion) ([]struct{}, error) {
	changes := make([]store.StatusChange, 0, len(gone))
	seen := make(map[timer.ID]bool, len(gone))
	for _, q := range gone {
		if !seen[q.id] {
			seen[q.id] = true
			changes = append(changes, store.StatusChange{
				App: q.app, ID: q.id, Status: timer.StatusPaused, Reason: string(timer.ReasonGone),
				// A timer that was deactivated or paused meanwhile stays so.
				From: []timer.Status{timer.StatusActive},
			})
		}
	}
	changed, err := s.opts.Store.SetStatus(ctx, changes, s.opts.Planner.Plan)
	var fires []timer.Fire
	for i := range changed {
		if err == nil && timer.CodeOf(changed[i].Err) != timer.CodeConflict {
			err = changed[i].Err
		}
		fires = append(fires, changed[i].Fires...)
	}
	s.opts.Dispatch.Committed(ctx, fires)
	if err != nil && timer.CodeOf(err) != timer.CodeConflict {
		s.log.Warn().
			Err(err).
			Stringer("timer", changes[0].ID).
			Int("timers", len(changes)).
			Msg("timers with a gone receiver not paused")
	}
	return make([]struct{}, len(gone)), nil
}

// token returns the completion token of an attempt, or "" if its receivers may not complete it
// later.
func (s *Service) token(e *inflight.Entry, number int32) string {
	if s.opts.Tokens == nil {
		return ""
	}
	for i := range e.Def.Targets {
		if e.Def.Targets[i].Async > 0 {
			return s.opts.Tokens.Token(e.Fire.FireID, number)
		}
	}
	if e.Def.Target.Async > 0 {
		return s.opts.Tokens.Token(e.Fire.FireID, number)
	}
	return ""
}

// templateZone returns the zone in which templates show due times; nil means UTC.
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
