package timer

import (
	"math"
	"time"
)

// Retry is how often and when a failed attempt is tried again. The zero values of what came later
// (Jitter and below) mean what was before them.
type Retry struct {
	Attempts int      `json:"attempts"` // in all, the first included
	Wait     Duration `json:"wait"`     // before the second attempt
	Factor   float64  `json:"factor"`   // each further wait is so many times longer
	// no wait is longer, unless the receiver asks for it by Retry-After.
	MaxWait Duration `json:"max_wait"`
	Timeout Duration `json:"timeout"` // of one attempt, of each target

	// 0 to 1: up to this share of a wait is taken off it, at random.
	Jitter float64 `json:"jitter,omitempty"`
	// no retry starts later than this after the planned instant; 0 is no bound.
	GiveUpAfter Duration `json:"give_up_after,omitempty"`
	// statuses, and codes of gRPC, that no further attempt can mend, of each target by itself; 410
	// pauses the timer all the same.
	NoRetry Statuses `json:"no_retry,omitempty"`
}

// MaxRetryAfter is the longest wait that a receiver can ask for by Retry-After; a longer one is
// taken for this.
const MaxRetryAfter = 24 * time.Hour

// DefaultRetry is what a timer gets that asks for nothing: 3 attempts, 1 s × 2, 5 s each.
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

// FailedAttempt is what Next must know of an attempt that failed.
type FailedAttempt struct {
	Attempt int // from 1
	// Status: 0 where no answer came, and of several targets, whose statuses NoRetry is asked about
	// one by one.
	Status     int32
	NotRetried bool          // of several targets: none is left that NoRetry lets call again
	RetryAfter time.Duration // what the receiver asked for; 0 is nothing
	Since      time.Duration // now minus the planned instant of the fire
	Random     float64       // from [0, 1)
}

// Next returns how long to wait for the next attempt, or why there is none.
func (r Retry) Next(f FailedAttempt) (wait time.Duration, end Reason) {
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
