package history

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/v2/fires"
)

// AppFireBody is a finished fire of an app.
type AppFireBody struct {
	fires.FireBody

	TimerName string `json:"timer_name"`
}

// namer shows outcomes with the names of their timers. A timer never changes its name. It is for
// one goroutine.
type namer struct {
	store store.States
	known map[timer.ID]string
}

func newNamer(s store.States) *namer { return &namer{store: s, known: map[timer.ID]string{}} }

func (n *namer) show(ctx context.Context, outcomes []timer.Outcome) ([]AppFireBody, error) {
	if len(n.known) > maxKnown {
		clear(n.known)
	}
	var unknown []timer.ID
	for i := range outcomes {
		if _, ok := n.known[outcomes[i].Timer]; !ok {
			unknown = append(unknown, outcomes[i].Timer)
		}
	}
	slices.Sort(unknown)
	if unknown = slices.Compact(unknown); len(unknown) > 0 {
		states, err := n.store.States(ctx, unknown)
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		for i := range states {
			n.known[states[i].ID] = states[i].Name
		}
	}
	shown := make([]AppFireBody, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		shown[i] = AppFireBody{fires.ShowOutcome(o), n.known[o.Timer]}
	}
	return shown, nil
}
