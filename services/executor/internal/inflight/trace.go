package inflight

import (
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

// Trace is what the executor notes of a fire while it is in flight, for its trace. It belongs to
// the claim, then to the worker, then to the recorder.
type Trace struct {
	ID       traceid.ID
	Text     string // ID in hex, set if Sampled
	Decided  bool   // Sampled is set
	Sampled  bool   // the sampler keeps the trace, whatever becomes of the fire
	Minute   int64  // the slice of the fire when it was claimed
	Bucket   int32
	Asked    time.Time
	Claimed  time.Time
	Attempts []TracedAttempt
	Ended    time.Time // when its result went to the recorder
}

// TracedAttempt is an attempt of a fire in flight.
type TracedAttempt struct {
	Span       traceid.SpanID
	Number     int32
	Start      time.Time
	Took       time.Duration
	Waited     string // what it waited for longest after its run time
	WaitedMS   int64
	StatusCode int32
	Failure    timer.Failure
	Error      string
	Targets    []TracedTarget
}

// TracedTarget is the call of one of several targets.
type TracedTarget struct {
	Name       string
	Start      time.Time
	Took       time.Duration
	StatusCode int32
	Failure    timer.Failure
	Error      string
}
