package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Change edits a timer. Empty fields stay as they are.
type Change struct {
	Status      string       `json:"status,omitempty"`
	Schedule    *Schedule    `json:"schedule,omitempty"`
	Target      *Target      `json:"target,omitempty"`
	Targets     []Target     `json:"targets,omitempty"`
	Mode        string       `json:"mode,omitempty"`
	Priority    string       `json:"priority,omitempty"`
	Labels      *Labels      `json:"labels,omitempty"`
	Retry       *Retry       `json:"retry,omitempty"`
	Misfire     *Misfire     `json:"misfire,omitempty"`
	Concurrency *Concurrency `json:"concurrency,omitempty"`
	IfVersion   int32        `json:"if_version,omitempty"`
}

// Edit edits a timer.
func (c *Client) Edit(ctx context.Context, app string, id timer.ID, change Change) (Timer, error) {
	var t Timer
	_, err := c.Do(ctx, http.MethodPatch, timerPath(app, id, ""), nil, change, &t)
	return t, err
}

// PutByName creates a timer, or edits the one with that name.
func (c *Client) PutByName(ctx context.Context, n NewTimer) (Timer, Answer, error) {
	var t Timer
	a, err := c.Do(ctx, http.MethodPut, "/api/v2/timers", nil, n, &t)
	return t, a, err
}

// GetByName returns the timer with a name, and false if there is none.
func (c *Client) GetByName(ctx context.Context, app, name string) (Timer, bool, error) {
	var page struct {
		Items []Timer `json:"items"`
	}
	_, err := c.Do(ctx, http.MethodGet, "/api/v2/timers?"+named(app, name), nil, nil, &page)
	if err != nil || len(page.Items) == 0 {
		return Timer{}, false, err
	}
	return page.Items[0], true, nil
}

// DeleteByName deletes the timer with a name.
func (c *Client) DeleteByName(ctx context.Context, app, name string) error {
	_, err := c.Do(ctx, http.MethodDelete, "/api/v2/timers?"+named(app, name), nil, nil, nil)
	return err
}

func named(app, name string) string { return url.Values{"app": {app}, "name": {name}}.Encode() }

// Pause is the reason and the end of a pause.
type Pause struct {
	Reason string `json:"reason,omitempty"`
	Until  string `json:"until,omitempty"`
}

// Pause pauses a timer. A zero until means no end.
func (c *Client) Pause(
	ctx context.Context,
	app string,
	id timer.ID,
	reason string,
	until time.Time,
) (Timer, error) {
	p := Pause{Reason: reason}
	if !until.IsZero() {
		p.Until = until.UTC().Format(time.RFC3339Nano)
	}
	var t Timer
	_, err := c.Do(ctx, http.MethodPost, timerPath(app, id, "/pause"), nil, p, &t)
	return t, err
}

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context, app string, id timer.ID) (Timer, error) {
	var t Timer
	_, err := c.Do(ctx, http.MethodPost, timerPath(app, id, "/resume"), nil, nil, &t)
	return t, err
}

// RunNow requests a fire that is due now, under an idempotency key (empty: none).
func (c *Client) RunNow(ctx context.Context, app string, id timer.ID, key string) (Fire, error) {
	h := make(http.Header)
	if key != "" {
		h.Set("Idempotency-Key", key)
	}
	var f Fire
	_, err := c.Do(ctx, http.MethodPost, timerPath(app, id, "/run"), h, nil, &f)
	return f, err
}

// Reschedule moves a pending one-shot.
func (c *Client) Reschedule(
	ctx context.Context,
	app string,
	id timer.ID,
	at time.Time,
) (Timer, error) {
	var t Timer
	_, err := c.Do(
		ctx,
		http.MethodPost,
		timerPath(app, id, "/reschedule"),
		nil,
		map[string]string{"at": at.UTC().Format(time.RFC3339Nano)},
		&t,
	)
	return t, err
}

// Backfill is a backfill in responses.
type Backfill struct {
	ID           string `json:"id"`
	FiresCreated int64  `json:"fires_created"`
	Status       string `json:"status"` // running, done, cancelled
}

// Backfill requests the fires of a past range [from, to).
func (c *Client) Backfill(
	ctx context.Context,
	app string,
	id timer.ID,
	from, to time.Time,
) (Backfill, error) {
	body := map[string]string{
		"from": from.UTC().Format(time.RFC3339Nano),
		"to":   to.UTC().Format(time.RFC3339Nano),
	}
	var b Backfill
	_, err := c.Do(ctx, http.MethodPost, timerPath(app, id, "/backfills"), nil, body, &b)
	return b, err
}

// GetBackfill returns a backfill.
func (c *Client) GetBackfill(ctx context.Context, app, id string) (Backfill, error) {
	var b Backfill
	_, err := c.Do(ctx, http.MethodGet, backfillPath(app, id), nil, nil, &b)
	return b, err
}

// CancelBackfill cancels a backfill.
func (c *Client) CancelBackfill(ctx context.Context, app, id string) (Backfill, error) {
	var b Backfill
	_, err := c.Do(ctx, http.MethodDelete, backfillPath(app, id), nil, nil, &b)
	return b, err
}

func backfillPath(app, id string) string {
	return fmt.Sprintf("/api/v2/backfills/%s?%s", id, url.Values{"app": {app}}.Encode())
}

// App is a tenant.
type App struct {
	App    string `json:"app"`
	Frozen bool   `json:"frozen"`
	Reason string `json:"reason"`
}

// Freeze stops an app's calls.
func (c *Client) Freeze(ctx context.Context, app, reason string) (App, error) {
	var a App
	_, err := c.Do(
		ctx,
		http.MethodPost,
		"/api/v2/apps/"+url.PathEscape(app)+"/freeze",
		nil,
		map[string]string{"reason": reason},
		&a,
	)
	return a, err
}

// Unfreeze ends an app's freeze.
func (c *Client) Unfreeze(ctx context.Context, app string) (App, error) {
	var a App
	_, err := c.Do(
		ctx,
		http.MethodPost,
		"/api/v2/apps/"+url.PathEscape(app)+"/unfreeze",
		nil,
		nil,
		&a,
	)
	return a, err
}

// GetApp returns an app.
func (c *Client) GetApp(ctx context.Context, app string) (App, error) {
	var a App
	_, err := c.Do(ctx, http.MethodGet, "/api/v2/apps/"+url.PathEscape(app), nil, nil, &a)
	return a, err
}
