package peers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// concurrency is how many jobs a worker runs at once. It is as many as a Carillon executor makes
// calls by default.
const concurrency = 512

// body is the body of each call, as in e2e/load.
const body = `{"order":1234567,"kind":"reminder"}`

// System is a system that is measured.
type System interface {
	// Name of the system, with its version.
	Name() string
	// Settings that differ from the defaults, for the table.
	Settings() string
	// Servers are the names of the servers' processes whose CPU time counts.
	Servers() []string
	// Reset deletes all jobs.
	Reset(ctx context.Context) error
	// Add adds jobs in as large batches as the system offers.
	Add(ctx context.Context, jobs []Job) error
	// Work runs jobs until ctx ends. It calls do for each.
	Work(ctx context.Context, do func(context.Context, Job) error) error
}

// Job is one call at one instant.
type Job struct {
	ID    int64  `json:"id"`
	DueMS int64  `json:"due_ms"` // unix ms
	URL   string `json:"url"`
}

// Kind is the name of the jobs' type. River needs it.
func (Job) Kind() string { return "call" }

// Caller makes the calls of jobs.
type Caller struct{ client *http.Client }

// NewCaller returns a caller that keeps its connections.
func NewCaller() *Caller {
	return &Caller{&http.Client{
		Timeout: 10 * time.Second, //nolint:mnd // as Carillon's default
		Transport: &http.Transport{
			MaxIdleConns: concurrency, MaxIdleConnsPerHost: concurrency,
		},
	}}
}

// Call makes one call with the headers by which the receiver knows a fire.
func (c *Caller) Call(ctx context.Context, j Job) error {
	q, err := http.NewRequestWithContext(
		ctx, http.MethodPost, j.URL, bytes.NewReader([]byte(body)),
	)
	if err != nil {
		return fmt.Errorf("creating a request: %w", err)
	}
	q.Header["Carillon-Fire-Id"] = []string{fmt.Sprintf("%d-%d", j.ID, j.DueMS)}
	q.Header["Carillon-Attempt"] = []string{"1"}
	q.Header["Carillon-Start"] = []string{strconv.FormatInt(time.Now().UnixMilli(), 10)}
	a, err := c.client.Do(q)
	if err != nil {
		return fmt.Errorf("calling the receiver: %w", err)
	}
	defer a.Body.Close()
	if _, err := io.Copy(io.Discard, a.Body); err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("the receiver answered %d", a.StatusCode)
	}
	return nil
}
