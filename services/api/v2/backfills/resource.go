// Package backfills manages backfills, which create the fires of a past range.
package backfills

import (
	"context"
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/v2/param"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// Store is the part of the store that backfills need.
type Store interface {
	param.Keys
	Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error)
	StartBackfill(ctx context.Context, b store.Backfill) (store.Backfill, error)
	Backfill(ctx context.Context, app string, id timer.ID) (store.Backfill, error)
	CancelBackfill(ctx context.Context, app string, id timer.ID) (store.Backfill, error)
}

// Resource is the operations on backfills.
type Resource struct {
	Store    Store
	Auth     *auth.Checker
	Problems *problem.Reporter
	IDs      *timer.IDs
	Now      func() time.Time
}

// Register adds the operations to r.
func (s *Resource) Register(r *route.Router) {
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/timers/{id}/backfills", ID: "start-backfill",
		Summary: "Make the fires of a past range",
		Status:  http.StatusAccepted,
	}, s.startBackfill)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/backfills/{id}", ID: "get-backfill",
		Summary: "Show a backfill",
	}, s.getBackfill)
	route.Add(r, route.Operation{
		Method: http.MethodDelete, Path: "/backfills/{id}", ID: "cancel-backfill",
		Summary: "Cancel a backfill: what has not been called is skipped",
		Scope:   apikey.Operate,
	}, s.cancelBackfill)
}
