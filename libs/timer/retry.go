package timer

import (
	"math"
	"time"
)

// Retry configures how often and when a failed attempt is repeated. Jitter and the fields after it
// were added later. Their zero value keeps the behaviour of older rows.
type Retry struct {
	Attempts int      `json:"attempts"` // in total, including the first
	Wait     Duration `json:"wait"`     // before the second attempt
	Factor   float64  `json:"factor"`   // multiplies each further wait
	// MaxWait limits every wait, except a longer Retry-After of the receiver.
	MaxWait Duration `json:"max_wait"`
	Timeout Duration `json:"timeout"` // of one attempt, per target

	// Jitter, from 0 to 1, is the largest random share by which a wait is shortened.
	Jitter float64 `json:"jitter,omitempty"`
	// GiveUpAfter limits how long after the planned instant a retry may start; 0 means no limit.
	GiveUpAfter Duration `json:"give_up_after,omitempty"`
	// NoRetry lists the statuses and gRPC codes that are not retried, per target. 410 pauses the
	// timer in any case.
	NoRetry Statuses `json:"no_retry,omitempty"`
}

// MaxRetryAfter limits the wait that a receiver can request by Retry-After. Longer requests are
// reduced to it.
const MaxRetryAfter = 24 * time.Hour

// DefaultRetry returns the retry policy of a timer that defines none: 3 attempts, waits of 1 s × 2,
// 5 s per attempt.
func DefaultRetry() Retry {
	return Retry{
		Attempts: 3, Wait: Duration(time.Second), Factor: 2,
		MaxWait: Duration(time.Hour), Timeout: Duration(5 * time.Second),
	}
}

// WaitAfter returns how long to wait after the given attempt (from 1) failed, without jitter.
func (r Retry) WaitAfter(attempt int) time.Duration {
	if r.Wait <= 0 {
		return 0
	}
	w := float64(r.Wait) * math.Pow(r.Factor, float64(attempt-1)) // may be infinite
	if w >= float64(r.MaxWait) {
		return time.Duration(r.MaxWait)
	}
	return time.Duration(w)
}

// FailedAttempt is the input of Next.
type FailedAttempt struct {
	Attempt int // from 1
	// Status is 0 if there was no response. It is also 0 for several targets, each of which is
	// checked against NoRetry by itself.
	Status     int32
	NotRetried bool          // several targets: NoRetry forbids a retry of all that remain
	RetryAfter time.Duration // requested by the receiver; 0 means none
	Since      time.Duration // now minus the planned instant of the fire
	Random     float64       // from [0, 1)
}

// Next returns how long to wait for the next attempt, or why there is none.
func (r Retry) Next(f FailedAttempt) (wait time.Duration, end Reason) {
	if f.Attempt > max(r.Attempts, 1) { // it was for what the last attempt could not call
		return 0, ReasonExhausted
	}
	if f.NotRetried || f.Status != 0 && r.NoRetry.Contains(f.Status) {
		return 0, ReasonNotRetried
	}
	if f.Attempt >= max(r.Attempts, 1) {
		return 0, ReasonExhausted
	}
	wait = r.WaitAfter(f.Attempt)
	wait -= time.Duration(float64(wait) * min(max(r.Jitter, 0), 1) * f.Random)
	wait = max(wait, min(f.RetryAfter, MaxRetryAfter))
	if r.GiveUpAfter > 0 && f.Since+wait > time.Duration(r.GiveUpAfter) {
		return 0, ReasonGaveUp
	}
	return wait, ReasonNone
}
