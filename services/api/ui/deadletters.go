package ui

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const deadLettersOnPage = "50"

// deadLetterFilters and deadLetterInstants are the parameters of the list.
var (
	deadLetterFilters  = []string{"timer", "failure", "again"}
	deadLetterInstants = []string{"from", "to"}
)

type deadLetter struct {
	fireBody

	LastError string `json:"last_error"`
}

type deadLetterList struct {
	Items      []deadLetter
	NextCursor string `json:"next_cursor"`
}

// redriveStart selects failed fires, as the API takes them.
type redriveStart struct {
	Timer   string   `json:"timer,omitempty"`
	Fires   []string `json:"fires,omitempty"`
	From    string   `json:"from,omitempty"`
	To      string   `json:"to,omitempty"`
	Failure string   `json:"failure,omitempty"`
	Again   bool     `json:"again,omitempty"`
	Cursor  string   `json:"cursor,omitempty"`
}

type redriveResult struct {
	Count      int
	NextCursor string `json:"next_cursor"`
	Sample     []fireBody
}

type deadLettersData struct {
	listing

	List   deadLetterList
	Timers map[string]timerBody // by id; a deleted timer has none

	NoneChosen bool // the viewer asked for a redrive of none
}

// listDeadLetters shows a page of the failed fires that the filter selects.
func listDeadLetters(q *request) error { return q.listDeadLetters(http.StatusOK, false) }

func (q *request) listDeadLetters(status int, noneChosen bool) error {
	d := &deadLettersData{
		NoneChosen: noneChosen,
		listing:    q.readListing(deadLettersOnPage, deadLetterFilters, deadLetterInstants),
	}
	id, err := q.timerID(d.Filter["timer"])
	if err == nil && id != "" {
		d.query.Set("timer", id)
	}
	if err != nil {
		err = d.refuse(err)
	} else {
		err = d.read(q, "/apps"+pathOf(q.app, "dead-letters"), &d.List)
	}
	if err != nil {
		return err
	}
	d.end(q.appPath("dead-letters"), d.List.NextCursor)
	fires := make([]fireBody, len(d.List.Items))
	for i := range d.List.Items {
		fires[i] = d.List.Items[i].fireBody
	}
	if d.Timers, err = q.timersOf(fires); err != nil {
		return err
	}
	return q.render(status, "deadletters", d)
}

// timerID returns the id of a timer that the viewer named, or gave by its id. A deleted timer has no
// name by which the API finds it.
func (q *request) timerID(text string) (string, error) {
	if strings.Trim(text, "0123456789") == "" {
		return text, nil
	}
	var list timerList
	query := url.Values{"app": {q.app}, "name": {text}, "limit": {"1"}}
	if err := q.get("/timers", query, &list); err != nil {
		return "", err
	}
	if len(list.Items) == 0 {
		return "", &apiError{
			Status: http.StatusUnprocessableEntity, Detail: q.views.texts.get("no_such_timer"),
		}
	}
	return list.Items[0].ID, nil
}

// timersOf returns the timers of a page of fires by their ids, without those that are deleted.
func (q *request) timersOf(fires []fireBody) (map[string]timerBody, error) {
	timers, seen := make(map[string]timerBody), make(map[string]bool)
	for i := range fires {
		id := fires[i].TimerID
		if seen[id] {
			continue
		}
		seen[id] = true
		var t timerBody
		err := q.get("/timers"+pathOf(id), url.Values{"app": {q.app}}, &t)
		switch {
		case err == nil:
			timers[id] = t
		case !hasStatus(err, http.StatusNotFound):
			return nil, err
		}
	}
	return timers, nil
}

type redriveData struct {
	Start     redriveStart
	Filter    map[string]string // of the list, to go back to
	Back      string
	Key       string // with which a repeated confirmation creates nothing more
	Confirmed bool
	Chosen    bool // by the viewer, one by one
	Result    redriveResult
	Timers    map[string]timerBody
	Refused   *apiError
}

// redrivenCookie has the result of a redrive until a page shows it.
const redrivenCookie = "carillon_redriven"

// showRedriven shows the result of a redrive.
func (q *request) showRedriven() error {
	d := new(redriveData)
	if !q.takeOver(redrivenCookie, d) || !strings.HasPrefix(d.Back, q.appPath("dead-letters")) {
		q.redirect(q.appPath("dead-letters"))
		return nil
	}
	return q.show("redrive", d)
}

// redriveDeadLetters shows which fires a redrive would call again. It redrives them if the viewer
// has confirmed that, or has chosen the fires by name.
func redriveDeadLetters(q *request) error {
	if q.r.URL.Query().Get("done") == "yes" {
		return q.showRedriven()
	}
	form := q.r.FormValue
	d := &redriveData{Filter: make(map[string]string), Key: form("key")}
	kept := make(url.Values)
	for _, name := range slices.Concat(deadLetterFilters, deadLetterInstants) {
		if v := form(name); v != "" {
			d.Filter[name] = v
			kept.Set(name, v)
		}
	}
	d.Back = q.appPath("dead-letters")
	if len(kept) > 0 {
		d.Back += "?" + kept.Encode()
	}
	id, err := q.timerID(form("timer"))
	if err != nil {
		if d.Refused = refusedInput(err); d.Refused == nil {
			return err
		}
		return q.render(d.Refused.Status, "redrive", d)
	}
	d.Start = redriveStart{
		Timer: id, Failure: form("failure"), From: instantOf(form("from")),
		To: instantOf(form("to")), Again: form("again") == "true", Cursor: form("cursor"),
	}
	if form("chosen") == "yes" {
		// A chosen fire was shown to the viewer, also if it was redriven before.
		d.Chosen = true
		d.Start = redriveStart{Fires: q.r.Form["fires"], Again: true}
		if len(d.Start.Fires) == 0 {
			return q.listDeadLetters(http.StatusUnprocessableEntity, true)
		}
	}
	path := "/apps" + pathOf(q.app, "redrives")
	d.Confirmed = q.r.PostFormValue("confirmed") == "yes"
	key := d.Key
	if !d.Confirmed {
		path += "?dry_run=true"
		key, d.Key = "", rand.Text()
	}
	err = q.with("Idempotency-Key", key).do(http.MethodPost, path, &d.Start, &d.Result)
	if d.Confirmed {
		d.Key = rand.Text() // of the next request, if one does not do
	}
	if err != nil {
		if d.Refused = refusedInput(err); d.Refused == nil {
			return err
		}
	}
	if d.Confirmed && d.Refused == nil {
		d.Start, d.Result.Sample = redriveStart{}, nil // a cookie is small
		return q.handOver(redrivenCookie, q.appPath("dead-letters", "redrive")+"?done=yes", d)
	}
	if d.Timers, err = q.timersOf(d.Result.Sample); err != nil {
		return err
	}
	return q.show("redrive", d)
}
