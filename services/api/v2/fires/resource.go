package fires

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/upcoming"
	"github.com/carillon-timer/carillon/services/api/v2/route"
	"github.com/carillon-timer/carillon/services/api/writes"
)

// Store is the part of the store that fires need.
type Store interface {
	store.History
	store.IdempotencyKeys
	store.Completer
	store.Redriver
	explain.LifeStore
	App(ctx context.Context, name string) (store.App, error)
	TimerByName(ctx context.Context, app, name string) (timer.Timer, error)
}

// Resource is the operations on fires.
type Resource struct {
	Options

	metrics     *metrics
	completions *completionLimiter // limits completions with a valid token
}

// Options are the dependencies of the operations.
type Options struct {
	Store          Store
	Auth           *auth.Checker
	Problems       *problem.Reporter
	Writer         *writes.Writer
	Upcoming       *upcoming.Finder
	Successor      SuccessorPlanner
	Counts         *slicing.Counts            // chooses the buckets of requested fires
	Tokens         *callback.CompletionTokens // nil: there is no key to create them with
	MaxCompletions int                        // store calls of completions at once
	IDs            *timer.IDs
	Now            func() time.Time
	Tracer         *tracing.Tracer // nil: tracing is off
	Registerer     prometheus.Registerer
}

// SuccessorPlanner plans the next fire of a fixed delay; *expansion.Planner implements it.
type SuccessorPlanner interface {
	Successor(
		f *timer.Fire,
		d *timer.Definition,
		calendars []timer.Calendar,
		endMS int64,
	) (*timer.Fire, error)
}

// New returns the operations on fires.
func New(opts Options) *Resource {
	return &Resource{
		Options:     opts,
		metrics:     newMetrics(opts.Registerer),
		completions: newCompletionLimiter(opts.MaxCompletions),
	}
}

// Register adds the operations to r.
func (s *Resource) Register(r *route.Router) {
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/timers/{id}/run", ID: "run-timer",
		Summary: "Call a timer's target now, besides its schedule",
		Status:  http.StatusAccepted, Scope: apikey.Operate,
	}, s.runTimer)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/timers/{id}/fires", ID: "list-fires",
		Summary: "List a timer's fires: finished ones, or those of the states named",
	}, s.listFires)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/fires/{id}", ID: "get-fire",
		Summary: "Show a fire and its attempts",
	}, s.getFire)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/fires/{id}/complete", ID: "complete-fire",
		Summary: "Say what became of a fire that was accepted",
		Open:    true,
	}, s.completeFire)
	route.Add(r, route.Operation{
		Method:  http.MethodGet,
		Path:    "/apps/{app}/dead-letters",
		ID:      "list-dead-letters",
		Summary: "List the fires of an app that failed for good and were not redriven, in the order in which they ended; those of deleted timers are left out",
	}, s.listDeadLetters)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/apps/{app}/redrives", ID: "redrive-fires",
		Summary: "Make failed fires again",
		Scope:   apikey.Operate,
	}, s.redriveFires)
}
