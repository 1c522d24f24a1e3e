package ui

import (
	"errors"
	"net/http"
)

const timersOnPage = "50"

// timerFilters are the parameters of the list. The page's address has them, so a search can be kept
// and shared.
var timerFilters = []string{
	"name_contains", "labels", "status", "last_outcome", "target_host", "sort", "order",
}

type timersData struct {
	listing

	List timerList
	Bulk bool // the filter can select the timers of a job
}

// listTimers shows a page of timers that the filter selects.
func listTimers(q *request) error {
	d := &timersData{listing: q.readListing(timersOnPage, timerFilters, nil)}
	d.query.Set("app", q.app)
	d.query.Set("count", "true")
	if err := d.read(q, "/timers", &d.List); err != nil {
		return err
	}
	d.end(q.appPath("timers"), d.List.NextCursor)
	d.Bulk = d.Filter["last_outcome"] == "" && d.List.Total > 0
	return q.show("timers", d)
}

// refusedInput returns an error about what the viewer entered, or nil for another error.
func refusedInput(err error) *apiError {
	var e *apiError
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusPreconditionFailed,
		http.StatusUnprocessableEntity:
		return e
	}
	return nil
}
