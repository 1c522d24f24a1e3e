package timers

import (
	"context"
	"net/http"
	"reflect"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

// dryRunInstants limits the upcoming instants in the answer to a dry run.
const dryRunInstants = 10

// DryRunParam asks what a write would do. It is exported, because huma reads no other embedded
// structs.
type DryRunParam struct {
	DryRun bool `query:"dry_run" doc:"Write nothing: answer as if it had been done, with 200 and the next instants. Another request may still change that."`
}

// dryRunCreate answers a create that is not made.
func (s *Resource) dryRunCreate(ctx context.Context, n *store.NewTimer) (*createOutput, error) {
	t, err := s.Store.TimerByName(ctx, n.App, n.Name)
	switch {
	case timer.CodeOf(err) == timer.CodeNotFound:
		t = s.newTimerOf(n)
	case err != nil:
		return nil, err //nolint:wrapcheck // the store says what it was doing
	case !reflect.DeepEqual(t.Definition, n.Definition):
		return nil, store.NameTaken()
	}
	return s.dryRun(ctx, &t)
}

// dryRunPut answers a put that is not made.
func (s *Resource) dryRunPut(
	ctx context.Context,
	n *store.NewTimer,
	in *putInput,
) (*createOutput, error) {
	status := timer.Status(in.Body.Status)
	t, err := s.Store.TimerByName(ctx, n.App, n.Name)
	switch {
	case timer.CodeOf(err) == timer.CodeNotFound && in.IfMatch == "":
		t = s.newTimerOf(n)
	case timer.CodeOf(err) == timer.CodeNotFound:
		return nil, in.precondition(timer.Conflict(ifVersion, "there is no timer of this name"))
	case err != nil:
		return nil, err //nolint:wrapcheck // the store says what it was doing
	case in.IfNoneMatch != "":
		return nil, errExists()
	case in.version() != 0 && in.version() != t.Version:
		return nil, in.precondition(versionConflict(t.Version))
	default:
		s.edit(&t, &n.Definition)
		if changesStatus(&t, status) {
			s.setStatus(&t, status)
		}
	}
	return s.dryRun(ctx, &t)
}

// dryRunPatch answers a change that is not made.
func (s *Resource) dryRunPatch(
	ctx context.Context,
	app string,
	id timer.ID,
	b *changeBody,
) (*timerOutput, error) {
	t, d, err := s.readChanged(ctx, app, id, b)
	if err != nil {
		return nil, err
	}
	s.edit(&t, &d)
	if b.Status != "" {
		s.setStatus(&t, timer.Status(b.Status))
	}
	out, err := s.dryRun(ctx, &t)
	if err != nil {
		return nil, err
	}
	return &timerOutput{Body: out.Body}, nil
}

// newTimerOf returns the timer that a create would make now.
func (s *Resource) newTimerOf(n *store.NewTimer) timer.Timer {
	now := s.Now().UnixMilli()
	t := timer.Timer{
		App: n.App, Name: n.Name, Status: timer.StatusInactive, Version: 1,
		Definition: n.Definition, VersionMS: now, CreatedMS: now, UpdatedMS: now,
	}
	if n.Activate {
		s.setStatus(&t, timer.StatusActive)
	}
	return t
}

// edit gives a timer the definition, as an edit would now.
func (s *Resource) edit(t *timer.Timer, d *timer.Definition) {
	if reflect.DeepEqual(t.Definition, *d) {
		return
	}
	if !reflect.DeepEqual(t.Definition.Schedule, d.Schedule) {
		t.NextDueMS = 0 // the instant of a one-shot that is not expanded yet
	}
	now := s.Now().UnixMilli()
	t.Definition, t.VersionMS, t.UpdatedMS = *d, now, now
	t.Version++
}

// setStatus sets a status, as a status change would now.
func (s *Resource) setStatus(t *timer.Timer, status timer.Status) {
	if t.Status == status {
		return
	}
	now := s.Now().UnixMilli()
	t.Status, t.UpdatedMS = status, now
	if status == timer.StatusActive {
		t.ActiveSinceMS = now
		if t.AnchorMS == 0 {
			t.AnchorMS = now
		}
	}
}

// dryRun shows a timer that was not written, with its next instants while it is active.
func (s *Resource) dryRun(ctx context.Context, t *timer.Timer) (*createOutput, error) {
	t.Calendars = nil
	for _, name := range t.Definition.Schedule.Calendars {
		c, err := s.Store.Calendar(ctx, t.App, name)
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		t.Calendars = append(t.Calendars, c.Calendar)
	}
	shown, err := s.showChanged(ctx, t)
	if err != nil {
		return nil, err
	}
	active := *t
	s.setStatus(&active, timer.StatusActive)
	dues, err := s.Upcoming.Upcoming(ctx, &active, s.Now().UnixMilli(), dryRunInstants)
	if err != nil {
		return nil, err
	}
	out := &createOutput{Status: http.StatusOK, Body: shown.Body}
	out.Body.DryRun = true
	for _, due := range dues {
		out.Body.Upcoming = append(out.Body.Upcoming, input.Instant(due))
	}
	return out, nil
}
