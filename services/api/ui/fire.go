package ui

import (
	"net/http"
	"net/url"
)

type fireData struct {
	Fire  fireDetail
	Timer timerBody // empty for a deleted timer
}

// showFire shows the hops of a fire and its attempts.
func showFire(q *request) error {
	d, app := new(fireData), url.Values{"app": {q.app}}
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
	return q.show("fire", d)
}

// redriveFire calls a failed fire again, as a new fire.
func redriveFire(q *request) error {
	id := q.r.PathValue("id")
	in := map[string]any{"fires": []string{id}, "again": true}
	if err := q.do(http.MethodPost, "/apps"+pathOf(q.app, "redrives"), in, nil); err != nil {
		return err
	}
	q.redirect(q.appPath("fires", id) + "?did=redrive")
	return nil
}
