package timers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/upcoming"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type pauseInput struct {
	param.TimerParam
	param.DryRunParam
	Body *pauseBody
}

type pauseBody struct {
	Reason string `json:"reason,omitempty" maxLength:"256" doc:"Why; shown until it is resumed." example:"the warehouse moves"`
	Until  string `json:"until,omitempty" format:"date-time" doc:"When it is activated again by itself, from now to 2199; never where it is left out."`
}

// pauseTimer pauses an active timer, or changes the pause of a paused one. It refuses an inactive
// timer, because the end of the pause would activate it.
func (s *Resource) pauseTimer(ctx context.Context, in *pauseInput) (*timerOutput, error) {
	id, err := param.OwnTimer(ctx, s.Auth, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	b := input.OrZero(in.Body)
	c := store.StatusChange{App: in.App, ID: id, Status: timer.StatusPaused, Reason: b.Reason}
	if c.Reason != "" {
		if err := input.CheckText("reason", c.Reason, timer.MaxReasonLen); err != nil {
			return nil, err
		}
	}
	if c.UntilMS, err = s.parseFuture("until", b.Until); err != nil {
		return nil, err
	}
	c.From = []timer.Status{timer.StatusActive, timer.StatusPaused}
	return s.changeStatus(ctx, c)
}

type resumeInput struct {
	param.TimerParam
	param.DryRunParam
}

func (s *Resource) resumeTimer(ctx context.Context, in *resumeInput) (*timerOutput, error) {
	id, err := param.OwnTimer(ctx, s.Auth, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	return s.changeStatus(ctx, store.StatusChange{
		App:    in.App,
		ID:     id,
		Status: timer.StatusActive,
		From:   []timer.Status{timer.StatusPaused, timer.StatusActive},
	})
}

func (s *Resource) changeStatus(ctx context.Context, c store.StatusChange) (*timerOutput, error) {
	t, err := s.Writer.SetStatus(ctx, c)
	if err != nil {
		return nil, err
	}
	return s.show(ctx, &t)
}

// parseFuture parses an instant in the future; 0 for an empty text.
func (s *Resource) parseFuture(field, text string) (int64, error) {
	var r input.BodyReader
	at := r.Instant(field, text)
	switch {
	case len(r.Errs) > 0:
		return 0, r.Errs[0]
	case at == nil:
		return 0, nil
	case !at.After(s.Now()) || at.Year() > input.LastYear:
		return 0, timer.Invalid(
			field,
			fmt.Sprintf(
				"expected an instant from now to the year %d, found %q",
				input.LastYear,
				text,
			),
		)
	}
	return input.CeilMS(*at), nil
}

type rescheduleInput struct {
	param.TimerParam
	param.DryRunParam
	IfMatchParam

	Body rescheduleBody
}

type rescheduleBody struct {
	At        string `json:"at,omitempty" format:"date-time" doc:"The new instant, from now to 2199. Give it or delay."`
	Delay     string `json:"delay,omitempty" doc:"How long from now; longer than 0s, at most 10 years (3650d)." example:"90s"`
	IfVersion int32  `json:"if_version,omitempty" minimum:"1" doc:"Only if this is the timer's version; else 409."`
}

// rescheduleTimer moves a one-shot. With the row locked, the edit is refused if the one-shot has
// come due. Nothing is written then, so only one of the two instants is called.
func (s *Resource) rescheduleTimer(ctx context.Context, in *rescheduleInput) (*timerOutput, error) {
	id, err := param.OwnTimer(ctx, s.Auth, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	at, err := s.parseNewInstant(in.Body.At, in.Body.Delay)
	if err != nil {
		return nil, err
	}
	only, err := in.condition(in.Body.IfVersion)
	if err != nil {
		return nil, err
	}
	t, err := s.Store.Timer(ctx, in.App, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	kind := t.Definition.Schedule.Kind
	switch err := store.CheckReadable(&t); {
	case err != nil:
		return nil, err //nolint:wrapcheck // it says what to do
	case !kind.OneShot():
		return nil, timer.Conflict(
			"",
			fmt.Sprintf("a timer of kind %q recurs: edit its schedule", kind),
		)
	case !only.matches(t.Version):
		return nil, only.failure(versionConflict(t.Version))
	}
	if old := oneShotDue(&t); t.NextDueMS == timer.NeverMS && old <= s.Now().UnixMilli() {
		what, waits, err := s.describeOneShotFire(ctx, &t, old)
		if err != nil {
			return nil, err
		}
		if !waits {
			return nil, timer.Conflict("", "its fire "+what)
		}
	}
	d := t.Definition
	d.Schedule.Kind, d.Schedule.At, d.Schedule.Delay = timer.KindAt, &at, 0
	cameDue := timer.Conflict("", "it came due meanwhile")
	var wasMS int64 // due instant by the old version
	check := func(now *timer.Timer, nowMS int64) error {
		// It may have been activated in the meantime.
		if wasMS = oneShotDue(now); now.Status == timer.StatusActive && wasMS <= nowMS {
			return cameDue
		}
		return nil
	}
	done, err := s.Writer.Edit(
		ctx,
		store.Edit{App: in.App, ID: id, IfVersion: t.Version, Definition: d, Check: check},
		s.Plan,
	)
	if errors.Is(err, cameDue) {
		what, _, err := s.describeOneShotFire(ctx, &t, wasMS)
		if err != nil {
			return nil, err
		}
		return nil, timer.Conflict("", "it came due meanwhile: its fire "+what)
	}
	if err != nil {
		return nil, only.failure(err)
	}
	return s.show(ctx, &done)
}

// oneShotDue returns the due instant of a one-shot, or NeverMS before its first activation.
func oneShotDue(t *timer.Timer) int64 {
	if t.AnchorMS == 0 {
		return timer.NeverMS
	}
	p, err := schedule.Parse(t.Definition.Schedule, upcoming.Inputs(t))
	if err != nil {
		return timer.NeverMS
	}
	return p.Next(-1, t.AnchorMS)
}

func atOrDelayMessage(at string) string {
	if at == "" {
		return "expected at or delay, found neither: give one of the two"
	}
	return "expected at or delay, found both: leave one of the two out"
}

// parseNewInstant parses the new instant of a one-shot.
func (s *Resource) parseNewInstant(at, delay string) (time.Time, error) {
	switch {
	case (at == "") == (delay == ""):
		return time.Time{}, timer.Invalid("at", atOrDelayMessage(at))
	case at != "":
		ms, err := s.parseFuture("at", at)
		return time.UnixMilli(ms).UTC(), err
	}
	var r input.BodyReader
	d := r.Duration("delay", delay, 0)
	switch {
	case len(r.Errs) > 0:
		return time.Time{}, r.Errs[0]
	case d <= 0 || time.Duration(d) > schedule.MaxDelay:
		return time.Time{}, timer.Invalid(
			"delay",
			fmt.Sprintf(
				"expected a duration longer than 0s and up to 10 years (3650d), found %s",
				time.Duration(d),
			),
		)
	}
	return time.UnixMilli(input.CeilMS(s.Now().Add(time.Duration(d)))).UTC(), nil
}
