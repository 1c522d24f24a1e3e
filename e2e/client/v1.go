package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/carillon-timer/carillon/libs/timer"
)

// V1Def is a timer definition of v1.
type V1Def struct {
	ID     int64    `json:"id,omitempty"`
	App    string   `json:"app"`
	Name   string   `json:"name"`
	Status any      `json:"status,omitempty"`
	Cron   string   `json:"cron"`
	Notify V1Notify `json:"notifyHTTPParam"`
}

// V1Notify is a v1 target.
type V1Notify struct {
	URL    string              `json:"url"`
	Method string              `json:"method"`
	Header map[string][]string `json:"header,omitempty"`
	Body   string              `json:"body,omitempty"`
}

type v1Answer struct {
	Code int    `json:"code"`
	Msg  string `json:"msg"`
	ID   int64  `json:"id"`
	Data V1Def  `json:"data"`
}

// V1Create creates an inactive timer and returns its id.
func (c *Client) V1Create(ctx context.Context, d V1Def) (timer.ID, error) {
	a, err := c.v1(ctx, http.MethodPost, "/api/timer/v1/def", d)
	return timer.ID(a.ID), err
}

// V1Enable activates a timer.
func (c *Client) V1Enable(ctx context.Context, app string, id timer.ID) error {
	_, err := c.v1(ctx, http.MethodPost, "/api/timer/v1/enable", v1Ref(app, id))
	return err
}

// V1Unable deactivates a timer.
func (c *Client) V1Unable(ctx context.Context, app string, id timer.ID) error {
	_, err := c.v1(ctx, http.MethodPost, "/api/timer/v1/unable", v1Ref(app, id))
	return err
}

// V1Delete deletes a timer.
func (c *Client) V1Delete(ctx context.Context, app string, id timer.ID) error {
	_, err := c.v1(ctx, http.MethodDelete, "/api/timer/v1/def", v1Ref(app, id))
	return err
}

// V1Get returns a definition.
func (c *Client) V1Get(ctx context.Context, app string, id timer.ID) (V1Def, error) {
	q := url.Values{"app": {app}, "id": {strconv.FormatInt(int64(id), 10)}}
	a, err := c.v1(ctx, http.MethodGet, "/api/timer/v1/def?"+q.Encode(), nil)
	return a.Data, err
}

func v1Ref(app string, id timer.ID) any {
	return struct {
		ID  int64  `json:"id"`
		App string `json:"app"`
	}{int64(id), app}
}

func (c *Client) v1(ctx context.Context, method, path string, in any) (v1Answer, error) {
	var a v1Answer
	if _, err := c.Do(ctx, method, path, nil, in, &a); err != nil {
		return a, err
	}
	if a.Code != 0 {
		return a, fmt.Errorf("v1 answered 2xx with code %d: %s", a.Code, a.Msg)
	}
	return a, nil
}
