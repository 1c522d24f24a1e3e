package timers

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

func decodeTimersCursor(cursor string) (timer.ID, error) {
	if cursor == "" {
		return 0, nil
	}
	position, err := input.DecodeCursor(input.TimersCursor, cursor)
	if err != nil {
		return 0, err
	}
	id, err := timer.ParseID(position)
	if err != nil {
		return 0, input.NotACursor()
	}
	return id, nil
}

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
	return &timerOutput{etag(t.Version), showTimer(t, next)}, nil
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

type listTimersInput struct {
	param.AppParam
	Status string `query:"status" enum:"active,inactive,paused" doc:"Only timers of this status."`
	Name   string `query:"name" maxLength:"128" doc:"Only the timer of this name."`
	param.PageParam
}

type timersOutput struct{ Body timersBody }

func (s *Resource) listTimers(ctx context.Context, in *listTimersInput) (*timersOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	after, err := decodeTimersCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.findTimers(ctx, in, after)
	if err != nil {
		return nil, err
	}
	out := &timersOutput{}
	if len(found) > in.Limit {
		found = found[:in.Limit]
		out.Body.NextCursor = input.EncodeCursor(input.TimersCursor, found[in.Limit-1].ID.String())
	}
	out.Body.Items = make([]timerBody, len(found))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(nextDueConcurrency)
	for i := range found {
		eg.Go(func() error {
			one, err := s.show(ctx, &found[i])
			if err == nil {
				out.Body.Items[i] = one.Body
			}
			return err
		})
	}
	return out, eg.Wait() //nolint:wrapcheck // of show
}

// nextDueConcurrency limits how many timers of a page are read at once. The next due instant of
// some is known only from their fires.
const nextDueConcurrency = 8

// findTimers returns one timer more than requested, which tells whether there is a next page. A
// name matches at most one.
func (s *Resource) findTimers(
	ctx context.Context,
	in *listTimersInput,
	after timer.ID,
) ([]timer.Timer, error) {
	if in.Name == "" {
		q := store.Query{
			App:    in.App,
			Status: timer.Status(in.Status),
			After:  after,
			Limit:  in.Limit + 1,
		}
		return s.Store.List(ctx, q) //nolint:wrapcheck // the store says what it was doing
	}
	t, err := s.Store.TimerByName(ctx, in.App, in.Name)
	switch {
	case timer.CodeOf(err) == timer.CodeNotFound:
		return nil, nil
	case err != nil:
		return nil, err //nolint:wrapcheck // the store says what it was doing
	case t.ID <= after || in.Status != "" && in.Status != string(t.Status):
		return nil, nil
	}
	return []timer.Timer{t}, nil
}
