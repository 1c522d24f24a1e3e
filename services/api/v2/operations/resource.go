// Package operations tells operators of a deployment how it is doing.
package operations

import (
	"context"
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// Store is the part of the store that operations need.
type Store interface {
	sessions
	backlogs
	canary
}

type sessions interface {
	LiveSessions(ctx context.Context) ([]store.Session, error)
	ExpiredSessions(ctx context.Context, within time.Duration) ([]store.Session, error)
}

type backlogs interface {
	Cursor(ctx context.Context, minute int64) (int64, error)
	SliceBacklog(ctx context.Context) (int64, error)
	OverdueByApp(ctx context.Context, limit, top int) (n int, apps []store.AppCount, err error)
	OldestOpen(ctx context.Context) (int64, error)
	ExpandBacklog(ctx context.Context, limit int) (n int, oldestMS int64, err error)
	JobBacklog(ctx context.Context, limit int) (n int, oldestMS int64, err error)
}

type canary interface {
	List(ctx context.Context, q store.Query) ([]timer.Timer, error)
	History(
		ctx context.Context,
		app string,
		id timer.ID,
		before timer.FireID,
		limit int,
	) ([]timer.Outcome, error)
}

// Bus is the part of the bus that operations need.
type Bus interface {
	Backlog(ctx context.Context, topic bus.Topic, subscription string) (int64, error)
}

// Health runs the checks of the process.
type Health interface {
	Run(ctx context.Context) (results []health.Result, ready bool)
}

// Setting is a setting in force, as -print-config prints it: secrets are redacted.
type Setting struct {
	Name   string `json:"name" example:"retention"`
	Value  string `json:"value" doc:"Secrets are redacted." example:"168h0m0s"`
	Source string `json:"source" doc:"Where it comes from: a flag, a variable of the environment, a file, or its default." example:"default"`
}

// Resource is the operations on the deployment.
type Resource struct {
	Store    Store
	Bus      Bus // nil: no backlogs of topics
	Auth     *auth.Checker
	Settings []Setting // of this process
	Health   Health    // of this process; nil: no checks
	Now      func() time.Time
}

// Register adds the operations to r.
func (s *Resource) Register(r *route.Router) {
	route.Add(r, route.Operation{
		Deployment: true,
		Method:     http.MethodGet, Path: "/operations", ID: "get-operations",
		Summary: "Show sessions, backlogs and the canary of the deployment",
	}, s.get)
	route.Add(r, route.Operation{
		Deployment: true,
		Method:     http.MethodGet, Path: "/operations/settings", ID: "list-settings",
		Summary: "List the settings of the process that answers",
		Scope:   apikey.Admin,
	}, s.listSettings)
}
