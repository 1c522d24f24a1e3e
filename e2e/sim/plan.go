package sim

import (
	"math/rand/v2"
	"time"
)

// Plan is all that a seed decides: the load, the faults, and when.
type Plan struct {
	Seed   uint64
	Length time.Duration // of load and faults; then all is calm
	Orders []order
	Faults []fault
	Skews  map[role][replicas]time.Duration
}

// fault is something that befalls the world at a time, for a time.
type fault struct {
	at, lasts time.Duration
	kind      string
}

// Draft draws a plan.
func Draft(seed uint64, length time.Duration) Plan {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a plan is to be repeatable
	return Plan{Seed: seed, Length: length, Orders: draftLoad(r, length), Skews: make(map[role][replicas]time.Duration)}
}

func (w *World) befall(*fault) {}
