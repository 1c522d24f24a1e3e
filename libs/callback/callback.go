// Package callback calls targets: it builds the request, sends it, and says what class the result
// is of.
package callback

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Class says what a result means for the fire.
type Class uint8

// The classes.
const (
	Success Class = iota // the receiver took it: any 2xx, unless the target has rules of its own
	Retry                // it may succeed later
	Reject               // it never will: the target cannot be called as it is defined
	// Accepted: the receiver took it and completes it later, within Result.CompleteWithin (only of
	// targets with Async).
	Accepted
)

// Request is one attempt to be made. The zero value of what stands below Timeout is right for most
// timers.
type Request struct {
	Fire      timer.FireID
	App       string
	PlannedMS int64     // when the first attempt was meant to start
	Attempt   int32     // from 1
	Start     time.Time // the executor's clock just before the call; sent along as Carillon-Start
	Target    timer.Target
	Timeout   time.Duration // of the whole attempt (of each target), its answer read included

	timer.Fanout        // in place of Target, where the definition has several
	Done         uint32 // as of timer.Fire: what became of Targets in earlier attempts
	// NoRetry: of the retry policy, for several targets: it applies to each by itself.
	NoRetry timer.Statuses
	Name    string            // the timer's name, for templates
	Labels  map[string]string // for templates
	Zone    *time.Location    // of the timer, for templates; nil is UTC
	Cause   string            // sent as Carillon-Cause; empty is "schedule"
	Signer  *signing.Signer   // of the app; nil: no signature
	Egress  *egress.Policy    // of the app; nil is the deployment's
	// Token: of CompletionTokens; empty: the receiver cannot accept asynchronously.
	Token string
	Guard Guard // of several targets; nil: each may be called
}

// Guard is asked before each of several targets is called, perhaps by several goroutines at once.
// After an OK done must be called, once, with what came of it.
type Guard interface {
	Allow(t *timer.Target) (done func(*Result), ok bool)
	// Continue is asked when one target failed and before the next one's turn, which may be long
	// after the attempt began: whether the fire is still to be called.
	Continue() bool
}

// Result is what came of an attempt.
type Result struct {
	Class      Class
	StatusCode int32 // 0 where no answer came; of grpc its code, 0 is OK
	// Error: one line; empty on success; at most timer.MaxExcerpt bytes; never a secret.
	Error string
	// Excerpt: start of the answer's body; valid UTF-8; at most timer.MaxExcerpt bytes; secrets in
	// it are blotted out.
	Excerpt string
	Failure timer.Failure // empty on success

	// RetryAfter: the receiver asked not to be called sooner (429, 503); 0 is nothing.
	RetryAfter     time.Duration
	CompleteWithin time.Duration // Accepted: then it times out
	// Pause: 410: the timer is to be paused with reason timer.ReasonGone, and the fire ends as
	// failed; with Retry once no attempt follows.
	Pause bool
	// Done: several targets: Request.Done and what became of them in this attempt.
	Done uint32
	// NotRetried: several targets, Retry: Request.NoRetry gave up what the others did not reject or
	// take; no attempt follows.
	NotRetried bool
	// several targets: one for each that was called, in the order of their starts; else nil.
	Targets []TargetResult
}

// TargetResult is what came of one target among several.
type TargetResult struct {
	Index    int    // in Request.Targets
	Name     string // of the target, or its place from 1
	Start    time.Time
	Duration time.Duration
	Result   // its own Targets and Done are empty
}

// Caller makes attempts of one kind of target. It is safe for concurrent use.
type Caller interface {
	// Call makes one attempt. It returns when ctx ends.
	Call(ctx context.Context, r *Request) Result
}

// Callers calls by the kind of target, and several targets of one timer by their mode. It is a
// Caller itself: an executor needs no other.
type Callers map[timer.TargetKind]Caller
