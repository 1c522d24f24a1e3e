package ui

import "net/url"

const firesOnPage = "100"

// fireFilters are the parameters of the list, which are those of the API.
var fireFilters = []string{
	"state", "reason", "cause", "timer", "labels", "due_from", "due_to", "min_lateness", "order",
}

type firesData struct {
	List    fireList
	Filter  map[string]string
	Refused *apiError // a filter that the API does not understand
	Next    string    // address of the next page
}

// listFires shows a page of the finished fires of an app that the filter selects.
func listFires(q *request) error {
	d := &firesData{Filter: make(map[string]string)}
	query, kept := url.Values{"limit": {firesOnPage}}, make(url.Values)
	for _, name := range fireFilters {
		if v := q.r.URL.Query().Get(name); v != "" {
			d.Filter[name] = v
			kept.Set(name, v)
			query.Set(name, instantOf(v))
		}
	}
	if c := q.r.URL.Query().Get("cursor"); c != "" {
		query.Set("cursor", c)
	}
	if err := q.get("/apps"+pathOf(q.app, "fires"), query, &d.List); err != nil {
		if d.Refused = refusedInput(err); d.Refused == nil {
			return err
		}
	}
	if c := d.List.NextCursor; c != "" {
		kept.Set("cursor", c)
		d.Next = q.appPath("fires") + "?" + kept.Encode()
	}
	return q.show("fires", d)
}
