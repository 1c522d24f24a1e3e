package timers

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type timerOutput struct {
	ETag string `header:"ETag" doc:"The version of the definition, in quotes."`
	Body timerBody
}

// show returns a timer with its next due instant.
func (s *Resource) show(ctx context.Context, t *timer.Timer) (*timerOutput, error) {
	next, err := s.Upcoming.NextDue(ctx, t)
	if err != nil {
		return nil, err
	}
	out := &timerOutput{etag(t.Version), showTimer(t, next)}
	out.Body.DryRun = store.IsDryRun(ctx)
	return out, nil
}

func (s *Resource) getTimer(ctx context.Context, in *param.TimerParam) (*timerOutput, error) {
	id, err := param.Timer(ctx, s.Auth, in)
	if err != nil {
		return nil, err
	}
	t, err := s.Store.Timer(ctx, in.App, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return s.show(ctx, &t)
}
