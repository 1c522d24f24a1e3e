package sqldb

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// errInjected is the cause of every injected failure.
var errInjected = errors.New("injected fault")

// faults draws random faults.
type faults struct {
	set Faults
	mu  sync.Mutex
	rnd *rand.Rand
}

func newFaults(set *Faults) *faults {
	if set == nil {
		set = new(Faults)
	}
	// Faults must be repeatable, so the generator is seeded.
	return &faults{set: *set, rnd: rand.New(rand.NewPCG(set.Seed, 1))}
}

// faultPlan has the faults of one call.
type faultPlan struct{ read, before, after bool }

// wait delays the call and returns its faults. A call draws the same number of random values
// whatever the result, so that a seed always gives the same faults.
func (f *faults) wait(ctx context.Context) faultPlan {
	f.mu.Lock()
	if f.set == (Faults{}) {
		f.mu.Unlock()
		return faultPlan{}
	}
	delay := time.Duration(f.rnd.Float64() * float64(f.set.Delay))
	p := faultPlan{
		read:   f.rnd.Float64() < f.set.FailRead,
		before: f.rnd.Float64() < f.set.FailBefore,
		after:  f.rnd.Float64() < f.set.FailAfter,
	}
	f.mu.Unlock()
	if delay > 0 {
		pause(ctx, delay)
	}
	return p
}

// SetFaults changes the faults from now on; the zero value ends them. The random sequence of the
// first seed continues.
func (s *DB) SetFaults(set Faults) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.set = set
}

// InjectFaults begins faults with a random sequence of their own; nil: no faults. It is called
// before the store is used.
func (s *DB) InjectFaults(set *Faults) { s.faults = newFaults(set) }

// pause waits for d or for the context's end.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Faults makes a store misbehave, in the same way for the same seed and order of calls.
// Probabilities go from 0 to 1.
type Faults struct {
	Seed     uint64
	FailRead float64 // probability that a read fails
	// FailBefore is the probability that a transaction is rolled back and its call fails.
	FailBefore float64
	FailAfter  float64       // probability that a transaction is committed and its call fails
	Delay      time.Duration // each call waits for up to this long first
}
