package membus

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Faults are a broker's bad days. Each chance is a probability from 0 to 1; the zero value is a
// good day. The seed fixes what each draw gives, not the order of the goroutines that draw.
type Faults struct {
	Seed uint64

	// Per message and subscription.
	Duplicate float64       // it is delivered twice
	Reorder   float64       // it changes places with another one that waits
	Delay     float64       // it is held back for up to MaxDelay
	MaxDelay  time.Duration //
	Drop      float64       // it is lost although confirmed: breaks B1 on purpose

	// Per call of Publish.
	FailPublish      float64 // an error, nothing is stored
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

// delay returns how long a message is held back.
func (f *Faults) delay(r *rand.Rand) time.Duration {
	if f.MaxDelay <= 0 || !chance(r, f.Delay) {
		return 0
	}
	return time.Duration(r.Int64N(int64(f.MaxDelay)))
}
