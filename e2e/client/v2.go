package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// NewTimer is the body of a create request.
type NewTimer struct {
	App         string       `json:"app"`
	Name        string       `json:"name"`
	Schedule    Schedule     `json:"schedule"`
	Target      Target       `json:"target,omitzero"`
	Targets     []Target     `json:"targets,omitempty"`
	Mode        string       `json:"mode,omitempty"` // with several targets: any, all
	Retry       *Retry       `json:"retry,omitempty"`
	Misfire     *Misfire     `json:"misfire,omitempty"`
	Concurrency *Concurrency `json:"concurrency,omitempty"`
	Priority    string       `json:"priority,omitempty"`
	Labels      Labels       `json:"labels,omitempty"`
	Status      string       `json:"status,omitempty"`
}

// Labels are for people and templates.
type Labels map[string]string

// Retry controls the retries of failed attempts. Empty fields have their defaults: 3 attempts, 1 s
// × 2, 5 s each.
type Retry struct {
	Attempts int     `json:"attempts,omitempty"`
	Wait     string  `json:"wait,omitempty"`
	Factor   float64 `json:"factor,omitempty"`
	MaxWait  string  `json:"max_wait,omitempty"`
	Timeout  string  `json:"timeout,omitempty"`

	Jitter      float64 `json:"jitter,omitempty"`
	GiveUpAfter string  `json:"give_up_after,omitempty"`
	NoRetry     string  `json:"no_retry,omitempty"`
}

// Misfire is the policy for late fires.
type Misfire struct {
	Policy        string `json:"policy,omitempty"`
	Grace         string `json:"grace,omitempty"`
	CatchUpWindow string `json:"catch_up_window,omitempty"`
	MaxFires      int    `json:"max_fires,omitempty"`
}

// Concurrency is the policy for a fire whose predecessor has not finished.
type Concurrency struct {
	Policy   string `json:"policy,omitempty"`
	MaxQueue int    `json:"max_queue,omitempty"`
}

// Schedule says when a timer is due. Cron, Every, FixedDelay, At and Delay return one.
type Schedule struct {
	Kind      string   `json:"kind"`
	Specs     []string `json:"specs,omitempty"`
	TimeZone  string   `json:"time_zone,omitempty"`
	Gap       string   `json:"gap,omitempty"`
	Overlap   string   `json:"overlap,omitempty"`
	At        string   `json:"at,omitempty"`
	Delay     string   `json:"delay,omitempty"`
	Every     string   `json:"every,omitempty"`
	Anchor    string   `json:"anchor,omitempty"`
	Phase     string   `json:"phase,omitempty"`
	StartAt   string   `json:"start_at,omitempty"`
	EndAt     string   `json:"end_at,omitempty"`
	MaxFires  int64    `json:"max_fires,omitempty"`
	Jitter    string   `json:"jitter,omitempty"`
	Calendars []string `json:"calendars,omitempty"`
	Excluded  string   `json:"excluded,omitempty"`
}

// Cron is due at the instants of each expression.
func Cron(specs ...string) Schedule { return Schedule{Kind: "cron", Specs: specs} }

// Every is due at a fixed rate from the first activation on.
func Every(d time.Duration) Schedule { return Schedule{Kind: "interval", Every: d.String()} }

// FixedDelay is due a delay after the end of the last fire.
func FixedDelay(d time.Duration) Schedule {
	return Schedule{Kind: "fixed_delay", Every: d.String()}
}

// At is due once, at t, truncated to milliseconds.
func At(t time.Time) Schedule {
	return Schedule{Kind: "at", At: t.UTC().Format("2006-01-02T15:04:05.000Z")}
}

// Delay is due once, a delay after the first activation.
func Delay(d time.Duration) Schedule { return Schedule{Kind: "delay", Delay: d.String()} }

// Target is the destination of a timer's calls.
type Target struct {
	Kind    string              `json:"kind"`
	URL     string              `json:"url,omitempty"`
	Method  string              `json:"method,omitempty"`
	Headers map[string][]string `json:"headers,omitempty"`
	Body    string              `json:"body,omitempty"`

	Name          string              `json:"name,omitempty"`
	Query         map[string][]string `json:"query,omitempty"`
	SecretHeaders map[string]string   `json:"secret_headers,omitempty"` // shown as REDACTED
	Templates     bool                `json:"templates,omitempty"`
	Unsigned      bool                `json:"unsigned,omitempty"`
	Async         string              `json:"async,omitempty"`
	Success       *Success            `json:"success,omitempty"`
	Redirects     int                 `json:"redirects,omitempty"`
	HTTP2         string              `json:"http2,omitempty"`
	TLS           *TLS                `json:"tls,omitempty"`
	OAuth2        *OAuth2             `json:"oauth2,omitempty"`
	Pulsar        *PulsarTopic        `json:"pulsar,omitempty"`
}

