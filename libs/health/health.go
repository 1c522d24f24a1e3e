// Package health reports the state of a process: whether it is alive (/livez), whether it is ready
// (/readyz and the metric carillon_ready), and its metrics (/metrics).
//
// A process that waits for a server is alive but not ready, and names the server. A stopping
// process is not ready from the first moment, so that load balancers remove it before its listener
// closes.
package health

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// CheckTimeout limits the duration of one check.
const CheckTimeout = 2 * time.Second

// Check returns nil, or why the process is not ready. It must return when ctx ends.
type Check func(ctx context.Context) error

// Detail returns a value shown beside a check's result, as JSON. It must return at once, without
// asking other servers.
type Detail func() any

// Health is the set of checks of one process. It is safe for concurrent use.
type Health struct {
	timeout time.Duration
	mu      sync.Mutex
	names   []string
	checks  map[string]entry
	details map[string]Detail
	last    map[string]string // error of each check that last failed
}

type entry struct {
	check    Check
	optional bool
}

// New returns a set without checks. timeout limits each check; 0 is CheckTimeout.
func New(timeout time.Duration) *Health {
	if timeout <= 0 {
		timeout = CheckTimeout
	}
	return &Health{
		timeout: timeout,
		checks:  make(map[string]entry),
		details: make(map[string]Detail),
		last:    make(map[string]string),
	}
}

// Set adds or replaces a check.
func (h *Health) Set(name string, c Check) { h.set(name, entry{check: c}) }

// SetOptional adds or replaces a check that is shown but does not make the process unready, because
// the process works without that server. Otherwise a partial outage would become a full one.
func (h *Health) SetOptional(name string, c Check) { h.set(name, entry{check: c, optional: true}) }

func (h *Health) set(name string, e entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.checks[name]; !known {
		h.names = append(h.names, name)
	}
	h.checks[name] = e
	delete(h.last, name)
}

// SetDetail shows a detail beside a check's result, whether it passes or not. The check may be
// added or replaced later.
func (h *Health) SetDetail(name string, d Detail) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.details[name] = d
}

// SetError sets a check that fails with err; nil makes it pass.
func (h *Health) SetError(name string, err error) {
	h.Set(name, func(context.Context) error { return err })
}

// Result is the result of a check.
type Result struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Optional bool   `json:"optional,omitempty"` // does not count for readiness
	Error    string `json:"error,omitempty"`
	Detail   any    `json:"detail,omitempty"`
}

// Run runs all checks concurrently. It returns when all have answered or their time is up. A check
// that ignores its context counts as failed, with the last error that it returned, and its goroutine
// ends when the check does. Run may be called concurrently.
func (h *Health) Run(ctx context.Context) (results []Result, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	// A check whose time is up may still say what it was waiting for.
	limit, release := context.WithTimeout(ctx, h.timeout-h.timeout/10)
	defer release()
	type answer struct {
		at     int
		err    error
		detail any
	}
	h.mu.Lock()
	results = make([]Result, len(h.names))
	answers := make(chan answer, len(h.names))
	for i, name := range h.names {
		e, d := h.checks[name], h.details[name]
		results[i] = Result{Name: name, Optional: e.optional, Error: "no answer in time"}
		if err := h.last[name]; err != "" {
			results[i].Error += "; the last error was: " + err
		}
		go func() {
			err := safeCheck(limit, e.check)
			h.remember(name, err)
			answers <- answer{i, err, safeDetail(d)}
		}()
	}
	h.mu.Unlock()

	for range results {
		select {
		case a := <-answers:
			r := &results[a.at]
			r.Detail = a.detail
			if a.err != nil {
				r.Error = a.err.Error()
			} else {
				r.OK, r.Error = true, ""
			}
		case <-ctx.Done():
		}
	}
	ok = true
	for _, r := range results {
		ok = ok && (r.OK || r.Optional)
	}
	return results, ok
}

// Register adds the metric carillon_ready. Each scrape runs all checks, so it takes up to the timeout
// of a check while a server hangs.
func (h *Health) Register(r prometheus.Registerer) {
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_ready",
		Help: "1 if the process is ready, as /readyz answers; otherwise 0.",
	}, func() float64 {
		if _, ok := h.Run(context.Background()); ok {
			return 1
		}
		return 0
	})
}

// remember keeps the error of a check for a run that gets none.
func (h *Health) remember(name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.last, name)
	} else {
		h.last[name] = err.Error()
	}
}

// safeCheck converts a panic to an error, so that a broken check does not end the process.
func safeCheck(ctx context.Context, c Check) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the check panicked: %v", p)
		}
	}()
	return c(ctx)
}

// safeDetail returns a detail, or nil if there is none or it panics.
func safeDetail(d Detail) (detail any) {
	if d == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			detail = nil
		}
	}()
	return d()
}

// Handler serves /livez, /readyz and /metrics.
func (h *Health) Handler(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, true, nil)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		results, ok := h.Run(r.Context())
		answer(w, ok, results)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		EnableOpenMetrics: true, // it alone has exemplars
	}))
	return mux
}

func answer(w http.ResponseWriter, ok bool, checks []Result) {
	body := struct {
		Status string   `json:"status"`
		Checks []Result `json:"checks,omitempty"`
	}{Status: "ok", Checks: checks}
	code := http.StatusOK
	if !ok {
		body.Status, code = "not ready", http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client is gone: nobody to tell
}
