package admission

import (
	"fmt"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
)

// checkKnown returns an error for a fire with a value that this release does not know: a newer one
// has stored it. Any guess would break a promise of that release, so the fire is given back.
func checkKnown(f *timer.Fire, d *timer.Definition) error {
	switch {
	case !d.Misfire.Policy.Known():
		return fmt.Errorf("unknown misfire policy %q", d.Misfire.Policy)
	case !d.Concurrency.Policy.Known():
		return fmt.Errorf("unknown concurrency policy %q", d.Concurrency.Policy)
	case !d.Schedule.Kind.Known():
		return fmt.Errorf("unknown kind of schedule %q", d.Schedule.Kind)
	case f.Cause > timer.CauseRedrive:
		return fmt.Errorf("unknown cause %d", f.Cause)
	case f.State > timer.FireAsyncFailed:
		return fmt.Errorf("unknown state %d", f.State)
	case f.PriorityLevel > timer.LevelLow:
		return fmt.Errorf("unknown priority level %d", f.PriorityLevel)
	case !d.Several():
		return checkTarget(&d.Target)
	case d.Mode != timer.ModeAny && d.Mode != timer.ModeAll:
		return fmt.Errorf("unknown mode %q", d.Mode)
	}
	for i := range d.Targets {
		if err := checkTarget(&d.Targets[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkTarget(t *timer.Target) error {
	if !callback.Known(t.Kind) {
		return fmt.Errorf("unknown kind of target %q", t.Kind)
	}
	return nil
}
