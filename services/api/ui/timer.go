package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	nextFires    = 20
	heatDays     = 7
	heatForecast = 1000 // the most that the API computes
)

type timerData struct {
	Timer       rawTimer
	Zone        string
	Next        []nextFire
	Warnings    []struct{ Message string }
	Fires       fireList
	Open        fireList
	Older       string // address of the next page of fires
	Lateness    string // JSON for the chart
	Heat        heatMap
	HeatPartial bool
	NotComputed bool // the instants to come
	NoneComing  bool // its status lets none come
	Once        bool // it is due once: a pause defers its fire, and skips none
	Explain     *explanation
	ExplainAt   string
	Refused     *apiError

	Reason, Until string    // of a pause that was refused
	NotDone       *apiError // an action that was refused
}

// nextFire is an instant at which the timer is due. Changed says that the zone's offset differs
// from that of the instant before, because clocks were changed.
type nextFire struct {
	Due, Local string
	Changed    bool
}

func (t *rawTimer) UnmarshalJSON(b []byte) error {
	t.Raw = append(t.Raw[:0], b...)
	var s struct{ Schedule json.RawMessage }
	if err := json.Unmarshal(b, &t.timerBody); err != nil {
		return fmt.Errorf("reading a timer: %w", err)
	}
	err := json.Unmarshal(b, &s)
	t.RawSchedule = s.Schedule
	return err //nolint:wrapcheck // it has been read before
}

// showTimer shows a timer: its future, its past, and why it is due at an instant or not.
func showTimer(q *request) error { return q.showTimer(http.StatusOK, new(timerData)) }

func (q *request) showTimer(status int, d *timerData) error {
	id, app := q.r.PathValue("id"), url.Values{"app": {q.app}}
	if err := q.get("/timers"+pathOf(id), app, &d.Timer); err != nil {
		return err
	}
	d.Zone = d.Timer.Schedule.TimeZone
	if err := q.readFires(d, id); err != nil {
		return err
	}
	d.Once = d.Timer.Schedule.Kind == "at" || d.Timer.Schedule.Kind == "delay"
	due, err := q.readForecast(d, id)
	if err != nil {
		return err
	}
	if err := q.readHeat(d, id, due); err != nil {
		return err
	}
	if at := q.r.URL.Query().Get("at"); at != "" {
		d.ExplainAt = at
		query := url.Values{"app": {q.app}, "at": {instantOf(at)}}
		d.Explain = new(explanation)
		if err := q.get("/timers"+pathOf(id, "explain"), query, d.Explain); err != nil {
			if d.Refused, d.Explain = refusedInput(err), nil; d.Refused == nil {
				return err
			}
		}
	}
	return q.render(status, "timer", d)
}

// instantOf converts an instant in the form of the pages, or one that names no zone: it is UTC.
func instantOf(text string) string {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", shownInstant} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Format(time.RFC3339Nano)
		}
	}
	return text
}

// readFires reads the open fires and a page of the finished ones.
func (q *request) readFires(d *timerData, id string) error {
	path := "/timers" + pathOf(id, "fires")
	query := url.Values{"app": {q.app}, "limit": {"50"}}
	if c := q.r.URL.Query().Get("cursor"); c != "" {
		query.Set("cursor", c)
	} else { // open fires stand on the first page
		open := url.Values{"app": {q.app}, "state": {"open"}, "limit": {"20"}}
		if err := q.get(path, open, &d.Open); err != nil {
			return err
		}
	}
	if err := q.get(path, query, &d.Fires); err != nil {
		return err
	}
	if c := d.Fires.NextCursor; c != "" {
		d.Older = q.appPath("timers", id) + "?" + url.Values{"cursor": {c}}.Encode() + "#history"
	}
	series := [][]float64{{}, {}}
	for i := len(d.Fires.Items) - 1; i >= 0; i-- { // the chart begins with the oldest
		f := &d.Fires.Items[i]
		at, err := time.Parse(time.RFC3339, f.Due)
		if err != nil || f.Status == "skipped" {
			continue
		}
		series[0] = append(series[0], float64(at.UnixMilli())/1000)
		series[1] = append(series[1], float64(f.LatenessMS))
	}
	if len(series[0]) == 0 {
		return nil
	}
	d.Lateness = chart(series)
	return nil
}

