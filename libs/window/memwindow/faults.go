package memwindow

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Faults are injected errors. Each field but MaxDelay is a probability from 0 to 1. The seed fixes
// the sequence of draws, but not the order of the goroutines that draw.
type Faults struct {
	Seed uint64

	// Lose is per entry: Put drops it silently and keeps the generation. This deliberately breaks
	// W3 and W7.
	Lose      float64
	Flush     float64       // per call: all entries are lost before it
	Fail      float64       // per call: an error, and nothing is done
	FailAfter float64       // per call: it is done, then returns an error
	MaxDelay  time.Duration // per call: maximum delay
}

var (
	errUnavailable = errors.New("the window is unavailable")
	errFailed      = errors.New("injected fault: call not executed")
	errFailAfter   = errors.New("injected fault: call executed, but not confirmed")
)

// faults draws from Faults under the lock of the window. A nil *faults never fails.
type faults struct {
	Faults

	rnd *rand.Rand
}

func newFaults(f *Faults) *faults {
	if f == nil {
		return nil
	}
	return &faults{Faults: *f, rnd: rand.New(rand.NewPCG(f.Seed, 3))}
}

func (f *faults) lose() bool { return f != nil && f.rnd.Float64() < f.Lose }

// callFaults are the faults of one call.
type callFaults struct {
	delay              time.Duration
	flush, fail, after bool
}

// draw decides the faults of a call. It always draws the same number of values, whatever the
// results.
func (f *faults) draw() callFaults {
	if f == nil {
		return callFaults{}
	}
	return callFaults{
		delay: time.Duration(f.rnd.Float64() * float64(f.MaxDelay)),
		flush: f.rnd.Float64() < f.Flush,
		fail:  f.rnd.Float64() < f.Fail,
		after: f.rnd.Float64() < f.FailAfter,
	}
}

// call runs do under the lock, with the injected faults.
func (w *Window) call(ctx context.Context, do func()) error {
	if err := ctx.Err(); err != nil {
		return timer.Unavailable("calling the window", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	callFaults := w.faults.draw()
	if callFaults.delay > 0 {
		w.mu.Unlock()
		err := pause(ctx, callFaults.delay)
		w.mu.Lock()
		if err != nil {
			return timer.Unavailable("calling the window", err)
		}
	}
	if w.unavailable {
		return timer.Unavailable("calling the window", errUnavailable)
	}
	if callFaults.flush {
		w.flush()
	}
	if callFaults.fail {
		return timer.Unavailable("calling the window", errFailed)
	}
	do()
	if callFaults.after {
		return timer.Unavailable("calling the window", errFailAfter)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller wraps it
	}
}
