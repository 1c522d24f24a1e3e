package ui

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
	if err := d.read(q, "/apps"+pathOf(q.app, "fires"), &d.List); err != nil {
		return err
	}
	d.end(q.appPath("fires"), d.List.NextCursor)
	return q.show("fires", d)
}
