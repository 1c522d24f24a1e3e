package callback

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Call implements Caller: it makes one attempt, of all the targets that the mode wants.
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
	return caller.Call(ctx, r)
}

// callTarget calls one target among several.
func (c Callers) callTarget(ctx context.Context, r *Request, i int) TargetResult {
	q := *r
	q.Target, q.Fanout = r.Targets[i], timer.Fanout{}
	if began := time.Since(
		r.Start,
	); i > 0 && r.Mode == timer.ModeAny && began > 0 &&
		began < time.Hour {
		q.Start = r.Start.Add(began) // behind others that failed; an hour apart they are two clocks
	}
	began := time.Now()
	res := c.callGuarded(ctx, &q)
	return TargetResult{
		Index:    i,
		Name:     r.TargetName(i),
		Start:    q.Start,
		Duration: time.Since(began),
		Result:   res,
	}
}

// callGuarded calls one target, where that may be called.
func (c Callers) callGuarded(ctx context.Context, q *Request) (res Result) {
	if q.Guard != nil {
		done, ok := q.Guard.Allow(&q.Target)
		if !ok {
			return Result{
				Class:   Retry,
				Failure: timer.FailureCircuit,
				Error:   "not sent: the endpoint fails, and is left alone for a while",
			}
		}
		defer func() { done(&res) }()
	}
	return c.callOne(ctx, q)
}

// notRetried tells whether Request.NoRetry gives a target up, by what it answered. What it says of one
// target says nothing of the others.
func (r *Request) notRetried(callOne *TargetResult) bool {
	return callOne.Class == Retry && callOne.StatusCode != 0 &&
		r.NoRetry.Contains(callOne.StatusCode)
}

// gaveUp tells whether an earlier attempt gave target i up. It is not called again: the fire's row
// remembers it beside what was delivered. What was rejected without an answer is called again while
// others are retried, for rules and keys of this deployment may have changed.
func (r *Request) gaveUp(i int) bool { return r.Done>>i&timer.TargetGivenUp != 0 }

// gone tells the same of a target of ModeAll that answered 410.
func (r *Request) gone(i int) bool { return r.Done>>i&timer.TargetGone != 0 }

// callAny calls one target after the other until one takes the fire. What it returns of several
// failures is the last one, with the class that leaves most hope.
func (c Callers) callAny(ctx context.Context, r *Request) Result {
	out := make([]TargetResult, 0, len(r.Targets))
	sum := Result{Pause: true}
	class, notRetried, done := Reject, false, r.Done
	waits := false
	for i := range r.Targets {
		if r.gaveUp(i) {
			notRetried, sum.Pause = true, false
			continue
		}
		if len(out) > 0 && r.Guard != nil && !r.Guard.Continue() {
			// of this target: whoever attempts again finds out why not.
			class, sum.Pause = Retry, false
			break
		}
		callOne := c.callTarget(ctx, r, i)
		out = append(out, callOne)
		if callOne.Class == Success || callOne.Class == Accepted {
			sum = callOne.Result
			sum.Targets, sum.Done = out, done
			return sum
		}
		wait, pause := sum.RetryAfter, sum.Pause && callOne.Pause
		switch {
		case r.notRetried(&callOne):
			notRetried, done = true, done|timer.TargetGivenUp<<i
		case !waits:
			wait, waits = callOne.RetryAfter, true
		default:
			wait = min(wait, callOne.RetryAfter) // as soon as the first of them can be called again
		}
		if callOne.Class == Retry && !r.notRetried(&callOne) {
			class = Retry
		}
		sum = callOne.Result
		sum.RetryAfter, sum.Pause = wait, pause
		if ctx.Err() != nil {
			break
		}
	}
	sum.Targets, sum.Done = out, done
	sum.combine(class, notRetried)
	return sum
}

// combine says what several failures mean together: hope is Retry where another attempt may mend one
// of them, lost that one was given up by its status.
func (r *Result) combine(class Class, notRetried bool) {
	r.Class = class
	if class == Reject && notRetried {
		r.Class, r.NotRetried = Retry, true
	}
}

// callAll calls every target that has not taken the fire, at once. One that can never be called does
// not keep the others from their retries.
func (c Callers) callAll(ctx context.Context, r *Request) Result {
	results := make([]*TargetResult, len(r.Targets))
	call := func(i int) {
		callOne := c.callTarget(ctx, r, i)
		results[i] = &callOne
	}
	var others sync.WaitGroup
	mine := -1
	for i := range r.Targets {
		switch {
		case r.Done>>i&1 == 1, r.gaveUp(i), r.gone(i):
		case mine < 0:
			mine = i // by this goroutine
		default:
			others.Go(func() { call(i) })
		}
	}
	if mine >= 0 {
		call(mine)
	}
	others.Wait()
	sum := Result{Done: r.Done}
	class, notRetried, left := Reject, false, -1 // left of an earlier attempt
	var last Result
	for i, callOne := range results {
		if callOne == nil {
			notRetried, sum.Pause = notRetried || r.gaveUp(i), sum.Pause || r.gone(i)
			if r.gaveUp(i) || r.gone(i) {
				left = i
			}
			continue
		}
		sum.Targets = append(sum.Targets, *callOne)
		last = callOne.Result
		if callOne.Class == Success {
			sum.Done |= 1 << i
			continue
		}
		switch {
		case r.notRetried(callOne):
			notRetried, sum.Done = true, sum.Done|timer.TargetGivenUp<<i
		case callOne.Pause:
			sum.Pause, sum.Done = true, sum.Done|timer.TargetGone<<i
		case callOne.Class != Reject:
			class = Retry
			sum.RetryAfter = max(sum.RetryAfter, callOne.RetryAfter)
		}
		if sum.Failure == timer.FailureNone { // the first failure speaks for the attempt
			sum.StatusCode, sum.Failure, sum.Excerpt = callOne.StatusCode, callOne.Failure, callOne.Excerpt
			sum.Error = oneLine("target " + callOne.Name + ": " + callOne.Error)
		}
	}
	if sum.Failure == timer.FailureNone && sum.Done == 1<<len(r.Targets)-1 {
		sum.StatusCode, sum.Excerpt = last.StatusCode, last.Excerpt
		return sum
	}
	if sum.Failure == timer.FailureNone && left >= 0 { // all others took it by now
		sum.Failure = timer.FailureStatus
		sum.Error = oneLine(
			"target " + r.TargetName(left) + ": answered an earlier attempt what is not retried",
		)
	}
	// A pause ends the fire: where another target still hopes, it waits until no attempt follows.
	sum.combine(class, notRetried)
	return sum
}
