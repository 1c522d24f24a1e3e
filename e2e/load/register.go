package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	createTimeout = 30 * time.Second
	createTries   = 5
	retryWait     = 200 * time.Millisecond
)

// registrar creates timers over many keep-alive connections. It uses less CPU than package client,
// because it shares the CPUs with the measured system.
type registrar struct {
	base  func() string
	conns int
	batch int // timers per request
	hc    fasthttp.Client
}

func newRegistrar(base func() string, conns, batch int) *registrar {
	return &registrar{
		base:  base,
		conns: conns,
		batch: max(batch, 1),
		hc: fasthttp.Client{
			MaxConnsPerHost:          conns,
			ReadTimeout:              createTimeout,
			NoDefaultUserAgentHeader: true,
		},
	}
}

// create creates n timers and returns their ids. at returns the body of the i-th. done counts the
// created ones.
func (r *registrar) create(
	ctx context.Context,
	n int,
	at func(int) client.NewTimer,
	done *atomic.Int64,
) ([]timer.ID, error) {
	ids := make([]timer.ID, n)
	var next atomic.Int64
	eg, ctx := errgroup.WithContext(ctx)
	for range r.conns {
		eg.Go(func() error {
			for ctx.Err() == nil {
				to := int(next.Add(int64(r.batch)))
				from := to - r.batch
				if from >= n {
					return nil
				}
				to = min(to, n)
				items := make([]client.NewTimer, to-from)
				for i := range items {
					items[i] = at(from + i)
				}
				if err := r.send(ctx, items, ids[from:to]); err != nil {
					return err
				}
				done.Add(int64(to - from))
			}
			return fmt.Errorf("creating timers: %w", ctx.Err())
		})
	}
	return ids, eg.Wait() //nolint:wrapcheck // it says what it was doing
}

// send creates timers by one request and stores their ids. It repeats the request after an error:
// the same definition under the same name is the same timer.
func (r *registrar) send(ctx context.Context, items []client.NewTimer, ids []timer.ID) error {
	path, in := "/api/v2/timers", any(items[0])
	if r.batch > 1 {
		path, in = "/api/v2/timers:batch", map[string]any{"items": items}
	}
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encoding timers: %w", err)
	}
	for try := 1; ; try++ {
		err := r.post(path, body, ids)
		if err == nil || try == createTries {
			return err
		}
		t := time.NewTimer(retryWait)
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("creating timers: %w", ctx.Err())
		case <-t.C:
		}
	}
}

func (r *registrar) post(path string, body []byte, ids []timer.ID) error {
	q, a := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(q)
	defer fasthttp.ReleaseResponse(a)
	q.SetRequestURI(r.base() + path)
	q.Header.SetMethod(http.MethodPost)
	q.Header.SetContentType("application/json")
	q.Header.Set("Authorization", "Bearer "+client.AdminKey)
	q.SetBodyRaw(body)
	if err := r.hc.DoTimeout(q, a, createTimeout); err != nil {
		return fmt.Errorf("creating timers: %w", err)
	}
	if s := a.StatusCode(); s != http.StatusCreated && s != http.StatusOK {
		return fmt.Errorf("creating timers: answer %d: %s", s, a.Body())
	}
	type created struct {
		ID string `json:"id"`
	}
	var answer struct {
		created

		Items []created `json:"items"`
	}
	if err := json.Unmarshal(a.Body(), &answer); err != nil {
		return fmt.Errorf("reading created timers: %w", err)
	}
	if r.batch == 1 {
		answer.Items = []created{answer.created}
	}
	if len(answer.Items) != len(ids) {
		return fmt.Errorf("creating %d timers: %d results", len(ids), len(answer.Items))
	}
	for i, c := range answer.Items {
		id, err := timer.ParseID(c.ID)
		if err != nil { // an item that failed has none
			return fmt.Errorf("reading a created timer: %w: %s", err, a.Body())
		}
		ids[i] = id
	}
	return nil
}

// deleteTimers deletes timers, and ignores errors.
func (r *registrar) deleteTimers(app string, ids []timer.ID) {
	work := make(chan timer.ID)
	var wg sync.WaitGroup
	for range r.conns {
		wg.Go(func() {
			for id := range work {
				q, a := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
				q.SetRequestURI(fmt.Sprintf("%s/api/v2/timers/%s?app=%s", r.base(), id, app))
				q.Header.SetMethod(http.MethodDelete)
				q.Header.Set("Authorization", "Bearer "+client.AdminKey)
				_ = r.hc.DoTimeout(q, a, createTimeout)
				fasthttp.ReleaseRequest(q)
				fasthttp.ReleaseResponse(a)
			}
		})
	}
	for _, id := range ids {
		work <- id
	}
	close(work)
	wg.Wait()
}
