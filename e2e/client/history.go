package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Fire is a fire in a timer's history.
type Fire struct {
	ID         string    `json:"id"`
	Due        string    `json:"due"`
	Cause      string    `json:"cause"`  // schedule, run_now, backfill, redrive
	Status     string    `json:"status"` // open, delivered, failed, skipped, upcoming
	Reason     string    `json:"reason"`
	Version    int32     `json:"version"`
	Attempts   int32     `json:"attempts"`
	FinishedAt string    `json:"finished_at"`
	WaitsFor   string    `json:"waits_for"` // of an open fire: run, retry, turn, completion
	NextRun    string    `json:"next_run"`
	LatenessMS int64     `json:"lateness_ms"`
	StatusCode int32     `json:"status_code"`
	Failure    string    `json:"failure"`
	RedrivenAs string    `json:"redriven_as"`
	UntilDue   string    `json:"until_due"` // of a skipped range: the last instant that it covers
	Count      int64     `json:"count"`
	AttemptLog []Attempt `json:"attempt_log"` // only in responses with one fire
	Path       string    `json:"path"`        // of a finished fire: what brought it to its executor
	WaitedFor  string    `json:"waited_for"`  // before its first attempt
}

// Attempt is a callback attempt in a timer's history.
type Attempt struct {
	N          int32  `json:"n"`
	StartedAt  string `json:"started_at"`
	DurationMS int64  `json:"duration_ms"`
	StatusCode int32  `json:"status_code"`
	Failure    string `json:"failure"`
	Target     string `json:"target"`
	Error      string `json:"error"`
	Excerpt    string `json:"excerpt"`
}

// LedgerOutcome converts the fire for the ledger.
func (f *Fire) LedgerOutcome() (ledger.Outcome, error) {
	id, err := timer.ParseFireID(f.ID)
	if err != nil {
		return ledger.Outcome{}, fmt.Errorf("reading a history: %w", err)
	}
	o := ledger.Outcome{
		Fire:     id,
		Kind:     timer.OutcomeKind(f.Status),
		Reason:   timer.Reason(f.Reason),
		Attempts: f.Attempts,
	}
	if f.UntilDue != "" {
		until, err := time.Parse(time.RFC3339Nano, f.UntilDue)
		if err != nil {
			return ledger.Outcome{}, fmt.Errorf("reading a history: %w", err)
		}
		o.UntilMS = until.UnixMilli()
	}
	if f.FinishedAt != "" {
		if o.Finished, err = time.Parse(time.RFC3339Nano, f.FinishedAt); err != nil {
			return ledger.Outcome{}, fmt.Errorf("reading a history: %w", err)
		}
	}
	return o, nil
}

// Fires returns a page of a timer's finished fires, latest due first, and the cursor of the next
// page, empty at the end.
func (c *Client) Fires(
	ctx context.Context,
	app string,
	id timer.ID,
	limit int,
	cursor string,
) ([]Fire, string, error) {
	return c.FiresIn(ctx, app, id, nil, limit, cursor)
}

// FiresIn is Fires for some states: open, delivered, failed, skipped, upcoming; nil is all finished
// ones. Open fires come first, then finished and upcoming ones.
func (c *Client) FiresIn(
	ctx context.Context,
	app string,
	id timer.ID,
	states []string,
	limit int,
	cursor string,
) ([]Fire, string, error) {
	path := timerPath(app, id, "/fires") + "&limit=" + strconv.Itoa(limit)
	if len(states) > 0 {
		path += "&state=" + strings.Join(states, ",")
	}
	if cursor != "" {
		path += "&cursor=" + url.QueryEscape(cursor)
	}
	var page struct {
		Items []Fire `json:"items"`
		Next  string `json:"next_cursor"`
	}
	_, err := c.Do(ctx, http.MethodGet, path, nil, nil, &page)
	return page.Items, page.Next, err
}

// History returns all of a timer's finished fires, latest due first.
func (c *Client) History(ctx context.Context, app string, id timer.ID) ([]Fire, error) {
	const limit = 100
	var all []Fire
	for cursor := ""; ; {
		page, next, err := c.Fires(ctx, app, id, limit, cursor)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == "" {
			return all, nil
		}
		cursor = next
	}
}

// Explanation is what the API tells about the fires of a timer at an instant.
type Explanation struct {
	Status string `json:"status"` // of the timer now
	Items  []struct {
		Code     string `json:"code"`
		Text     string `json:"text"`
		Timeline []struct {
			At   time.Time `json:"at"` // zero if it is not known
			Text string    `json:"text"`
		} `json:"timeline"`
	} `json:"items"`
	Holds []struct {
		Text string `json:"text"`
	} `json:"holds"`
}

// Explain returns why a timer was called at an instant, or was not.
func (c *Client) Explain(
	ctx context.Context, app string, id timer.ID, at time.Time,
) (e Explanation, err error) {
	path := timerPath(app, id, "/explain") +
		"&at=" + url.QueryEscape(at.UTC().Format(time.RFC3339Nano))
	_, err = c.Do(ctx, http.MethodGet, path, nil, nil, &e)
	return e, err
}

// Fire returns one fire.
func (c *Client) Fire(ctx context.Context, app string, id timer.FireID) (Fire, error) {
	var f Fire
	_, err := c.Do(
		ctx,
		http.MethodGet,
		fmt.Sprintf("/api/v2/fires/%s?%s", id, url.Values{"app": {app}}.Encode()),
		nil,
		nil,
		&f,
	)
	return f, err
}
