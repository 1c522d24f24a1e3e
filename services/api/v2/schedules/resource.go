package schedules

import (
	"context"
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// Store is the part of the store that schedules need.
type Store interface {
	Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error)
	Calendar(ctx context.Context, app, name string) (store.CalendarVersion, error)
}

// Resource is the operations on schedules.
type Resource struct {
	Store       Store
	Auth        *auth.Checker
	Problems    *problem.Reporter
	Definitions *definition.Reader
	Now         func() time.Time
}

// Register adds the operations to r.
func (s *Resource) Register(r *route.Router) {
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/schedules/preview", ID: "preview-schedule",
		Summary: "Show the next fires of a schedule, and what it excludes",
		Scope:   apikey.Read,
		Reads:   true,
	}, s.previewSchedule)
}
