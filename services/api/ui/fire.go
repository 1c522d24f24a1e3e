package ui

import (
	"errors"
	"net/http"
	"net/url"
)

type fireData struct {
	Fire    fireDetail
	Timer   timerBody // empty for a deleted timer
	Refused *apiError // why it was not completed
}

// showFire shows the hops of a fire and its attempts.
func showFire(q *request) error { return q.showFire(http.StatusOK, new(fireData)) }

func (q *request) showFire(status int, d *fireData) error {
	app := url.Values{"app": {q.app}}
	if err := q.get("/fires"+pathOf(q.r.PathValue("id")), app, &d.Fire); err != nil {
		return err
	}
	err := q.get("/timers"+pathOf(d.Fire.TimerID), app, &d.Timer)
	if hasStatus(err, http.StatusNotFound) {
		err = nil
	}
	if err != nil {
		return err
	}
	return q.render(status, "fire", d)
}

// completeFire says in place of the receiver what became of a fire that it accepted.
func completeFire(q *request) error {
	id, form := q.r.PathValue("id"), q.r.PostFormValue
	in := map[string]string{"token": form("token"), "status": form("status")}
	if m := form("message"); m != "" {
		in["message"] = m
	}
	err := q.do(http.MethodPost, "/fires"+pathOf(id, "complete"), in, nil)
	d := new(fireData)
	switch {
	case hasStatus(err, http.StatusForbidden):
		errors.As(err, &d.Refused)
	case err != nil:
		if d.Refused = refusedInput(err); d.Refused == nil {
			return err
		}
	default:
		q.did(q.appPath("fires", id), "complete")
		return nil
	}
	return q.showFire(d.Refused.Status, d)
}

// redriveFire calls a failed fire again, as a new fire.
func redriveFire(q *request) error {
	id := q.r.PathValue("id")
	in := map[string]any{"fires": []string{id}, "again": true}
	if err := q.do(http.MethodPost, "/apps"+pathOf(q.app, "redrives"), in, nil); err != nil {
		return err
	}
	q.did(q.appPath("fires", id), "redrive")
	return nil
}
