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
		return c.one(ctx, r)
	case r.Mode == timer.ModeAll:
		return c.all(ctx, r)
	default:
		return c.any(ctx, r)
	}
}

func (c Callers) one(ctx context.Context, r *Request) Result {
	caller := c[r.Target.Kind]
	if caller == nil {
		return unusable(fmt.Errorf("no target of kind %q can be called", r.Target.Kind))
	}
	return caller.Call(ctx, r)
}

// of calls one target among several.
func (c Callers) of(ctx context.Context, r *Request, i int) TargetResult {
	q := *r
	q.Target, q.Fanout = r.Targets[i], timer.Fanout{}
	if began := time.Since(
		r.Start,
	); i > 0 && r.Mode == timer.ModeAny && began > 0 &&
		began < time.Hour {
		q.Start = r.Start.Add(began) // behind others that failed; an hour apart they are two clocks
	}
	began := time.Now()
	res := c.guarded(ctx, &q)
	return TargetResult{
		Index:    i,
		Name:     r.NameOf(i),
		Start:    q.Start,
		Duration: time.Since(began),
		Result:   res,
	}
}

// guarded calls one target, where that may be called.
func (c Callers) guarded(ctx context.Context, q *Request) (res Result) {
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
	return c.one(ctx, q)
}

// lost tells whether Request.NoRetry gives a target up, by what it answered. What it says of one
// target says nothing of the others.
func (r *Request) lost(one *TargetResult) bool {
	return one.Class == Retry && one.StatusCode != 0 && r.NoRetry.Contains(one.StatusCode)
}

// givenUp tells whether an earlier attempt gave target i up. It is not called again: the fire's row
// remembers it beside what was delivered. What was rejected without an answer is called again while
// others are retried, for rules and keys of this deployment may have changed.
func (r *Request) givenUp(i int) bool { return r.Done>>i&timer.GivenUp != 0 }

// gone tells the same of a target of ModeAll that answered 410.
func (r *Request) gone(i int) bool { return r.Done>>i&timer.Gone != 0 }

// any calls one target after the other until one takes the fire. What it returns of several
// failures is the last one, with the class that leaves most hope.
func (c Callers) any(ctx context.Context, r *Request) Result {
	out := make([]TargetResult, 0, len(r.Targets))
	sum := Result{Pause: true}
	hope, lost, done := Reject, false, r.Done
	waits := false
	for i := range r.Targets {
		if r.givenUp(i) {
			lost, sum.Pause = true, false
			continue
		}
		if len(out) > 0 && r.Guard != nil && !r.Guard.Continue() {
			// of this target: whoever attempts again finds out why not.
			hope, sum.Pause = Retry, false
			break
		}
		one := c.of(ctx, r, i)
		out = append(out, one)
		if one.Class == Success || one.Class == Accepted {
			sum = one.Result
			sum.Targets, sum.Done = out, done
			return sum
		}
		wait, pause := sum.RetryAfter, sum.Pause && one.Pause
		switch {
		case r.lost(&one):
			lost, done = true, done|timer.GivenUp<<i
		case !waits:
			wait, waits = one.RetryAfter, true
		default:
			wait = min(wait, one.RetryAfter) // as soon as the first of them can be called again
		}
		if one.Class == Retry && !r.lost(&one) {
			hope = Retry
		}
		sum = one.Result
		sum.RetryAfter, sum.Pause = wait, pause
		if ctx.Err() != nil {
			break
		}
	}
	sum.Targets, sum.Done = out, done
	sum.settle(hope, lost)
	return sum
}

// settle says what several failures mean together: hope is Retry where another attempt may mend one
// of them, lost that one was given up by its status.
func (r *Result) settle(hope Class, lost bool) {
	r.Class = hope
	if hope == Reject && lost {
		r.Class, r.NotRetried = Retry, true
	}
}

// all calls every target that has not taken the fire, at once. One that can never be called does
// not keep the others from their retries.
func (c Callers) all(ctx context.Context, r *Request) Result {
	results := make([]*TargetResult, len(r.Targets))
	call := func(i int) {
		one := c.of(ctx, r, i)
		results[i] = &one
	}
	var others sync.WaitGroup
	mine := -1
	for i := range r.Targets {
		switch {
		case r.Done>>i&1 == 1, r.givenUp(i), r.gone(i):
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
	hope, lost, left := Reject, false, -1 // left of an earlier attempt
	var last Result
	for i, one := range results {
		if one == nil {
			lost, sum.Pause = lost || r.givenUp(i), sum.Pause || r.gone(i)
			if r.givenUp(i) || r.gone(i) {
				left = i
			}
			continue
		}
		sum.Targets = append(sum.Targets, *one)
		last = one.Result
		if one.Class == Success {
			sum.Done |= 1 << i
			continue
		}
		switch {
		case r.lost(one):
			lost, sum.Done = true, sum.Done|timer.GivenUp<<i
		case one.Pause:
			sum.Pause, sum.Done = true, sum.Done|timer.Gone<<i
		case one.Class != Reject:
			hope = Retry
			sum.RetryAfter = max(sum.RetryAfter, one.RetryAfter)
		}
		if sum.Failure == timer.FailureNone { // the first failure speaks for the attempt
			sum.StatusCode, sum.Failure, sum.Excerpt = one.StatusCode, one.Failure, one.Excerpt
			sum.Error = oneLine("target " + one.Name + ": " + one.Error)
		}
	}
	if sum.Failure == timer.FailureNone && sum.Done == 1<<len(r.Targets)-1 {
		sum.StatusCode, sum.Excerpt = last.StatusCode, last.Excerpt
		return sum
	}
	if sum.Failure == timer.FailureNone && left >= 0 { // all others took it by now
		sum.Failure = timer.FailureStatus
		sum.Error = oneLine(
			"target " + r.NameOf(left) + ": answered an earlier attempt what is not retried",
		)
	}
	// A pause ends the fire: where another target still hopes, it waits until no attempt follows.
	sum.settle(hope, lost)
	return sum
}
