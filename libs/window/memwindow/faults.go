package memwindow

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Faults are a window's bad days. Each chance is a probability from 0 to 1. The seed fixes what
// each draw gives, not the order of the goroutines that draw.
type Faults struct {
	Seed uint64

	// Lose: per mark: Put drops it silently, with its generation in place: breaks W3 and W7 on
	// purpose.
	Lose      float64
	Flush     float64       // per call: everything is lost before it
	Fail      float64       // per call: an error, nothing is done
	FailAfter float64       // per call: it is done, then an error
	MaxDelay  time.Duration // per call: up to so long
}

var (
	errUnavailable = errors.New("the window is away")
	errFailed      = errors.New("injected fault: nothing is done")
	errFailAfter   = errors.New("injected fault: done, but not confirmed")
)

// faults draws from Faults, under the window's lock. A nil one never fails.
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

// callFaults is what shall befall one call.
type callFaults struct {
	delay              time.Duration
	flush, fail, after bool
}

// draw says what shall befall a call. It draws the same number of times whatever comes of it.
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

// call does one call's work under the lock, on good days and bad.
func (w *Window) call(ctx context.Context, do func()) error {
	if err := ctx.Err(); err != nil {
		return timer.Unavailable("asking the window", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	callFaults := w.faults.draw()
	if callFaults.delay > 0 {
		w.mu.Unlock()
		err := pause(ctx, callFaults.delay)
		w.mu.Lock()
		if err != nil {
			return timer.Unavailable("asking the window", err)
		}
	}
	if w.unavailable {
		return timer.Unavailable("asking the window", errUnavailable)
	}
	if callFaults.flush {
		w.flush()
	}
	if callFaults.fail {
		return timer.Unavailable("asking the window", errFailed)
	}
	do()
	if callFaults.after {
		return timer.Unavailable("asking the window", errFailAfter)
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
