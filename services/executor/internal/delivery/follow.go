package delivery

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/lookup"
)

// recordRetry is the time between reads of a fire's last attempt.
const recordRetry = time.Second

// decide turns the result of an attempt into an outcome, a retry, or a wait for asynchronous
// completion.
func (d *Deliverer) decide(e *inflight.Entry, a *Attempt) {
	e.Fire.Attempt, e.Fire.TargetBits = a.Number, e.Fire.TargetBits.Next()|a.Done
	e.Attempted(a.Start.UnixMilli())
	d.follow(e, a, Decide(e, a, d.opts.Clock.Now(), rand.Float64()))
}

// follow carries out what follows an attempt. The fire then belongs to the recorder, or to a lookup
// before.
func (d *Deliverer) follow(e *inflight.Entry, a *Attempt, v Verdict) {
	switch v.Action {
	case Deliver:
		o := d.outcome(e, timer.Delivered, timer.ReasonNone)
		o.StatusCode, o.DurationMS = a.StatusCode, a.Took.Milliseconds()
		if a.Number == 1 && len(a.Targets) == 0 {
			d.end(e, o) // the outcome alone records a successful first attempt
			return
		}
		d.end(e, o, a.Records(e.Fire.FireID)...)
	case Accept:
		e.Fire.State = timer.FireAccepted
		e.MoveTo(d.opts.Clock.Now().Add(v.Wait), d.opts.Counts)
		d.opts.Recorder.Release(e, a.Records(e.Fire.FireID)...)
	case Retry:
		if v.Rest {
			e.Fire.TargetBits |= a.triedBits()
		}
		if v.Rest && !a.BrokenOff {
			e.DeferFor(timer.WaitBreaker, d.opts.Clock.Now().UnixMilli())
		}
		e.Fire.State = timer.FireRetrying
		e.MoveTo(d.opts.Clock.Now().Add(v.Wait), d.opts.Counts)
		if v.Wait < inflight.MaxWait {
			d.opts.Recorder.Hold(e, a.Records(e.Fire.FireID)...)
			return
		}
		d.opts.Recorder.Release(e, a.Records(e.Fire.FireID)...)
	case Fail:
		if v.Pause {
			q := pauseQuestion{e.App, e.VersionKey(), e.Epoch}
			d.pauses.Ask(e.Fire.AppID, e.Priority(), q,
				func(lookup.Answer[struct{}]) { d.fail(e, a, v.Reason) })
			return
		}
		d.fail(e, a, v.Reason)
	}
}

func (d *Deliverer) fail(e *inflight.Entry, a *Attempt, why timer.Reason) {
	o := d.outcome(e, timer.Failed, why)
	o.StatusCode, o.DurationMS, o.Failure = a.StatusCode, a.Took.Milliseconds(), a.Failure
	e.LastError = a.Error
	d.end(e, o, a.Records(e.Fire.FireID)...)
}

// Reject finishes as failed a fire that can never be called, without a call.
func (d *Deliverer) Reject(e *inflight.Entry, why string) {
	e.Fire.Attempt++
	r := callback.Result{Class: callback.Reject, Error: why, Failure: timer.FailureInvalid}
	d.fail(e, d.notSent(e.Fire.Attempt, r), timer.ReasonRejected)
}

// AsyncFailed counts an accepted attempt as failed: it was not completed in time, or completed as
// failed.
func (d *Deliverer) AsyncFailed(e *inflight.Entry) {
	const late = "accepted, and not completed in time"
	r := callback.Result{Class: callback.Retry, Error: late, Failure: timer.FailureAsync}
	a := d.notSent(e.Fire.Attempt, r)
	if e.Fire.State != timer.FireAsyncFailed {
		d.decide(e, a)
		return
	}
	d.lastResult(e, timer.FailureAsync, "completed as failed", func(r callback.Result) {
		a.Result, a.Recorded = r, true
		d.decide(e, a)
	})
}

// giveUpLate finishes a failed fire that has waited for a limit or breaker past its give-up time.
// It reports whether it did.
func (d *Deliverer) giveUpLate(e *inflight.Entry) bool {
	now := d.opts.Clock.Now()
	if !GivesUp(e, now) {
		return false
	}
	d.lastResult(e, timer.FailureNone, "gave up", func(r callback.Result) {
		a := Attempt{Result: r, Number: e.Fire.Attempt, Start: now, Recorded: true}
		d.follow(e, &a, GiveUp(e, &a))
	})
	return true
}

// lastResult reads the last recorded attempt, perhaps by another executor, for the outcome and the
// dead letter, and passes it on. If there is no such record, that is the given failure and text.
//
// It asks until the store answers: the outcome needs the store in any case. After a crash meanwhile,
// or if the session expires, the next owner of the fire asks.
func (d *Deliverer) lastResult(
	e *inflight.Entry,
	failure timer.Failure,
	text string,
	next func(callback.Result),
) {
	d.ending.Add(1)
	d.askLastResult(e, func(attempts []timer.Attempt) {
		r := callback.Result{Class: callback.Retry, Failure: failure, Error: text}
		if a := decisive(attempts, e); a != nil {
			r.StatusCode, r.Failure = a.StatusCode, a.Failure
			r.Error = cmp.Or(a.Error, text)
		}
		next(r)
	})
}

func (d *Deliverer) askLastResult(e *inflight.Entry, next func([]timer.Attempt)) {
	d.records.Ask(e.Fire.AppID, e.Priority(), recordQuestion{e.App, e.Fire.FireID},
		func(a lookup.Answer[recordAnswer]) {
			switch err := cmp.Or(a.Err, a.Value.err); {
			case err == nil, timer.CodeOf(err) == timer.CodeNotFound:
				next(a.Value.attempts)
			case e.Epoch.Context().Err() != nil, errors.Is(err, lookup.ErrClosed):
				d.opts.Inflight.Remove(e)
			default:
				d.opts.Logger.Warn().Func(d.opts.Traces.About(e)).
					Err(err).
					Msg("last attempt of the fire not read, outcome delayed")
				time.AfterFunc(recordRetry, func() { d.askLastResult(e, next) })
				return
			}
			d.ending.Add(-1)
		})
}

// decisive returns the record of the failure by which the last attempt failed; nil: there is none.
// Several targets have one record each. That of a completion as failed decides, as the acceptance
// did before; otherwise the one that the fire's mode took.
func decisive(records []timer.Attempt, e *inflight.Entry) *timer.Attempt {
	var found *timer.Attempt
	for i := range records {
		a := &records[i]
		if a.N != e.Fire.Attempt || a.Failure == timer.FailureNone {
			continue
		}
		if found == nil || a.Failure == timer.FailureAsync || e.Def.Mode == timer.ModeAny {
			found = a
		}
	}
	return found
}

// readRecords reads the records of a fire. An error is that of one fire: the others of the batch may
// be readable, or were before the time was up.
func (d *Deliverer) readRecords(ctx context.Context, q recordQuestion) (recordAnswer, error) {
	rec, err := d.opts.Store.Fire(ctx, q.app, q.id)
	return recordAnswer{rec.Attempts, err}, nil
}