// Success says which responses are success.
type Success struct {
	Statuses string `json:"statuses,omitempty"`
	Body     string `json:"body,omitempty"`
}

// TLS configures the authentication of server and client.
type TLS struct {
	ServerName string `json:"server_name,omitempty"`
	CA         string `json:"ca,omitempty"`
	Insecure   bool   `json:"insecure,omitempty"`
	Cert       string `json:"cert,omitempty"`
	Key        string `json:"key,omitempty"`
}

// OAuth2 configures the source of a token.
type OAuth2 struct {
	TokenURL string            `json:"token_url"`
	ClientID string            `json:"client_id"`
	Secret   string            `json:"secret"`
	Scopes   []string          `json:"scopes,omitempty"`
	Params   map[string]string `json:"params,omitempty"`
	InBody   bool              `json:"in_body,omitempty"`
}

// PulsarTopic is the topic of a pulsar target.
type PulsarTopic struct {
	Topic string `json:"topic"`
	Key   string `json:"key,omitempty"`
}

// Post returns a target that gets a POST without body.
func Post(url string) Target { return Target{Kind: "http", URL: url, Method: http.MethodPost} }

// Timer is a timer in responses.
type Timer struct {
	ID           string      `json:"id"`
	App          string      `json:"app"`
	Name         string      `json:"name"`
	Status       string      `json:"status"`
	Paused       *Pause      `json:"paused"`
	Version      int32       `json:"version"`
	Schedule     Schedule    `json:"schedule"`
	Target       Target      `json:"target"`
	Targets      []Target    `json:"targets"`
	Mode         string      `json:"mode"`
	Priority     string      `json:"priority"`
	Labels       Labels      `json:"labels"`
	Misfire      Misfire     `json:"misfire"`
	Concurrency  Concurrency `json:"concurrency"`
	FiresCreated int64       `json:"fires_created"`
	NextDue      string      `json:"next_due"`
}

// TimerID returns the id as a number, or 0 if it is invalid.
func (t Timer) TimerID() timer.ID {
	id, err := timer.ParseID(t.ID)
	if err != nil {
		return 0
	}
	return id
}

// Create creates a timer.
func (c *Client) Create(ctx context.Context, n NewTimer) (Timer, Answer, error) {
	return c.CreateWithKey(ctx, n, "")
}

// CreateWithKey creates a timer under an idempotency key (empty: none).
func (c *Client) CreateWithKey(ctx context.Context, n NewTimer, key string) (Timer, Answer, error) {
	var t Timer
	h := make(http.Header)
	if key != "" {
		h.Set("Idempotency-Key", key)
	}
	a, err := c.Do(ctx, http.MethodPost, "/api/v2/timers", h, n, &t)
	return t, a, err
}

// Get returns a timer.
func (c *Client) Get(ctx context.Context, app string, id timer.ID) (Timer, error) {
	var t Timer
	_, err := c.Do(ctx, http.MethodGet, timerPath(app, id, ""), nil, nil, &t)
	return t, err
}

// List returns a page of an app's timers and the cursor of the next one, empty at the end.
func (c *Client) List(
	ctx context.Context,
	app, status string,
	limit int,
	cursor string,
) ([]Timer, string, error) {
	q := url.Values{"app": {app}, "limit": {strconv.Itoa(limit)}}
	if status != "" {
		q.Set("status", status)
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	var page struct {
		Items []Timer `json:"items"`
		Next  string  `json:"next_cursor"`
	}
	_, err := c.Do(ctx, http.MethodGet, "/api/v2/timers?"+q.Encode(), nil, nil, &page)
	return page.Items, page.Next, err
}

// SetStatus activates or deactivates a timer ("active", "inactive").
func (c *Client) SetStatus(
	ctx context.Context,
	app string,
	id timer.ID,
	status string,
) (Timer, error) {
	var t Timer
	_, err := c.Do(
		ctx,
		http.MethodPatch,
		timerPath(app, id, ""),
		nil,
		map[string]string{"status": status},
		&t,
	)
	return t, err
}

// Delete deletes a timer.
func (c *Client) Delete(ctx context.Context, app string, id timer.ID) error {
	_, err := c.Do(ctx, http.MethodDelete, timerPath(app, id, ""), nil, nil, nil)
	return err
}

func timerPath(app string, id timer.ID, below string) string {
	return fmt.Sprintf("/api/v2/timers/%s%s?%s", id, below, url.Values{"app": {app}}.Encode())
}
