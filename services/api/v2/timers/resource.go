package timers

import (
	"context"
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/requests"
	"github.com/carillon-timer/carillon/services/api/upcoming"
	"github.com/carillon-timer/carillon/services/api/v2/route"
	"github.com/carillon-timer/carillon/services/api/writes"
)

// Store is the part of the store that timers need.
type Store interface {
	TimerByName(ctx context.Context, app, name string) (timer.Timer, error)
	Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error)
	store.Searcher
	store.Calendars
	Fire(ctx context.Context, app string, id timer.FireID) (store.FireRecord, error)
	History(
		ctx context.Context,
		app string,
		id timer.ID,
		before timer.FireID,
		limit int,
	) ([]timer.Outcome, error)
	OpenFires(
		ctx context.Context,
		app string,
		id timer.ID,
		q store.OpenFiresQuery,
	) (store.OpenFiresPage, error)
	testCallStore
}

// testCallStore is the part that test calls need.
type testCallStore interface {
	SigningKeys(ctx context.Context, app string) ([]store.SigningKey, error)
	AddAudit(ctx context.Context, app string, e store.AuditEntry) error
}

// Resource is the operations on timers.
type Resource struct {
	Store       Store
	Auth        *auth.Checker
	Writer      *writes.Writer
	Definitions *definition.Reader
	Upcoming    *upcoming.Finder
	Plan        store.Planner       // expands schedules at edits
	Secrets     *encryption.Keyring // nil: definitions with secrets are refused
	Now         func() time.Time
	IDs         *timer.IDs                 // of the series of test calls
	Caller      callback.Caller            // makes test calls; nil: they are refused
	Tests       *TestSlots                 // limits test calls
	Exports     *requests.AppSlots         // limits exports at once
	Tokens      *callback.CompletionTokens // nil: no asynchronous targets

	documents *documentSchemas // of imports
}

// Register adds the operations to r.
func (s *Resource) Register(r *route.Router) {
	s.documents = newDocumentSchemas(r.API.OpenAPI().Components.Schemas)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps/{app}/export", ID: "export-app",
		Summary: "Stream all calendars and timers of an app, without secrets",
	}, s.exportApp)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/apps/{app}/import", ID: "import-app",
		Summary: "Create and change calendars and timers as the documents of an export say",
	}, s.importApp)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/timers", ID: "create-timer",
		Summary: "Create a timer",
		Status:  http.StatusCreated,
		Also:    []int{http.StatusOK}, // an identical timer exists
	}, s.createTimer)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/timers:batch", ID: "create-timers",
		Summary: "Create up to 1,000 timers, or give those of the names these definitions",
	}, s.batchTimers)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/timers:test", ID: "test-timer",
		Summary: "Call the target of a definition once, as a fire would, and show its answer",
		// Who may only operate may not choose what is called.
		Scope: apikey.Write,
	}, s.testCall)
	route.Add(r, route.Operation{
		Method: http.MethodPut, Path: "/timers", ID: "put-timer",
		Also:    []int{http.StatusCreated},
		Errors:  []int{http.StatusPreconditionFailed},
		Summary: "Create a timer, or give the one of that name this definition",
	}, s.putTimer)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/timers", ID: "list-timers",
		Summary: "List an app's timers, or search for some of them",
	}, s.listTimers)
	route.Add(r, route.Operation{
		Method:  http.MethodDelete,
		Path:    "/timers",
		ID:      "delete-named-timer",
		Errors:  []int{http.StatusPreconditionFailed},
		Summary: "Delete the timer of a name; its dead letters are no longer listed then, and cannot be redriven",
		Status:  http.StatusNoContent,
	}, s.deleteNamed)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/timers/{id}", ID: "get-timer",
		Summary: "Show a timer",
	}, s.getTimer)
	route.Add(r, route.Operation{
		Method: http.MethodPatch, Path: "/timers/{id}", ID: "change-timer",
		Errors:  []int{http.StatusPreconditionFailed},
		Summary: "Activate, deactivate or edit a timer",
	}, s.patchTimer)
	route.Add(r, route.Operation{
		Method:  http.MethodDelete,
		Path:    "/timers/{id}",
		ID:      "delete-timer",
		Errors:  []int{http.StatusPreconditionFailed},
		Summary: "Delete a timer; its dead letters are no longer listed then, and cannot be redriven",
		Status:  http.StatusNoContent,
	}, s.deleteTimer)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/timers/{id}/pause", ID: "pause-timer",
		Summary: "Pause a timer, perhaps until an instant",
		Scope:   apikey.Operate,
	}, s.pauseTimer)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/timers/{id}/resume", ID: "resume-timer",
		Summary: "End a timer's pause",
		Scope:   apikey.Operate,
	}, s.resumeTimer)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/timers/{id}/reschedule", ID: "reschedule-timer",
		Errors:  []int{http.StatusPreconditionFailed},
		Summary: "Move a one-shot that has not fired yet",
	}, s.rescheduleTimer)
}
