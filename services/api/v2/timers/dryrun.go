package timers

import (
	"context"
	"net/http"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

// dryRunInstants limits the upcoming instants in the answer to a dry run.
const dryRunInstants = 10

// dryRun shows a timer that was not written, with its next instants while it is active.
func (s *Resource) dryRun(
	ctx context.Context,
	t *timer.Timer,
	created bool,
) (*createOutput, error) {
	if created {
		t.ID = 0
	}
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
	if active.Status != timer.StatusActive {
		active.Status, active.ActiveSinceMS = timer.StatusActive, s.Now().UnixMilli()
		if active.AnchorMS == 0 {
			active.AnchorMS = active.ActiveSinceMS
		}
	}
	dues, err := s.Upcoming.Upcoming(ctx, &active, s.Now().UnixMilli(), dryRunInstants)
	if err != nil {
		return nil, err
	}
	out := &createOutput{Status: http.StatusOK, Body: shown.Body}
	for _, due := range dues {
		out.Body.Upcoming = append(out.Body.Upcoming, input.Due(due))
	}
	return out, nil
}
