package ui

import (
	"net/http"
	"net/url"
	"time"
)

type appBody struct {
	App         string
	Frozen      bool
	Reason      string
	FrozenSince string `json:"frozen_since"`
	Deleting    string // id of the job that deletes it
}

// appState is what every page of an app says about the app.
type appState struct {
	appBody

	Missing bool // it has nothing yet
}

// readApp asks the API once for each request. An app that the viewer may not see is missing, too:
// the pages show it nowhere, because what they read first is refused.
func (q *request) readApp() (*appState, error) {
	if q.state != nil {
		return q.state, nil
	}
	var s appState
	err := q.get("/apps"+pathOf(q.app), nil, &s.appBody)
	if s.Missing = hasStatus(err, http.StatusNotFound); err != nil && !s.Missing {
		return nil, err
	}
	s.App, q.state = q.app, &s
	return q.state, nil
}

type apiKey struct {
	ID, Name, Scope string
	CreatedAt       string `json:"created_at"`
	Key             string // only when it is made
}

type signingKey struct {
	ID, Kind, Public string
	CreatedAt        string `json:"created_at"`
	Secret           string // only when it is made
}

type appData struct {
	App         appState
	Settings    appSettings // as the form shows them
	Present     appSettings // as the API has them
	Changed     bool        // somebody changed them since the form was shown
	Use         appUse
	Keys        []apiKey // only for the scope admin, as the next
	SigningKeys []signingKey
	Refused     *apiError
	RefusedAt   string // the section to which the error belongs
}

// appUse is how much of its rate an app uses, in fires per second.
type appUse struct {
	Last, Peak     float64 // of the last full minute; of the busiest minute of the last hour
	Planned        float64 // of the busiest minute of the next hour
	PlannedAt      string
	Partial        bool // there were more than the API counts
	PlannedPartial bool
}

// showApp shows the settings, limits and keys of an app.
func showApp(q *request) error { return q.showApp(http.StatusOK, new(appData)) }

// showApp reads the rest of d and shows it. Settings that the viewer entered stay.
func (q *request) showApp(status int, d *appData) error {
	// The API answers 404 for an app that the viewer may not see, so this comes first. What else is
	// not found is an app that has nothing yet.
	if err := q.readUse(&d.Use); err != nil {
		return err
	}
	state, err := q.readApp()
	if err != nil {
		return err
	}
	d.App = *state
	if d.Present, err = q.readSettings(); err != nil {
		return err
	}
	if d.RefusedAt != "limits" {
		d.Settings = d.Present
	}
	if !q.caller().May("admin") {
		return q.render(status, "app", d)
	}
	var keys struct{ Items []apiKey }
	if err := q.get("/apps"+pathOf(q.app, "keys"), nil, &keys); err != nil {
		return err
	}
	var signing struct{ Items []signingKey }
	if err := q.get("/apps"+pathOf(q.app, "signing-keys"), nil, &signing); err != nil {
		return err
	}
	d.Keys, d.SigningKeys = keys.Items, signing.Items
	return q.render(status, "app", d)
}

// readUse counts the finished fires of the last hour, and the planned ones of the next.
func (q *request) readUse(u *appUse) error {
	now := q.page.opts.Now().UTC()
	full := now.Truncate(time.Minute)
	var s statsBody
	err := q.get("/apps"+pathOf(q.app, "stats"), url.Values{
		"step": {"1m"},
		"from": {full.Add(-time.Hour).Format(time.RFC3339)}, "to": {full.Format(time.RFC3339)},
	}, &s)
	if err != nil {
		return err
	}
	u.Partial = s.Truncated
	for _, step := range s.Steps {
		perSecond := float64(step.Delivered+step.Failed) / time.Minute.Seconds()
		u.Peak = max(u.Peak, perSecond)
		if at, err := time.Parse(time.RFC3339, step.Begin); err == nil &&
			at.Equal(full.Add(-time.Minute)) {
			u.Last = perSecond
		}
	}
	var next struct {
		Peak *struct {
			Begin string
			Count int
		}
		Exact bool
	}
	err = q.get("/apps"+pathOf(q.app, "upcoming"), url.Values{"hours": {"1"}}, &next)
	if err != nil {
		return err
	}
	u.PlannedPartial = !next.Exact
	if next.Peak != nil {
		u.Planned = float64(next.Peak.Count) / time.Minute.Seconds()
		u.PlannedAt = next.Peak.Begin
	}
	return nil
}

// refuseAt shows the page of the app with an error about a section, if it is one about the input.
func (q *request) refuseAt(section string, d *appData, err error) error {
	if d.Refused = refusedInput(err); d.Refused == nil {
		return err
	}
	d.RefusedAt = section
	return q.showApp(d.Refused.Status, d)
}

// freezeApp stops or starts the calls of an app.
func freezeApp(q *request) error {
	var in any
	action := q.r.PathValue("action")
	switch reason := q.r.PostFormValue("reason"); {
	case action == "freeze" && reason != "":
		in = map[string]string{"reason": reason}
	case action != "freeze" && action != "unfreeze":
		return &apiError{Status: http.StatusNotFound}
	}
	if err := q.do(http.MethodPost, "/apps"+pathOf(q.app, action), in, nil); err != nil {
		return q.refuseAt("state", new(appData), err)
	}
	q.did(q.appPath("app"), action)
	return nil
}

// deleteApp starts the job that deletes an app, if the viewer has entered its name once more.
func deleteApp(q *request) error {
	path := "/apps" + pathOf(q.app)
	if name := q.r.PostFormValue("confirm"); name != "" {
		path += "?" + url.Values{"confirm": {name}}.Encode()
	}
	var job jobBody
	if err := q.do(http.MethodDelete, path, nil, &job); err != nil {
		return q.refuseAt("delete", new(appData), err)
	}
	q.redirect(q.appPath("jobs", job.ID))
	return nil
}
