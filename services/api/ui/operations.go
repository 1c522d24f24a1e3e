package ui

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// millis is a stretch of time in ms.
type millis int64

// Seconds returns it in seconds.
func (m millis) Seconds() string {
	d := time.Duration(m) * time.Millisecond
	return strconv.FormatFloat(d.Seconds(), 'f', 2, 64)
}

type backlogBody struct {
	Count   int
	Minimum bool // there are more
	Oldest  string
}

type operationsBody struct {
	At       string
	Sessions []struct {
		ID, Name, Kind string
		Alive          bool
		InflightFull   bool   `json:"inflight_full"`
		OldestTask     millis `json:"oldest_task_ms"`
	}
	Cursor struct {
		Minute        string
		Lag           millis `json:"lag_ms"`
		ClaimedSlices int64  `json:"claimed_slices"`
	}
	Overdue struct {
		backlogBody

		By   millis `json:"by_ms"`
		Apps []struct {
			App   string
			Count int
		}
	}
	Expansion, Jobs backlogBody
	Topics          []struct {
		Topic, Subscription string
		Messages            *int64 // nil: the bus did not answer
	}
	Canary *struct {
		Due, Status string
		Lateness    int64 `json:"lateness_ms"`
	}
	Checks []struct {
		Name, Error string
		OK          bool
	}
}

// Alive returns how many sessions of a kind are alive.
func (b *operationsBody) Alive(kind string) (n int) {
	for _, s := range b.Sessions {
		if s.Alive && s.Kind == kind {
			n++
		}
	}
	return n
}

type setting struct{ Name, Value, Source string }

type operationsData struct {
	State    operationsBody
	Settings []setting // only for the scope admin, as the next
	Keys     []apiKey
	Refused  *apiError // about a new key

	People        bool      // the viewer may end the sessions of people
	Person        string    // the id that the viewer entered, or that a link has
	PersonRefused *apiError // about that id
}

// showOperations shows operators the state of the deployment.
func showOperations(q *request) error {
	return q.showOperations(
		http.StatusOK, &operationsData{Person: q.r.URL.Query().Get("person")},
	)
}

// refuseOperations shows the page with an error about the input.
func (q *request) refuseOperations(err error) error {
	d := &operationsData{Refused: refusedInput(err)}
	if d.Refused == nil {
		return err
	}
	return q.showOperations(d.Refused.Status, d)
}

func (q *request) showOperations(status int, d *operationsData) error {
	if err := q.get("/operations", nil, &d.State); err != nil {
		return err
	}
	if q.caller().May("admin") {
		var list struct{ Items []setting }
		if err := q.get("/operations/settings", nil, &list); err != nil {
			return err
		}
		d.Settings = list.Items
		var keys struct{ Items []apiKey }
		if err := q.get("/keys", nil, &keys); err != nil {
			return err
		}
		d.Keys = keys.Items
		d.People = q.endsSessions()
	}
	return q.render(status, "operations", d)
}

// endsSessions returns whether the page offers the viewer to end the sessions of people. That takes
// scope admin in every app, and a person may have more in the app of the page than in the others.
func (q *request) endsSessions() bool {
	c := q.caller()
	if !q.page.opts.SignIn.SignsIn() || !c.Deployment || !c.May("admin") {
		return false
	}
	return q.app == "" || q.callerIn("").May("admin")
}

// endSessions ends the sessions of a person. A viewer who ends their own signs in again.
func endSessions(q *request) error {
	d := &operationsData{Person: strings.TrimSpace(q.r.PostFormValue("subject"))}
	in := map[string]string{"subject": d.Person}
	if err := q.do(http.MethodPost, "/people/end-sessions", in, nil); err != nil {
		if d.PersonRefused = refusedInput(err); d.PersonRefused == nil {
			return err
		}
		return q.showOperations(d.PersonRefused.Status, d)
	}
	q.did(Prefix+"/operations#people", "end_sessions")
	return nil
}
