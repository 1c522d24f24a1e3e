package callback

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Call implements Caller: it makes one attempt with the targets that the mode requires.
func (c Callers) Call(ctx context.Context, r *Request) Result {
	switch {
	case !r.Several():
		return c.callOne(ctx, r)
	case r.Mode == timer.ModeAll:
		return c.callAll(ctx, r)
	default:
		return c.callAny(ctx, r)
	}
}

func (c Callers) callOne(ctx context.Context, r *Request) Result {
	caller := c[r.Target.Kind]
	if caller == nil {
		return invalidResult(fmt.Errorf("no target of kind %q can be called", r.Target.Kind))
	}
	if r.SignError != nil && !r.Target.Unsigned {
		return unsentResult(r.SignError)
	}
	return caller.Call(ctx, r)
}

// callTarget calls one of several targets. later is true if others have been called before it.
func (c Callers) callTarget(ctx context.Context, r *Request, i int, later bool) TargetResult {
	q := *r
	q.Target, q.Token, q.Fanout = r.Targets[i], "", timer.Fanout{}
	if r.TargetTokens != nil {
		q.Token = r.TargetTokens[i]
	}
	if began := time.Since(
		r.Start,
	); later && began > 0 && began < time.Hour {
		q.Start = r.Start.Add(began) // after failed targets; an hour apart means two clocks
	}
	began := time.Now()
	res := c.callInTime(ctx, &q, later)
	return TargetResult{
		Index:    i,
		Name:     r.TargetName(i),
		Start:    q.Start,
		Duration: time.Since(began),
		Result:   res,
	}
}

// callInTime calls one target. One that is called after others has the time that these left of the
// request's, and is not called without any.
func (c Callers) callInTime(ctx context.Context, q *Request, later bool) Result {
	if !later || q.Deadline.IsZero() {
		return c.callGuarded(ctx, q)
	}
	left := time.Until(q.Deadline).Truncate(time.Millisecond)
	switch {
	case left <= 0:
		return Result{
			Class:   Retry,
			Failure: timer.FailureTimeout,
			Error:   "not sent: the targets before used up the time",
		}
	case left >= q.Timeout:
		return c.callGuarded(ctx, q)
	}
	q.Timeout = left
	res := c.callGuarded(ctx, q)
	if res.Failure == timer.FailureTimeout {
		res.Error = oneLine(res.Error + ", which is what the targets before left of the time")
	}
	return res
}

// callGuarded calls one target, if its guard allows it.
func (c Callers) callGuarded(ctx context.Context, q *Request) (res Result) {
	if q.Guard != nil {
		done, ok := q.Guard.Allow(&q.Target)
		if !ok {
			return Result{
				Class:   Retry,
				Failure: timer.FailureCircuit,
				Error:   "not sent: the circuit breaker of the endpoint is open",
			}
		}
		defer func() { done(&res) }()
	}
	return c.callOne(ctx, q)
}

// notRetried returns whether Request.NoRetry gives up a target by its answer. It does not affect
// the other targets.
func (r *Request) notRetried(target *TargetResult) bool {
	return target.Class == Retry && target.StatusCode != 0 &&
		r.NoRetry.Contains(target.StatusCode)
}

// gaveUp returns whether an earlier attempt gave up target i, by its status or because it was the
// last one. Such a target is not called again, and the fire's row records it. A target rejected
// without an answer is called again with the others, because this deployment's rules and keys may
// have changed.
func (r *Request) gaveUp(i int) bool { return r.Done.Has(i, timer.TargetGivenUp) }

// gone returns whether target i of a ModeAll timer answered 410 in an earlier attempt.
func (r *Request) gone(i int) bool { return r.Done.Has(i, timer.TargetGone) }

// inOrder returns the targets of a ModeAny timer in the order of calls. Those that have accepted an
// earlier attempt and not completed it come last, and in turn: another one may take the fire.
func (r *Request) inOrder() []int {
	var order, last []int
	for i := range r.Targets {
		if r.Done.Has(i, timer.TargetAccepted) {
			last = append(last, i)
		} else {
			order = append(order, i)
		}
	}
	if n := len(last); n > 1 {
		first := max(int(r.Attempt)-1, 0) % n
		last = append(last[first:n:n], last[:first]...)
	}
	return append(order, last...)
}

