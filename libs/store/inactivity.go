package store

import (
	"context"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Inactivities records when timers were not active, and defers fires until their timer is active.
type Inactivities interface {
	// Inactivities returns the stretches in which each timer was not active, in order, within
	// retention: S29. The present one is included. Timers without any are left out.
	Inactivities(ctx context.Context, ids []timer.ID) (map[timer.ID][]timer.Inactivity, error)
	// Defer releases fires that the session owns until their timers are active again or deleted:
	// S30. It returns those whose timer is active or deleted now, which stay with the session.
	// Repeated after an unknown result, it defers nothing twice.
	Defer(
		ctx context.Context,
		session timer.ID,
		fires []Deferral,
	) (kept []timer.FireID, err error)
}

// Deferral is a request for a fire to wait for its timer.
type Deferral struct {
	// Fire is as the session has it. Its RunAtMS is the one that it gets when the timer is active.
	Fire    timer.Fire
	RunAtMS int64 // when it runs if nothing changes, timer.DeferredMS: never
}
