package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

const (
	createTries = 5
	retryWait   = 500 * time.Millisecond
	endWait     = 5 * time.Second // for requests under way at an interruption
)

// registrar creates and deletes timers by the API, over several connections.
type registrar struct {
	api   *client.Client
	app   string
	conns int
	batch int // timers per request, 1: each by a request of its own
}

// newTimer is what a bench says of a timer.
type newTimer struct {
	App      string      `json:"app"`
	Name     string      `json:"name"`
	Status   string      `json:"status"`
	Schedule newSchedule `json:"schedule"`
	Target   newTarget   `json:"target"`
}

type newSchedule struct {
	Kind  string   `json:"kind"`
	Specs []string `json:"specs,omitempty"`
	At    string   `json:"at,omitempty"`
}

type newTarget struct {
	Kind   string `json:"kind"`
	URL    string `json:"url"`
	Method string `json:"method"`
	Body   string `json:"body"`
}

// timerOf returns the i-th timer of a group. prefix makes its name unique.
func (r *registrar) timerOf(g *group, i int, prefix, target string) newTimer {
	n := newTimer{
		App: r.app, Name: prefix + g.name + "-" + strconv.Itoa(i), Status: "active",
		Schedule: newSchedule{Kind: "cron", Specs: []string{g.spec}},
		Target: newTarget{
			Kind: "http", URL: target, Method: http.MethodPost,
			Body: `{"order":1234567,"kind":"reminder"}`,
		},
	}
	if g.spec == "" {
		n.Schedule = newSchedule{
			Kind: "at", At: g.due(i).UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		}
	}
	return n
}

// create creates the timers of a group and returns their ids. done counts them. A request that
// fails is repeated: the same definition under the same name is the same timer. With an error it
// returns the ids that it knows, and 0 for the others.
func (r *registrar) create(
	ctx context.Context, g *group, prefix, target string, done *atomic.Int64,
) ([]timer.ID, error) {
	ids := make([]timer.ID, g.n)
	err := r.each(ctx, g.n, r.batch, func(sending context.Context, from, to int) error {
		items := make([]newTimer, 0, to-from)
		for i := from; i < to; i++ {
			items = append(items, r.timerOf(g, i, prefix, target))
		}
		err := retry(ctx, func() error { return r.send(sending, items, ids[from:to]) })
		done.Add(int64(to - from))
		return err
	})
	if err != nil {
		return ids, fmt.Errorf("creating timers: %w", err)
	}
	return ids, nil
}

// named returns the ids of the timers whose names have the prefix.
func (r *registrar) named(ctx context.Context, prefix string) (ids []timer.ID, err error) {
	q := url.Values{"app": {r.app}, "name_prefix": {prefix}}
	err = r.api.Pages(ctx, "/timers", q, 0, func(items []client.Object) error {
		for _, o := range items {
			id, err := timer.ParseID(o.Text("id"))
			if err != nil {
				return err //nolint:wrapcheck // it says what it was reading
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing timers: %w", err)
	}
	return ids, nil
}

// send creates timers by one request and stores their ids.
func (r *registrar) send(ctx context.Context, items []newTimer, ids []timer.ID) error {
	var answer struct {
		ID    string `json:"id"`
		Items []struct {
			ID    string          `json:"id"`
			Error json.RawMessage `json:"error"`
		} `json:"items"`
	}
	var err error
	if len(items) == 1 && r.batch == 1 {
		err = r.api.Send(ctx, http.MethodPost, "/timers", nil, items[0], &answer)
	} else {
		body := map[string]any{"items": items}
		err = r.api.Send(ctx, http.MethodPost, "/timers:batch", nil, body, &answer)
	}
	if err != nil {
		return err //nolint:wrapcheck // it says what the API answered
	}
	if answer.ID != "" {
		ids[0], err = timer.ParseID(answer.ID)
		return err //nolint:wrapcheck // it says what it was reading
	}
	if len(answer.Items) != len(ids) {
		return fmt.Errorf("expected %d results, got %d", len(ids), len(answer.Items))
	}
	for i := range answer.Items {
		a := &answer.Items[i]
		if a.ID == "" {
			return fmt.Errorf("timer %s: %s", items[i].Name, a.Error)
		}
		if ids[i], err = timer.ParseID(a.ID); err != nil {
			return err //nolint:wrapcheck // it says what it was reading
		}
	}
	return nil
}

// remove deletes timers. It repeats a request that fails, goes on after errors and returns the
// first.
func (r *registrar) remove(ctx context.Context, ids []timer.ID, done *atomic.Int64) error {
	var failed atomic.Pointer[error]
	q := url.Values{"app": {r.app}}
	err := r.each(ctx, len(ids), 1, func(sending context.Context, i, _ int) error {
		err := retry(ctx, func() error {
			_, err := r.api.Do(sending, http.MethodDelete, "/timers/"+ids[i].String(), q, nil)
			return err //nolint:wrapcheck // it says what the API answered
		})
		if err != nil && !client.Gone(err) {
			failed.CompareAndSwap(nil, &err)
		}
		done.Add(1)
		return sending.Err() //nolint:wrapcheck // of the caller
	})
	if first := failed.Load(); err == nil && first != nil {
		err = *first
	}
	if err != nil {
		return fmt.Errorf("deleting timers: %w", err)
	}
	return nil
}

// each calls do for [from, to) of n in steps, from as many goroutines as there are connections. After
// the first error, or the end of ctx, it begins no further step but lets those that are under way
// end: what a canceled request created might appear after the timers of a phase have been deleted.
func (r *registrar) each(
	ctx context.Context, n, step int, do func(ctx context.Context, from, to int) error,
) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		clock.Pause(sending, endWait)
		cancel()
	})()
	var next atomic.Int64
	eg, ctx := errgroup.WithContext(ctx)
	for range r.conns {
		eg.Go(func() error {
			for ctx.Err() == nil {
				to := int(next.Add(int64(step)))
				from := to - step
				if from >= n {
					return nil
				}
				if err := do(sending, from, min(to, n)); err != nil {
					return err
				}
			}
			return ctx.Err() //nolint:wrapcheck // of the caller
		})
	}
	return eg.Wait() //nolint:wrapcheck // the callers say what they were doing
}

// retry repeats do after errors that may pass.
func retry(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == createTries || !client.MayPass(err) || ctx.Err() != nil {
			return err
		}
		clock.Pause(ctx, retryWait)
	}
}
