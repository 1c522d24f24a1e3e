package ui

import (
	"net/url"

	"github.com/carillon-timer/carillon/libs/apikey"
)

// callerBody says what the viewer's key is for.
type callerBody struct {
	App        string
	Deployment bool
	Name       string // of a person
	Scope      string // in the request's app
}

// May reports whether the viewer has a scope. Pages offer only what the viewer may do; the API
// checks it in any case.
func (c callerBody) May(scope string) bool {
	return apikey.Scope(c.Scope).Includes(apikey.Scope(scope))
}

// caller asks the API once for each request. Nobody who is not signed in is asked for: the API
// counts that as a denied request.
func (q *request) caller() callerBody {
	if q.known != nil {
		return *q.known
	}
	q.known = new(callerBody)
	if q.page.opts.Keyless || len(q.header) > 0 || q.person != nil {
		query := url.Values{}
		if q.app != "" {
			query.Set("app", q.app)
		}
		if err := q.get("/caller", query, q.known); err != nil {
			q.page.opts.Logger.Debug().Err(err).Msg("caller of the page not known")
		}
	}
	return *q.known
}
