package callback

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Class is the consequence of a result for the fire.
type Class uint8

// Classes of results.
const (
	Success Class = iota // the receiver took the fire: any 2xx, or by the target's success rule
	Retry                // a later attempt may succeed
	Reject               // no attempt can succeed: the target cannot be called as defined
	// Accepted: the receiver completes the fire later, within Result.CompleteWithin. Only for
	// targets with Async.
	Accepted
)

// Request is one attempt. Fields below Timeout may be zero for most timers.
type Request struct {
	Fire      timer.FireID
	App       string
	PlannedMS int64     // planned start of the first attempt
	Attempt   int32     // from 1
	Start     time.Time // executor's clock just before the call; sent as Carillon-Start
	Target    timer.Target
	Timeout   time.Duration // of the whole attempt, per target, including reading the answer

	timer.Fanout                  // replaces Target where the definition has several
	Done         timer.TargetBits // as in timer.Fire: results of Targets in earlier attempts
	// NoRetry is part of the retry policy. With several targets it applies to each separately.
	NoRetry timer.Statuses
	Name    string            // name of the timer, for templates
	Labels  map[string]string // for templates
	Zone    *time.Location    // of the timer, for templates; nil: UTC
	Cause   string            // sent as Carillon-Cause; empty: "schedule"
	Signer  *signing.Signer   // of the app; nil: calls are not signed
	// SignError is why calls of the app cannot be signed, which it demands; nil: they can. Only
	// unsigned targets are called then.
	SignError error
	Egress    *egress.Policy // of the app; nil: the deployment's
	// TraceParent is the W3C trace context of the attempt's span; empty: the attempt has none.
	TraceParent string
	// Token is a token of CompletionTokens; empty: the receiver cannot accept the fire.
	Token        string
	TargetTokens []string // the same for each of Targets; nil: none can
	Guard        Guard    // for several targets; nil: each may be called
	// Deadline is when calls one after the other end. A later target gets the time that is left, if
	// that is less than Timeout. Zero: each has its Timeout.
	Deadline time.Time
	// KeepHeaders asks for Result.Headers, which only people look at.
	KeepHeaders bool
}

// Guard decides before each call of one of several targets. It may be called by several goroutines
// at once.
type Guard interface {
	Allow(t *timer.Target) (done func(*Result), ok bool)
	// Continue returns whether the fire is still to be called. It is asked after a target failed
	// and before the next one, which may be long after the attempt began.
	Continue() bool
}

// Result is the result of an attempt.
type Result struct {
	Class      Class
	StatusCode int32 // 0 without an answer; for grpc its code, where 0 is OK
	// Error is one line of at most timer.MaxExcerpt bytes without secrets; empty on success. If
	// Accepted, it says what of the answer could not be read.
	Error string
	// Excerpt is the start of the answer's body: valid UTF-8 of at most timer.MaxExcerpt bytes,
	// with secrets redacted.
	Excerpt string
	Failure timer.Failure // empty on success
	// Headers are some headers of an HTTP answer, see shownHeaders, with secrets redacted; nil
	// unless Request.KeepHeaders.
	Headers map[string]string

	// RetryAfter is how long the receiver asked not to be called (429, 503); 0: it did not ask.
	RetryAfter     time.Duration
	CompleteWithin time.Duration // Accepted: the fire times out after it
	// Pause: the receiver answered 410. The timer is to be paused with reason timer.ReasonGone, and
	// the fire fails; with Retry, once no attempt follows.
	Pause bool
	// Done, for several targets: Request.Done with the results of this attempt.
	Done timer.TargetBits
	// NotRetried, for several targets with class Retry: every target that did not take the fire was
	// rejected or given up by Request.NoRetry, so no attempt follows.
	NotRetried bool
	// BrokenOff, for several targets with ModeAny: the fire was no longer to be called when the next
	// target had its turn. Those from it on were not tried.
	BrokenOff bool
	// Targets has one result per called target, in order of their starts; nil for a single target.
	Targets []TargetResult
}

// TargetResult is the result of one of several targets.
type TargetResult struct {
	Index    int    // in Request.Targets
	Name     string // of the target, or its position from 1
	Start    time.Time
	Duration time.Duration
	Result   // its own Targets and Done are empty
}

// Caller makes attempts for one kind of target. It is safe for concurrent use.
type Caller interface {
	// Call makes one attempt. It returns when ctx ends.
	Call(ctx context.Context, r *Request) Result
}

// Callers selects the caller by kind, and calls several targets by the timer's mode. It implements
// Caller, so it is all an executor needs.
type Callers map[timer.TargetKind]Caller
