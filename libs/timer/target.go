package timer

import (
	"math"
	"time"
)

// Retry is how often and when a failed attempt is tried again.
type Retry struct {
	Attempts int      `json:"attempts"` // in all, the first included
	Wait     Duration `json:"wait"`     // before the second attempt
	Factor   float64  `json:"factor"`   // each further wait is so many times longer
	MaxWait  Duration `json:"max_wait"` // no wait is longer
	Timeout  Duration `json:"timeout"`  // of one attempt
}

// DefaultRetry is what a timer gets that asks for nothing: 3 attempts, 1 s × 2, 5 s each.
func DefaultRetry() Retry {
	return Retry{
		Attempts: 3, Wait: Duration(time.Second), Factor: 2,
		MaxWait: Duration(time.Hour), Timeout: Duration(5 * time.Second),
	}
}

// WaitAfter returns how long to wait after the given attempt (from 1) failed.
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

// TargetKind says by which protocol a timer calls back.
type TargetKind string

// The kinds.
const (
	KindHTTP   TargetKind = "http"   // calls a URL
	KindCanary TargetKind = "canary" // calls nobody: the executor notes how late it is. Only for timers of ReservedApp
)

// Target is whom a timer calls. Package callback checks it and calls it.
type Target struct {
	Kind    TargetKind          `json:"kind"`
	URL     string              `json:"url"`
	Method  string              `json:"method"`
	Headers map[string][]string `json:"headers,omitempty"`
	Body    string              `json:"body,omitempty"` // sent byte for byte
}
