package api

import (
	"context"
	"fmt"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// warningBody is about a valid value that is probably a mistake.
type warningBody struct {
	Location string `json:"location" doc:"The field that it is about, as in errors." example:"body.schedule.end_at"`
	Message  string `json:"message" doc:"What will not happen as one may expect, and why."`
}

// showChanged returns a created or changed timer with warnings.
func (s *Service) showChanged(ctx context.Context, t *timer.Timer) (*timerOutput, error) {
	next, err := s.nextDue(ctx, t)
	if err != nil {
		return nil, err
	}
	out := &timerOutput{showTimer(t, next)}
	out.Body.Warnings = s.warnings(t, next)
	return out, nil
}

// warnings returns warnings about a timer that never fires again, or fires at once. next is its
// next due instant. It reads nothing from the store.
func (s *Service) warnings(t *timer.Timer, next int64) []warningBody {
	p, err := schedule.Parse(t.Definition.Schedule, scheduleInputs(t))
	if err != nil {
		return nil // the migrator reports why
	}
	d, nowMS := &t.Definition.Schedule, s.opts.Now().UnixMilli()
	anchorMS := t.AnchorMS
	if anchorMS == 0 {
		anchorMS = nowMS
	}
	afterMS := max(nowMS, t.ActiveSinceMS) - 1
	if d.Kind.OneShot() || d.Kind == timer.KindFixedDelay {
		afterMS = anchorMS - 1
	}
	out := showWarnings(p.Warnings(afterMS, anchorMS))
	if d.MaxFires > 0 && t.FiresCreated >= d.MaxFires && t.Status == timer.StatusActive &&
		next == timer.NeverMS &&
		len(out) == 0 {
		out = append(out, warningBody{
			"body.schedule.max_fires",
			fmt.Sprintf(
				"the timer is not due again: %d fires are made, and max_fires is %d: raise it or leave it out",
				t.FiresCreated,
				d.MaxFires,
			),
		})
	}
	if msg := passed(t, nowMS); msg != "" && len(out) == 0 {
		out = append(out, warningBody{"body.schedule.at", msg})
	}
	return out
}

// passed returns the consequence of an instant that has passed.
func passed(t *timer.Timer, nowMS int64) string {
	d := &t.Definition.Schedule
	if d.Kind != timer.KindAt || d.At == nil {
		return ""
	}
	atMS := ceilMS(*d.At)
	switch {
	case t.AnchorMS == 0 && atMS < nowMS:
		return passedUntil(atMS, "it is due as soon as the timer is activated")
	case t.AnchorMS != 0 && t.AnchorMS == t.UpdatedMS && atMS < t.AnchorMS:
		return passedUntil(atMS, "it is due at once")
	case t.Status == timer.StatusActive && t.VersionMS > t.AnchorMS && atMS <= t.VersionMS:
		return passedUntil(atMS, "the timer is not due again")
	}
	return ""
}

func passedUntil(atMS int64, what string) string {
	return fmt.Sprintf("%s has passed: %s", instant(atMS), what)
}

func showWarnings(all []schedule.Warning) []warningBody {
	var out []warningBody
	for _, w := range all {
		out = append(out, warningBody{"body." + w.Field, w.Message})
	}
	return out
}
