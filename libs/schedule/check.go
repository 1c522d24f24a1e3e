package schedule

import (
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// MaxDelay is the longest delay and the longest @every: ten years. A longer one is a slip of the keyboard.
const MaxDelay = 10 * 365 * 24 * time.Hour

// Check tells whether a schedule can be kept. Its error is a *timer.Error (invalid) that names the field.
func Check(s *timer.Schedule) error {
	p, err := Parse(*s, Inputs{})
	if err != nil {
		return err
	}
	for i, d := range p.parts {
		if d.next(-1, 0) == timer.NeverMS {
			return timer.Invalid(specField(i), fmt.Sprintf("%q never matches: there is no such day up to the year %d", s.Specs[i], maxYear))
		}
	}
	return nil
}

// checkKind refuses fields that do not belong to the schedule's kind: whoever sets them expects something that would not happen.
func checkKind(s *timer.Schedule) error {
	foreign := func(field string, owner timer.ScheduleKind, set bool) error {
		if !set || s.Kind == owner {
			return nil
		}
		return timer.Invalid("schedule."+field, fmt.Sprintf("belongs to kind %q, and this schedule is of kind %q: leave it out", owner, s.Kind))
	}
	switch s.Kind {
	case timer.KindCron, timer.KindAt, timer.KindDelay:
	case "":
		return timer.Invalid("schedule.kind", `is required: "cron", "at" or "delay"`)
	default:
		return timer.Invalid("schedule.kind", fmt.Sprintf(`%q is not a kind: it is "cron", "at" or "delay"`, s.Kind))
	}
	if err := foreign("specs", timer.KindCron, len(s.Specs) > 0); err != nil {
		return err
	}
	if err := foreign("at", timer.KindAt, s.At != nil); err != nil {
		return err
	}
	return foreign("delay", timer.KindDelay, s.Delay != 0)
}

func checkAt(at *time.Time) error {
	if at == nil {
		return timer.Invalid("schedule.at", `is required: an instant such as "2030-01-31T09:00:00Z"`)
	}
	if y := at.UTC().Year(); y < minYear || y > maxYear {
		return timer.Invalid("schedule.at", fmt.Sprintf("lies outside the years %d to %d", minYear, maxYear))
	}
	return nil
}

func checkDelay(d time.Duration) error {
	if d <= 0 {
		return timer.Invalid("schedule.delay", `must be longer than nothing, such as "90s"`)
	}
	if d > MaxDelay {
		return timer.Invalid("schedule.delay", "must not be longer than 10 years (87600h)")
	}
	return nil
}

func checkSpecs(specs []string) error {
	if len(specs) == 0 {
		return timer.Invalid("schedule.specs", `needs at least one cron expression, such as "*/5 * * * *"`)
	}
	if len(specs) > timer.MaxSpecs {
		return timer.Invalid("schedule.specs", fmt.Sprintf("has %d cron expressions: at most %d are allowed", len(specs), timer.MaxSpecs))
	}
	for i, s := range specs {
		if len(s) > timer.MaxSpecLen {
			return timer.Invalid(specField(i), fmt.Sprintf("is %d bytes long: at most %d are allowed", len(s), timer.MaxSpecLen))
		}
	}
	return nil
}

func specField(i int) string { return fmt.Sprintf("schedule.specs[%d]", i) }
