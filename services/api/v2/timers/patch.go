package timers

import (
	"context"
	"fmt"
	"reflect"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// setStatus sets the status of a timer that the same request has edited. In a dry run the edit is
// not there, so what it would have made is added.
func (s *Resource) setStatus(
	ctx context.Context,
	edited *timer.Timer,
	c store.StatusChange,
) (timer.Timer, error) {
	t, err := s.Writer.SetStatus(ctx, c)
	if err != nil || edited.ID == 0 || !store.IsDryRun(ctx) {
		return t, err
	}
	if !reflect.DeepEqual(t.Definition.Schedule, edited.Definition.Schedule) {
		t.NextDueMS = 0 // the instant of a one-shot that is not expanded yet
	}
	t.Definition, t.Calendars = edited.Definition, edited.Calendars
	t.Version, t.VersionMS = edited.Version, edited.VersionMS
	return t, nil
}

type patchTimerInput struct {
	param.TimerParam
	param.DryRunParam
	IfMatchParam

	Body changeBody
}

func (s *Resource) patchTimer(ctx context.Context, in *patchTimerInput) (*timerOutput, error) {
	id, err := param.OwnTimer(ctx, s.Auth, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	edits := b.Schedule != nil || b.Target != nil || b.Targets != nil || b.Mode != "" ||
		b.Retry != nil ||
		b.Misfire != nil ||
		b.Concurrency != nil ||
		b.Priority != "" ||
		b.Labels != nil ||
		b.Metrics != nil
	if !edits && b.Status == "" {
		return nil, timer.Invalid(
			"status",
			"expected status, schedule, target, targets, mode, retry, misfire, concurrency, priority, labels or metrics, found none of them: give what is to be changed",
		)
	}
	c, err := in.condition(b.IfVersion)
	if err != nil {
		return nil, err
	}
	b.IfVersion, err = c.version(
		func() (timer.Timer, error) { return s.Store.Timer(ctx, in.App, id) },
	)
	if err != nil {
		return nil, err
	}
	t, err := s.change(ctx, in.App, id, b, edits)
	if err != nil {
		return nil, c.failure(err)
	}
	if in.DryRun {
		out, err := s.dryRun(ctx, &t, false)
		if err != nil {
			return nil, err
		}
		return &timerOutput{Body: out.Body}, nil
	}
	return s.showChanged(ctx, &t)
}

// change edits a timer and sets its status, as a body says. Another edit may come between the two. Then
// it starts again, unless the caller named a version: a status belongs to the definition with it.
func (s *Resource) change(
	ctx context.Context,
	app string,
	id timer.ID,
	b *changeBody,
	edits bool,
) (t timer.Timer, err error) {
	status := store.StatusChange{
		App: app, ID: id, Status: timer.Status(b.Status), IfVersion: b.IfVersion,
	}
	for range input.EditTries {
		if edits {
			if t, err = s.editFrom(ctx, app, id, b); err != nil {
				return t, err
			}
			status.IfVersion = versionAfterEdit(ctx, &t)
		}
		if b.Status == "" || t.Status == status.Status { // the edit may have deactivated it
			return t, nil
		}
		t, err = s.setStatus(ctx, &t, status)
		if edits && isVersionConflict(err) && b.IfVersion == 0 {
			continue
		}
		return t, err
	}
	return timer.Timer{}, timer.Unavailable("the timer is edited too often", nil)
}

// editFrom applies the fields of a body and keeps the others. It starts again when another edit
// came between, so that no edit is lost, unless the caller named a version.
func (s *Resource) editFrom(
	ctx context.Context,
	app string,
	id timer.ID,
	b *changeBody,
) (timer.Timer, error) {
	for range input.EditTries {
		t, d, err := s.readChanged(ctx, app, id, b)
		if err != nil {
			return t, err
		}
		done, err := s.Writer.ApplyEdit(
			ctx,
			store.Edit{
				App: app, ID: id, IfVersion: t.Version, Definition: d,
				Deactivate: timer.Status(b.Status) == timer.StatusInactive,
			},
			&t.Definition,
		)
		if isVersionConflict(err) && b.IfVersion == 0 {
			continue
		}
		return done, err
	}
	return timer.Timer{}, timer.Unavailable("the timer is edited too often", nil)
}

// readChanged returns a timer, and its definition with the fields of a body applied.
func (s *Resource) readChanged(
	ctx context.Context,
	app string,
	id timer.ID,
	b *changeBody,
) (timer.Timer, timer.Definition, error) {
	t, err := s.Store.Timer(ctx, app, id)
	if err != nil {
		return t, t.Definition, err //nolint:wrapcheck // the store says what it was doing
	}
	if b.IfVersion != 0 && t.Version != b.IfVersion {
		return t, t.Definition, versionConflict(t.Version)
	}
	if err := store.CheckReadable(&t); err != nil {
		return t, t.Definition, err //nolint:wrapcheck // it says what to do
	}
	var r input.BodyReader
	d := s.changed(app, b, t.Definition, &r)
	return t, d, s.Definitions.CheckDefinition(ctx, app, t.Name, &d, &r)
}

func versionConflict(version int32) error {
	return timer.Conflict(
		ifVersion,
		fmt.Sprintf(
			"expected the version of the timer, which is %d, found another: read the timer again",
			version,
		),
	)
}
