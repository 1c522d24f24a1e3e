package calendars

import (
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// Store is the part of the store that calendars need.
type Store interface {
	store.Calendars
	store.States
}

// Resource is the operations on calendars.
type Resource struct {
	Store    Store
	Auth     *auth.Checker
	Problems *problem.Reporter
	Now      func() time.Time
}

// Register adds the operations to r.
func (s *Resource) Register(r *route.Router) {
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/calendars", ID: "list-calendars",
		Summary: "List an app's calendars, by name",
	}, s.listCalendars)
	route.Add(r, route.Operation{
		Method: http.MethodPut, Path: "/calendars/{name}", ID: "put-calendar",
		Summary: "Make or replace a calendar; the same content changes nothing",
		Errors:  []int{http.StatusPreconditionFailed},
	}, s.putCalendar)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/calendars/{name}", ID: "get-calendar",
		Summary: "Show a calendar",
	}, s.getCalendar)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/calendars/{name}/timers", ID: "list-calendar-timers",
		Summary: "List the timers that name a calendar",
	}, s.listTimers)
	route.Add(r, route.Operation{
		Method: http.MethodDelete, Path: "/calendars/{name}", ID: "delete-calendar",
		Summary: "Delete a calendar that no timer names",
		Status:  http.StatusNoContent,
	}, s.deleteCalendar)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/calendars/{name}/import", ID: "import-calendar",
		Summary: "Take the dates of an iCalendar file into a calendar",
	}, s.importCalendar)
}
