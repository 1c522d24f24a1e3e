package jobs

import (
	"context"
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// Store is the part of the store that jobs need.
type Store interface {
	store.Jobs
	App(ctx context.Context, name string) (store.App, error)
	PutIfAbsent(
		ctx context.Context,
		app, key string,
		hash []byte,
		value int64,
	) (int64, error)
	Search(ctx context.Context, q store.SearchQuery) (store.SearchPage, error)
	Count(ctx context.Context, q store.SearchQuery) (store.SearchCount, error)
}

// Resource is the operations on jobs.
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
		Method: http.MethodPost, Path: "/apps/{app}/jobs", ID: "start-job",
		Summary: "Change all timers of an app that a filter selects, in the background",
		Status:  http.StatusAccepted,
		Also:    []int{http.StatusOK}, // of a dry run
		Scope:   apikey.Operate,       // write for some actions, see scopeOf
	}, s.startJob)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps/{app}/jobs", ID: "list-jobs",
		Summary: "List an app's jobs, latest first",
	}, s.listJobs)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps/{app}/jobs/{id}", ID: "get-job",
		Summary: "Show a job and its progress",
	}, s.getJob)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/apps/{app}/jobs/{id}/cancel", ID: "cancel-job",
		Summary: "End a job; what it has changed stays",
		Scope:   apikey.Operate,
	}, s.cancelJob)
	route.Add(r, route.Operation{
		Method: http.MethodDelete, Path: "/apps/{app}", ID: "delete-app",
		Summary: "Delete an app with all it has, in the background",
		Status:  http.StatusAccepted, Scope: apikey.Admin,
	}, s.deleteApp)
}
