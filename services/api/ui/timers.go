package ui

import (
	"errors"
	"net/http"
	"net/url"
)

const timersOnPage = "50"

// timerFilters are the parameters of the list, which are those of the API. The page's address has
// them, so a search can be kept and shared.
var timerFilters = []string{
	"name_contains", "labels", "status", "last_outcome", "target_host", "sort", "order",
}

type timersData struct {
	List    timerList
	Filter  map[string]string
	Refused *apiError // a filter that the API does not understand
	Next    string    // address of the next page
	Bulk    bool      // the filter can select the timers of a job
}

// listTimers shows a page of timers that the filter selects.
func listTimers(q *request) error {
	d := &timersData{Filter: make(map[string]string)}
	query := url.Values{"app": {q.app}, "limit": {timersOnPage}, "count": {"true"}}
	kept := make(url.Values)
	for _, name := range timerFilters {
		if v := q.r.URL.Query().Get(name); v != "" {
			d.Filter[name] = v
			query.Set(name, v)
			kept.Set(name, v)
		}
	}
	if c := q.r.URL.Query().Get("cursor"); c != "" {
		query.Set("cursor", c)
	}
	if err := q.get("/timers", query, &d.List); err != nil {
		if d.Refused = refusedInput(err); d.Refused == nil {
			return err
		}
	}
	if c := d.List.NextCursor; c != "" {
		kept.Set("cursor", c)
		d.Next = q.appPath("timers") + "?" + kept.Encode()
	}
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
