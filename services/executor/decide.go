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
	"github.com/carillon-timer/carillon/services/executor/internal/delivery"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/lookup"
)

// decide turns the result of an attempt into an outcome, a retry, or a wait for asynchronous
// completion.
func (s *Service) decide(e *inflight.Entry, a *delivery.Attempt) {
	e.Fire.Attempt, e.Fire.TargetBits = a.Number, e.Fire.TargetBits|a.Done
	e.Attempted(a.Start.UnixMilli())
	s.follow(e, a, delivery.Decide(e, a, s.opts.Clock.Now(), rand.Float64()))
}

// follow carries out what follows an attempt. The fire then belongs to the recorder, or to a lookup
// before.
func (s *Service) follow(e *inflight.Entry, a *delivery.Attempt, v delivery.Verdict) {
	switch v.Action {
	case delivery.Deliver:
		o := s.outcome(e, timer.Delivered, timer.ReasonNone)
		o.StatusCode, o.DurationMS = a.StatusCode, a.Took.Milliseconds()
		if a.Number == 1 && len(a.Targets) == 0 {
			s.end(e, o) // the outcome alone records a successful first attempt
			return
		}
		s.end(e, o, a.Records(e.Fire.FireID)...)
	case delivery.Accept:
		e.Fire.State = timer.FireAccepted
		e.MoveTo(s.opts.Clock.Now().Add(v.Wait), s.opts.Counts)
		s.recorder.Release(e, a.Records(e.Fire.FireID)...)
	case delivery.Retry:
		e.Fire.State = timer.FireRetrying
		e.MoveTo(s.opts.Clock.Now().Add(v.Wait), s.opts.Counts)
		if v.Wait < inflight.MaxWait {
			s.recorder.Hold(e, a.Records(e.Fire.FireID)...)
			return
		}
		s.recorder.Release(e, a.Records(e.Fire.FireID)...)
	case delivery.Fail:
		if v.Pause {
			s.lookups.pauses.Ask(e.Fire.AppID, e.Priority(), pauseQuestion{e.App, e.Fire.Timer},
				func(lookup.Answer[struct{}]) { s.fail(e, a, v.Reason) })
			return
		}
		s.fail(e, a, v.Reason)
	}
}

func (s *Service) fail(e *inflight.Entry, a *delivery.Attempt, why timer.Reason) {
	o := s.outcome(e, timer.Failed, why)
	o.StatusCode, o.DurationMS, o.Failure = a.StatusCode, a.Took.Milliseconds(), a.Failure
	e.LastError = a.Error
	s.end(e, o, a.Records(e.Fire.FireID)...)
}

// reject finishes as failed a fire that can never be called, without a call.
func (s *Service) reject(e *inflight.Entry, why string) {
	e.Fire.Attempt++
	a := delivery.Attempt{
		Result: callback.Result{Class: callback.Reject, Error: why, Failure: timer.FailureInvalid},
		Number: e.Fire.Attempt,
		Start:  s.opts.Clock.Now(),
	}
	s.fail(e, &a, timer.ReasonRejected)
}

// asyncFailed counts an accepted attempt as failed: it was not completed in time, or completed as
// failed.
func (s *Service) asyncFailed(e *inflight.Entry) {
	a := delivery.Attempt{
		Result: callback.Result{
			Class:   callback.Retry,
			Error:   "accepted, and not completed in time",
			Failure: timer.FailureAsync,
		},
		Number: e.Fire.Attempt,
		Start:  s.opts.Clock.Now(),
	}
	if e.Fire.State != timer.FireAsyncFailed {
		s.decide(e, &a)
		return
	}
	s.lastResult(e, timer.FailureAsync, "completed as failed", func(r callback.Result) {
		a.Result, a.Recorded = r, true
		s.decide(e, &a)
	})
}

// giveUpLate finishes a failed fire that has waited for a limit or breaker past its give-up time.
// It reports whether it did.
func (s *Service) giveUpLate(e *inflight.Entry) bool {
	now := s.opts.Clock.Now()
	if !delivery.GivesUp(e, now) {
		return false
	}
	s.lastResult(e, timer.FailureNone, "gave up", func(r callback.Result) {
		a := delivery.Attempt{Result: r, Number: e.Fire.Attempt, Start: now, Recorded: true}
		s.follow(e, &a, delivery.GiveUp(e, &a))
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
				By:   &store.Actor{Kind: store.ActorSystem, ID: "executor"},
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
