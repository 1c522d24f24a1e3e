// Package callback calls targets: it builds the request, sends it, and says what class the result is of.
package callback

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Class says what a result means for the fire.
type Class uint8

// The classes.
const (
	Success Class = iota // the receiver took it: any 2xx
	Retry                // it may succeed later
	Reject               // it never will: the target cannot be called as it is defined
)

// Request is one attempt to be made.
type Request struct {
	Fire      timer.FireID
	App       string
	PlannedMS int64     // when the first attempt was meant to start
	Attempt   int32     // from 1
	Start     time.Time // the executor's clock just before the call; sent along as Carillon-Start
	Target    timer.Target
	Timeout   time.Duration // of the whole attempt, its answer read included
}

// Result is what came of an attempt.
type Result struct {
	Class      Class
	StatusCode int32  // 0 where no answer came
	Error      string // one line; empty on success; at most timer.MaxExcerpt bytes
	Excerpt    string // start of the answer's body; valid UTF-8; at most timer.MaxExcerpt bytes
}

// Caller makes attempts of one kind of target. It is safe for concurrent use.
type Caller interface {
	// Call makes one attempt. It returns when ctx ends.
	Call(ctx context.Context, r *Request) Result
}