// forecastFrom returns from when on the timer's instants are coming, or false if none are: those
// before the end of a pause are not called.
func (q *request) forecastFrom(t *timerBody) (time.Time, bool) {
	now := q.page.opts.Now().UTC()
	switch {
	case t.Status == "deleted" || t.Status == "inactive":
		return now, false
	case t.Status != "paused" || t.Paused == nil:
		return now, t.Status != "paused"
	}
	until, err := time.Parse(time.RFC3339, t.Paused.Until)
	if err != nil { // it has no end
		return now, false
	}
	if until.Before(now) { // the timer is about to be active
		return now, true
	}
	return until.Add(-time.Millisecond), true // an instant at the end itself is called
}

// readForecast reads the next instants. It returns those of the heat map.
func (q *request) readForecast(d *timerData, id string) ([]string, error) {
	from, coming := q.forecastFrom(&d.Timer.timerBody)
	if d.NoneComing = !coming; !coming {
		return nil, nil
	}
	var f forecast
	err := q.do(http.MethodPost, "/schedules/preview", map[string]any{
		"app": q.app, "timer_id": id, "schedule": d.Timer.RawSchedule, "count": heatForecast,
		"from": from.Format(time.RFC3339Nano),
	}, &f)
	switch {
	case refusedInput(err) != nil:
		d.NotComputed = true
		return nil, nil //nolint:nilerr // the page says that it has no instants
	case err != nil:
		return nil, err
	}
	if k := d.Timer.Schedule.Kind; k == "cron" || k == "interval" {
		d.Warnings = f.Warnings // of others, a preview from now knows only that they do not repeat
	}
	due := make([]string, 0, len(f.Fires))
	var offset string
	for i, n := range f.Fires {
		due = append(due, n.Due)
		if i >= nextFires {
			continue
		}
		next := nextFire{Due: n.Due, Local: n.Local}
		if at, err := time.Parse(time.RFC3339, n.Local); err == nil {
			now := at.Format("-07:00")
			next.Changed, offset = offset != "" && now != offset, now
		}
		d.Next = append(d.Next, next)
	}
	return due, nil
}

// refuseAction shows the timer with an error about an action, if the timer is still there.
func (q *request) refuseAction(err error) error {
	d := &timerData{
		NotDone: refusedInput(err), Reason: q.r.PostFormValue("reason"),
		Until: q.r.PostFormValue("until"),
	}
	if d.NotDone == nil {
		return err
	}
	return q.showTimer(d.NotDone.Status, d)
}

// changeTimer pauses, resumes, runs or deletes a timer.
func changeTimer(q *request) error {
	id, action := q.r.PathValue("id"), q.r.PathValue("action")
	path, app := "/timers"+pathOf(id), "?"+url.Values{"app": {q.app}}.Encode()
	switch action {
	case "pause":
		in := make(map[string]string)
		if reason := q.r.PostFormValue("reason"); reason != "" {
			in["reason"] = reason
		}
		if until := q.r.PostFormValue("until"); until != "" {
			in["until"] = instantOf(until)
		}
		if err := q.do(http.MethodPost, path+"/pause"+app, in, nil); err != nil {
			return q.refuseAction(err)
		}
	case "resume":
		if err := q.do(http.MethodPost, path+"/resume"+app, nil, nil); err != nil {
			return q.refuseAction(err)
		}
	case "run":
		var made fireBody
		if err := q.do(http.MethodPost, path+"/run"+app, nil, &made); err != nil {
			return q.refuseAction(err)
		}
		q.did(q.appPath("fires", made.ID), "run")
		return nil
	case "delete":
		if err := q.do(http.MethodDelete, path+app, nil, nil); err != nil {
			return q.refuseAction(err)
		}
		q.did(q.appPath("timers"), "delete")
		return nil
	default:
		return &apiError{Status: http.StatusNotFound}
	}
	q.did(q.appPath("timers", id), action)
	return nil
}
