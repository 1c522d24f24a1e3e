package membus

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Faults are injected errors of the broker. Each field but Seed and MaxDelay is a probability from
// 0 to 1. The zero value injects none. The seed fixes the sequence of draws, but not the order of
// the goroutines that draw.
type Faults struct {
	Seed uint64

	// The faults of one message and subscription.
	Duplicate float64       // delivered twice
	Reorder   float64       // swapped with another waiting message
	Delay     float64       // delayed by up to MaxDelay
	MaxDelay  time.Duration //
	Drop      float64       // lost although confirmed: deliberately breaks B1

	// The faults of one call of Publish.
	FailPublish      float64 // an error, and nothing is stored
	FailAfterPublish float64 // everything is stored, then an error
}

var (
	errFailed    = errors.New("injected fault: nothing is stored")
	errFailAfter = errors.New("injected fault: stored, but not confirmed")
)

func chance(r *rand.Rand, p float64) bool { return p > 0 && r.Float64() < p }

// copies returns how often a message is delivered.
func (f *Faults) copies(r *rand.Rand) int {
	switch {
	case chance(r, f.Drop):
		return 0
	case chance(r, f.Duplicate):
		return 2
	default:
		return 1
	}
}

// delay returns by how much a message is delayed.
func (f *Faults) delay(r *rand.Rand) time.Duration {
	if f.MaxDelay <= 0 || !chance(r, f.Delay) {
		return 0
	}
	return time.Duration(r.Int64N(int64(f.MaxDelay)))
}
