package calendars

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type listTimersInput struct {
	CalendarParam
	param.PageParam
}

type calendarTimersOutput struct{ Body calendarTimersBody }

type calendarTimersBody struct {
	Items      []calendarTimerBody `json:"items" nullable:"false"`
	NextCursor string              `json:"next_cursor" doc:"Pass it as cursor for the next page; empty on the last one."`
}

type calendarTimerBody struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status" enum:"inactive,active,paused"`
}

// listTimers lists the timers that name a calendar. A timer that is deleted between the two reads
// is left out, so a page may be short.
func (s *Resource) listTimers(
	ctx context.Context,
	in *listTimersInput,
) (*calendarTimersOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err //nolint:wrapcheck // it is the answer
	}
	var after timer.ID
	if in.Cursor != "" {
		position, err := input.DecodeCursor(input.CalendarTimersCursor, in.Cursor)
		if err != nil {
			return nil, err //nolint:wrapcheck // it is the answer
		}
		if after, err = timer.ParseID(position); err != nil {
			return nil, input.NotACursor() //nolint:wrapcheck // it is the answer
		}
	}
	if _, err := s.Store.Calendar(ctx, in.App, in.Name); err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	ids, err := s.Store.TimersOfCalendar(ctx, in.App, in.Name, after, in.Limit+1)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	out := &calendarTimersOutput{}
	if len(ids) > in.Limit {
		ids = ids[:in.Limit]
		out.Body.NextCursor = input.EncodeCursor(
			input.CalendarTimersCursor, ids[len(ids)-1].String())
	}
	out.Body.Items, err = s.showTimers(ctx, ids)
	return out, err
}

func (s *Resource) showTimers(ctx context.Context, ids []timer.ID) ([]calendarTimerBody, error) {
	items := make([]calendarTimerBody, 0, len(ids))
	states, err := s.Store.States(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading the timers of a calendar: %w", err)
	}
	byID := make(map[timer.ID]*timer.State, len(states))
	for i := range states {
		byID[states[i].ID] = &states[i]
	}
	slices.Sort(ids)
	for _, id := range ids {
		t := byID[id]
		if t == nil || !t.Exists() || t.Status == timer.StatusDeleted {
			continue
		}
		items = append(items, calendarTimerBody{id.String(), t.Name, string(t.Status)})
	}
	return items, nil
}