// callAny calls the targets in order until one takes the fire. If all fail, it returns the last
// failure with class Retry if any failure may be retried.
func (c Callers) callAny(ctx context.Context, r *Request) Result {
	out := make([]TargetResult, 0, len(r.Targets))
	sum := Result{Pause: true}
	class, notRetried, done := Reject, false, r.Done.Next()
	waits := false
	for place, i := range r.inOrder() {
		if r.gaveUp(i) {
			notRetried, sum.Pause = true, false
			continue
		}
		if len(out) > 0 && r.Guard != nil && !r.Guard.Continue() {
			// The result concerns this target; the next attempt finds out why it may not be called.
			class, sum.Pause, sum.BrokenOff = Retry, false, true
			break
		}
		target := c.callTarget(ctx, r, i, place > 0)
		out = append(out, target)
		if target.Class == Success || target.Class == Accepted {
			if target.Class == Accepted {
				done |= (timer.TargetAccepted | timer.TargetCompletes) << i
			}
			sum = target.Result
			sum.Targets, sum.Done = out, done
			return sum
		}
		wait, pause := sum.RetryAfter, sum.Pause && target.Pause
		switch {
		case r.notRetried(&target):
			notRetried, done = true, done|timer.TargetGivenUp<<i
		case !waits:
			wait, waits = target.RetryAfter, true
		default:
			wait = min(wait, target.RetryAfter) // until the first of them can be called again
		}
		if target.Class == Retry && !r.notRetried(&target) {
			class = Retry
		}
		sum = target.Result
		sum.RetryAfter, sum.Pause = wait, pause
		if ctx.Err() != nil {
			break
		}
	}
	sum.Targets, sum.Done = out, done
	sum.combine(class, notRetried)
	return sum
}

// combine sets the class for several failures. class is Retry where a retry may succeed for one of
// them. notRetried tells that one was given up by its status.
func (r *Result) combine(class Class, notRetried bool) {
	r.Class = class
	if class == Reject && notRetried {
		r.Class, r.NotRetried = Retry, true
	}
}

// callAll calls every target that has not taken the fire, concurrently. A target that can never be
// called does not prevent retries of the others.
func (c Callers) callAll(ctx context.Context, r *Request) Result {
	results := make([]*TargetResult, len(r.Targets))
	call := func(i int) {
		target := c.callTarget(ctx, r, i, false)
		results[i] = &target
	}
	var others sync.WaitGroup
	mine := -1
	for i := range r.Targets {
		switch {
		case r.Done.Has(i, timer.TargetAccepted), r.gaveUp(i), r.gone(i):
		case mine < 0:
			mine = i // called by this goroutine
		default:
			others.Go(func() { call(i) })
		}
	}
	if mine >= 0 {
		call(mine)
	}
	others.Wait()
	sum := Result{Done: r.Done}
	class, notRetried, left := Reject, false, -1 // given up or gone in an earlier attempt
	var last Result
	for i, target := range results {
		if target == nil {
			notRetried, sum.Pause = notRetried || r.gaveUp(i), sum.Pause || r.gone(i)
			if r.gaveUp(i) || r.gone(i) {
				left = i
			}
			continue
		}
		sum.Targets = append(sum.Targets, *target)
		last = target.Result
		if target.Class == Success {
			sum.Done |= 1 << i
			continue
		}
		switch {
		case r.notRetried(target):
			notRetried, sum.Done = true, sum.Done|timer.TargetGivenUp<<i
		case target.Pause:
			sum.Pause, sum.Done = true, sum.Done|timer.TargetGone<<i
		case target.Class != Reject:
			class = Retry
			sum.RetryAfter = max(sum.RetryAfter, target.RetryAfter)
		}
		if sum.Failure == timer.FailureNone { // the first failure represents the attempt
			sum.StatusCode, sum.Failure, sum.Excerpt = target.StatusCode, target.Failure, target.Excerpt
			sum.Error = oneLine("target " + target.Name + ": " + target.Error)
		}
	}
	if sum.Failure == timer.FailureNone && sum.Done == 1<<len(r.Targets)-1 {
		sum.StatusCode, sum.Excerpt = last.StatusCode, last.Excerpt
		return sum
	}
	if sum.Failure == timer.FailureNone && left >= 0 { // all others have taken it
		sum.Failure = timer.FailureStatus
		sum.Error = oneLine(
			"target " + r.TargetName(
				left,
			) + ": failed an earlier attempt, and is not called again",
		)
	}
	// A pause ends the fire. While another target may be retried, the pause waits until no attempt
	// follows.
	sum.combine(class, notRetried)
	return sum
}
