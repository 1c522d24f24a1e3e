package ui

import (
	"net/http"
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
		*q.known = q.callerIn(q.app)
	}
	return *q.known
}

// callerIn asks the API what the viewer may do in an app; "": in all of them and the deployment.
func (q *request) callerIn(app string) (c callerBody) {
	query := url.Values{}
	if app != "" {
		query.Set("app", app)
	}
	if err := q.get("/caller", query, &c); err != nil {
		q.page.opts.Logger.Debug().Err(err).Msg("caller of the page not known")
	}
	return c
}

// needWrite returns an error for a viewer who may not create or change timers, before they fill in a
// form in vain.
func (q *request) needWrite() error {
	if q.caller().May("write") {
		return nil
	}
	// The scope is also unknown where the API did not answer, or does not know the key.
	if err := q.get("/caller", url.Values{"app": {q.app}}, nil); err != nil {
		return err
	}
	return &apiError{Status: http.StatusForbidden, Detail: q.views.texts.get("needs_write")}
}
