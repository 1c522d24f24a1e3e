package param

import (
	"context"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Timers is the part of the store that finds a timer by its name or id.
type Timers interface {
	States(ctx context.Context, ids []timer.ID) ([]timer.State, error)
	TimerByName(ctx context.Context, app, name string) (timer.Timer, error)
}

// FindTimer finds a timer of an app by its id, else by its name, else a deleted one by its id. It
// returns the id, app, name and status. ok is false if there is none. An id goes before a name:
// otherwise a new timer could take the place of another one, by a name that is its id.
func FindTimer(
	ctx context.Context,
	s Timers,
	app, text string,
) (found timer.State, ok bool, err error) {
	if id, err := timer.ParseID(strings.TrimSpace(text)); err == nil {
		states, err := s.States(ctx, []timer.ID{id})
		if err != nil {
			return found, false, err //nolint:wrapcheck // the store says what it was doing
		}
		if len(states) > 0 && states[0].App == app {
			found, ok = states[0], true
		}
	}
	if ok && found.Status != timer.StatusDeleted {
		return found, true, nil
	}
	t, err := s.TimerByName(ctx, app, text)
	switch {
	case err == nil:
		return timer.State{ID: t.ID, App: t.App, Name: t.Name, Status: t.Status}, true, nil
	case timer.CodeOf(err) == timer.CodeNotFound:
		return found, ok, nil
	default:
		return found, false, err //nolint:wrapcheck // the store says what it was doing
	}
}
