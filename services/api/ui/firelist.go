package ui

import (
	"net/http"
	"net/url"
)

const firesOnPage = "100"

// fireFilters and fireInstants are the parameters of the list.
var (
	fireFilters  = []string{"state", "reason", "cause", "timer", "labels", "min_lateness", "order"}
	fireInstants = []string{"due_from", "due_to"}
)

type firesData struct {
	listing

	List fireList
}

// listFires shows a page of the finished fires of an app that the filter selects.
func listFires(q *request) error {
	d := &firesData{listing: q.readListing(firesOnPage, fireFilters, fireInstants)}
	path := "/apps" + pathOf(q.app, "fires")
	err := d.read(q, path, &d.List)
	if hasStatus(err, http.StatusNotFound) && d.Filter["timer"] != "" {
		// It is the timer that is not found, unless the viewer may not see the app.
		if err = q.get(path, url.Values{"limit": {"1"}}, nil); err == nil {
			d.Refused = &apiError{
				Status: http.StatusUnprocessableEntity, Detail: q.views.texts.get("no_such_timer"),
			}
		}
	}
	if err != nil {
		return err
	}
	d.end(q.appPath("fires"), d.List.NextCursor)
	return q.show("fires", d)
}
