package timers

import (
	"context"
	"fmt"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/upcoming"
	"github.com/carillon-timer/carillon/services/api/v2/schedules"
)

// showChanged returns a created or changed timer with warnings.
func (s *Resource) showChanged(ctx context.Context, t *timer.Timer) (*timerOutput, error) {
	next, err := s.Upcoming.NextDue(ctx, t)
	if err != nil {
		return nil, err
	}
	out := &timerOutput{etag(t.Version), showTimer(t, next)}
	out.Body.Warnings = s.warnings(t, next)
	out.Body.DryRun = store.IsDryRun(ctx)
	return out, nil
}

// warnings returns warnings about a timer that never fires again, or fires at once. next is its
// next due instant. It reads nothing from the store.
func (s *Resource) warnings(t *timer.Timer, next int64) []schedules.WarningBody {
	p, err := schedule.Parse(t.Definition.Schedule, upcoming.Inputs(t))
	if err != nil {
		return nil // the migrator reports why
	}
	d, nowMS := &t.Definition.Schedule, s.Now().UnixMilli()
	anchorMS := t.AnchorMS
	if anchorMS == 0 {
		anchorMS = nowMS
	}
	afterMS := max(nowMS, t.ActiveSinceMS) - 1
	if d.Kind.OneShot() || d.Kind == timer.KindFixedDelay {
		afterMS = anchorMS - 1
	}
	out := schedules.ShowWarnings(p.Warnings(afterMS, anchorMS))
	if d.MaxFires > 0 && t.FiresCreated >= d.MaxFires && t.Status == timer.StatusActive &&
		next == timer.NeverMS &&
		len(out) == 0 {
		out = append(out, schedules.WarningBody{
			Location: "body.schedule.max_fires",
			Message: fmt.Sprintf(
				"the timer is not due again: %d fires are made, and max_fires is %d: raise it or leave it out",
				t.FiresCreated,
				d.MaxFires,
			),
		})
	}
	if msg := passed(t, nowMS); msg != "" && len(out) == 0 {
		out = append(out, schedules.WarningBody{Location: "body.schedule.at", Message: msg})
	}
	return out
}

// passed returns the consequence of an instant that has passed.
func passed(t *timer.Timer, nowMS int64) string {
	d := &t.Definition.Schedule
	if d.Kind != timer.KindAt || d.At == nil {
		return ""
	}
	atMS := input.CeilMS(*d.At)
	switch {
	case t.AnchorMS == 0 && atMS < nowMS:
		return schedules.PassedUntil(atMS, "it is due as soon as the timer is activated")
	case t.AnchorMS != 0 && t.AnchorMS == t.UpdatedMS && atMS < t.AnchorMS:
		return schedules.PassedUntil(atMS, "it is due at once")
	case t.Status != timer.StatusActive || t.VersionMS <= t.AnchorMS || atMS > t.VersionMS:
		return ""
	case t.LastDueMS > t.VersionMS: // this version planned a fire
		return schedules.PassedUntil(atMS, "it is due at once")
	}
	return schedules.PassedUntil(atMS, "the timer is not due again")
}
