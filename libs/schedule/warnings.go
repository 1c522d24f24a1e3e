package schedule

import (
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Warning describes a valid schedule that cannot be what the user meant.
type Warning struct {
	Field   string // as in errors, for example "schedule.end_at"
	Message string
}

// Warnings reports whether a schedule, or one of several cron expressions, is never due after an
// instant, and why. afterMS and anchorMS are those of Next. To test whether a timer never fires,
// pass the millisecond before its activation, and the activation.
//
// It returns nil if everything is due at some time, and ignores MaxFires. It costs a few calls of
// Next per expression, and is safe for concurrent use.
func (p *Parsed) Warnings(afterMS, anchorMS int64) []Warning {
	if p.Next(afterMS, anchorMS) == timer.NeverMS {
		field, why := p.whyNever(afterMS, anchorMS)
		return []Warning{{field, "the schedule is never due: " + why}}
	}
	if len(p.parts) < 2 {
		return nil
	}
	var out []Warning
	for i := range p.parts {
		one := *p
		one.parts = p.parts[i : i+1]
		if one.excluded == timer.ExcludedNext || one.excluded == timer.ExcludedPrevious {
			one.movedCache = new(stretches) // the cache of p is for the instants of all parts
		}
		if one.Next(afterMS, anchorMS) == timer.NeverMS {
			_, why := one.whyNever(afterMS, anchorMS)
			out = append(out, Warning{specField(i), "this expression is never due: " + why})
		}
	}
	return out
}

// whyNever removes the limits of a schedule that is never due, one after the other. The first limit
// without which it is due is the reason.
func (p *Parsed) whyNever(afterMS, anchorMS int64) (field, why string) {
	if p.calendars != nil {
		open := *p
		open.calendars = nil
		if open.Next(afterMS, anchorMS) != timer.NeverMS {
			return "schedule.calendars", fmt.Sprintf(
				"its calendars exclude every instant after %s that it names",
				textMS(afterMS),
			)
		}
	}
	endless := *p
	endless.calendars, endless.endMS = nil, maxMS
	first := endless.Next(afterMS, anchorMS)
	switch {
	case first != timer.NeverMS && p.endMS <= afterMS:
		return "schedule.end_at", fmt.Sprintf("its end (%s) is past", textMS(p.endMS))
	case first != timer.NeverMS:
		return "schedule.end_at", fmt.Sprintf(
			"it would be first due at %s, which is not before its end (%s)",
			textMS(first),
			textMS(p.endMS),
		)
	}
	if p.kind.OneShot() {
		return "schedule." + string(p.kind), "its instant is past"
	}
	endless.startMS = -1 << 62
	since := "after " + textMS(afterMS)
	field = "schedule"
	if p.startMS > afterMS && endless.Next(afterMS, anchorMS) != timer.NeverMS {
		field, since = "schedule.start_at", fmt.Sprintf("from %s on", textMS(p.startMS))
	}
	if p.kind != timer.KindCron {
		return field, fmt.Sprintf(
			"it names no instant %s, as schedules end with the year %d",
			since,
			maxYear,
		)
	}
	if field == "schedule" {
		field = "schedule.specs"
	}
	return field, fmt.Sprintf(
		"the cron expressions match nothing %s, up to the year %d",
		since,
		maxYear,
	)
}

func textMS(ms int64) string { return instantText(time.UnixMilli(ms)) }
