package ui

import "net/url"

type jobsData struct {
	Items []jobItem
	Next  string // address of the next page
}

type jobItem struct {
	jobBody

	CreatedAt string `json:"created_at"`
}

// listJobs shows the jobs of an app, the latest first.
func listJobs(q *request) error {
	query := url.Values{"limit": {"50"}}
	if c := q.r.URL.Query().Get("cursor"); c != "" {
		query.Set("cursor", c)
	}
	var list struct {
		Items      []jobItem
		NextCursor string `json:"next_cursor"`
	}
	if err := q.get("/apps"+pathOf(q.app, "jobs"), query, &list); err != nil {
		return err
	}
	d := &jobsData{Items: list.Items}
	if c := list.NextCursor; c != "" {
		d.Next = q.appPath("jobs") + "?" + url.Values{"cursor": {c}}.Encode()
	}
	return q.show("jobs", d)
}
