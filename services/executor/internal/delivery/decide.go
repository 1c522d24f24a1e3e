package delivery

import (
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// Action is what follows an attempt.
type Action uint8

// The actions.
const (
	Deliver Action = iota // the fire ends as delivered
	Accept                // it waits for its asynchronous completion, at most Verdict.Wait
	Retry                 // the next attempt follows after Verdict.Wait
	Fail                  // it ends as failed, for Verdict.Reason, and becomes a dead letter
)

// Verdict is what follows an attempt.
type Verdict struct {
	Action Action
	Wait   time.Duration
	Reason timer.Reason
	Pause  bool // a receiver is gone for good: the timer is paused first
	Rest   bool // the retry is only for targets that a breaker refused, or that were not tried
}

// Decide returns what follows an attempt. The fire has the attempt and the targets done in it. random
// is in [0, 1) and spreads retries.
func Decide(e *inflight.Entry, a *Attempt, now time.Time, random float64) Verdict {
	// If only one of several targets is gone, the fire continues for the others.
	if a.Pause && a.Class == callback.Reject {
		return end(e, a, timer.ReasonGone)
	}
	switch a.Class {
	case callback.Success:
		return Verdict{Action: Deliver}
	case callback.Accepted:
		return Verdict{Action: Accept, Wait: a.CompleteWithin}
	case callback.Reject:
		return Verdict{Action: Fail, Reason: timer.ReasonRejected}
	case callback.Retry:
	}
	status := a.StatusCode
	if e.Def.Several() {
		status = 0 // it would be the status of only one target
	}
	wait, why := e.Def.Retry.Next(timer.FailedAttempt{
		Attempt: int(a.Number), Status: status, NotRetried: a.NotRetried, RetryAfter: a.RetryAfter,
		Since: now.Sub(time.UnixMilli(e.PlannedMS())), Random: random,
	})
	if why == timer.ReasonExhausted && (a.BrokenOff || !a.Until.IsZero()) {
		return Verdict{Action: Retry, Wait: max(a.Until.Sub(now), 0), Rest: true}
	}
	if why != timer.ReasonNone {
		return end(e, a, why)
	}
	return Verdict{Action: Retry, Wait: wait}
}

// GivesUp reports whether a failed fire has waited past its give-up time, for a limit or a breaker.
func GivesUp(e *inflight.Entry, now time.Time) bool {
	within := time.Duration(e.Def.Retry.GiveUpAfter)
	return within > 0 && e.Fire.Attempt > 0 && now.Sub(time.UnixMilli(e.PlannedMS())) > within
}

// GiveUp returns what follows the last attempt of a fire that gives up.
func GiveUp(e *inflight.Entry, a *Attempt) Verdict { return end(e, a, timer.ReasonGaveUp) }

// end ends a fire as failed, without another attempt. If a receiver said that it is gone for good,
// that is the reason.
func end(e *inflight.Entry, a *Attempt, why timer.Reason) Verdict {
	if a.Pause || e.Fire.TargetBits.AnyGone() {
		return Verdict{Action: Fail, Reason: timer.ReasonGone, Pause: true}
	}
	return Verdict{Action: Fail, Reason: why}
}
