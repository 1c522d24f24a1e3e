package store

import (
	"context"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Inactivities record when timers were not active, and keep fires that wait for the end of that.
type Inactivities interface {
	// Inactivities returns the stretches in which each timer was not active, in order, as far back
	// as retention goes: S29. The present one is among them. A timer without any is left out.
	Inactivities(ctx context.Context, ids []timer.ID) (map[timer.ID][]timer.Inactivity, error)
	// Defer lets go of fires that the session owns, until their timers are active again or deleted:
	// S30. It returns those whose timer is active by now: they stay with the session. Repeating it
	// after an unknown result defers nothing twice.
	Defer(
		ctx context.Context,
		session timer.ID,
		fires []Deferral,
	) (active []timer.FireID, err error)
}

// Deferral asks for a fire to wait for its timer.
type Deferral struct {
	// Fire: as the session has it; its RunAtMS is what it gets when the timer is active.
	Fire    timer.Fire
	RunAtMS int64 // when it runs if nothing changes before; timer.DeferredMS: never
}
