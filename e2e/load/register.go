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
	hc    fasthttp.Client
}

func newRegistrar(base func() string, conns int) *registrar {
	return &registrar{
		base:  base,
		conns: conns,
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
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				id, err := r.createOne(ctx, at(i))
				if err != nil {
					return err
				}
				ids[i] = id
				done.Add(1)
			}
			return fmt.Errorf("creating timers: %w", ctx.Err())
		})
	}
	return ids, eg.Wait() //nolint:wrapcheck // it says what it was doing
}

// createOne creates a timer and repeats the request after an error: the same definition under the
// same name is the same timer.
func (r *registrar) createOne(ctx context.Context, n client.NewTimer) (timer.ID, error) {
	body, err := json.Marshal(n)
	if err != nil {
		return 0, fmt.Errorf("encoding a timer: %w", err)
	}
	for try := 1; ; try++ {
		id, err := r.post(body)
		if err == nil || try == createTries {
			return id, err
		}
		t := time.NewTimer(retryWait)
		select {
		case <-ctx.Done():
			t.Stop()
			return 0, fmt.Errorf("creating a timer: %w", ctx.Err())
		case <-t.C:
		}
	}
}

func (r *registrar) post(body []byte) (timer.ID, error) {
	q, a := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(q)
	defer fasthttp.ReleaseResponse(a)
	q.SetRequestURI(r.base() + "/api/v2/timers")
	q.Header.SetMethod(http.MethodPost)
	q.Header.SetContentType("application/json")
	q.Header.Set("Authorization", "Bearer "+client.AdminKey)
	q.SetBodyRaw(body)
	if err := r.hc.DoTimeout(q, a, createTimeout); err != nil {
		return 0, fmt.Errorf("creating a timer: %w", err)
	}
	if s := a.StatusCode(); s != http.StatusCreated && s != http.StatusOK {
		return 0, fmt.Errorf("creating a timer: answer %d: %s", s, a.Body())
	}
	var created struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(a.Body(), &created); err != nil {
		return 0, fmt.Errorf("reading a created timer: %w", err)
	}
	id, err := timer.ParseID(created.ID)
	if err != nil {
		return 0, fmt.Errorf("reading a created timer: %w", err)
	}
	return id, nil
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
