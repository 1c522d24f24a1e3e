package sim

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	apiTimeout = 5 * time.Second
	apiAgain   = 700 * time.Millisecond
)

// RoundTrip brings a request to one of the API's processes that live: the network's part.
func (w *Environment) RoundTrip(q *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.turn++
	p := w.places[apiRole][w.turn%replicas]
	h := w.webs[p]
	w.mu.Unlock()
	if !p.alive() {
		return nil, errDead
	}
	answer := make(chan *http.Response, 1)
	w.running.Go(func() {
		if p.enter(q.Context(), "HTTP") != nil {
			return
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, q)
		if p.leave("HTTP") == nil {
			answer <- rec.Result()
		}
	})
	select {
	case r := <-answer:
		return r, nil
	case <-p.died:
		return nil, errDead
	case <-q.Context().Done():
		return nil, q.Context().Err()
	}
}

func (w *Environment) pause(until time.Duration) {
	clock.Pause(w.ctx, time.Until(w.start0.Add(until)))
}

// carryOut does what a plan orders with one timer, one after the other, each until the API has
// confirmed it.
func (w *Environment) carryOut(o *order) {
	w.pause(o.create)
	var id timer.ID
	w.insist(o, timer.StatusActive, func(ctx context.Context) error {
		t, _, err := w.client.Create(ctx, o.request(w.start0))
		id = t.TimerID()
		return err
	})
	status := timer.StatusActive
	set := func(s timer.Status) {
		status = s
		w.insist(o, s, func(ctx context.Context) error {
			_, err := w.client.SetStatus(ctx, app, id, string(s))
			return err
		})
	}
	off := func(n int) {
		if o.pauses[n/2] == 0 { //nolint:mnd // every other flip
			set(timer.StatusInactive)
			return
		}
		status = timer.StatusPaused
		w.insist(o, "", func(ctx context.Context) error { return w.pauseTimer(ctx, o, id, n) })
	}
	var rival sync.WaitGroup
	if len(o.rival) > 0 {
		rival.Go(func() { w.interfere(o, id) })
	}
	var editor sync.WaitGroup
	if len(o.edits) > 0 {
		editor.Go(func() { w.edit(o, id) })
	}
	defer editor.Wait()
	for n, at := range o.flips {
		w.pause(at)
		if status == timer.StatusActive {
			off(n)
		} else {
			set(timer.StatusActive)
		}
	}
	if o.remove > 0 {
		w.pause(o.remove)
		w.removeTimer(o, id)
		return
	}
	rival.Wait()
	w.pause(w.plan.Length)
	if strings.HasPrefix(o.concurrency, "queue") {
		w.removeTimer(o, id) // what waits in its queue may take longer than anybody waits here
		return
	}
	if status != timer.StatusActive || len(o.rival) > 0 { // what waits for it is called
		o.rival = nil
		set(timer.StatusActive)
	}
}

func (w *Environment) removeTimer(o *order, id timer.ID) {
	tried := false
	w.insist(o, timer.StatusDeleted, func(ctx context.Context) error {
		err := w.client.Delete(ctx, app, id)
		var e *client.Error
		if tried && errors.As(err, &e) && e.Status == http.StatusNotFound {
			return nil // it was done, and the answer was lost
		}
		tried = true
		return err
	})
}

// pauseTimer pauses a timer at one of its flips. Where others switch it, too, and it is inactive,
// there is nothing to pause.
func (w *Environment) pauseTimer(ctx context.Context, o *order, id timer.ID, flip int) error {
	var until time.Time
	if part := o.pauses[flip/2]; part > 0 { //nolint:mnd // every other flip
		end := o.flips[flip] + time.Minute
		if flip+1 < len(o.flips) {
			end = o.flips[flip+1]
		}
		until = w.start0.Add(o.flips[flip] + time.Duration(part*float64(end-o.flips[flip]))).
			Truncate(time.Millisecond)
		if soon := time.Now().Add(2 * apiTimeout).Truncate(time.Millisecond); until.Before(soon) {
			until = soon // it could not be asked for in time
		}
	}
	_, err := w.client.Pause(ctx, app, id, "simulated", until)
	var told *client.Error
	if errors.As(err, &told) && told.Status == http.StatusConflict && len(o.rival) > 0 {
		return nil
	}
	return err
}

// edit gives the timer other steps while the others go on switching it. Should it be deleted
// meanwhile, that is the end of it.
func (w *Environment) edit(o *order, id timer.ID) {
	for _, e := range o.edits {
		w.pause(e.at)
		for w.ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(w.ctx, apiTimeout)
			to := o.schedule(w.start0, e.step)
			_, err := w.client.Edit(ctx, app, id, client.Change{Schedule: &to})
			cancel()
			var told *client.Error
			if errors.As(err, &told) && told.Status < http.StatusInternalServerError {
				if told.Status != http.StatusNotFound {
					w.failf("the API refused to edit %s: %v", o.name, err)
				}
				return
			}
			if err == nil {
				break
			}
			clock.Pause(w.ctx, apiAgain)
		}
	}
}

// interfere is another client that switches the same timer on and off.
func (w *Environment) interfere(o *order, id timer.ID) {
	for i, at := range o.rival {
		w.pause(at)
		s := []timer.Status{timer.StatusInactive, timer.StatusActive}[i%2]
		w.insist(o, s, func(ctx context.Context) error {
			_, err := w.client.SetStatus(ctx, app, id, string(s))
			return err
		})
	}
}

// insist repeats a call until it succeeds; then it must have had its effect.
func (w *Environment) insist(o *order, want timer.Status, do func(ctx context.Context) error) {
	for w.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(w.ctx, apiTimeout)
		err := do(ctx)
		cancel()
		if err == nil {
			if h, ok := w.seen.of(
				o.name,
			); !ok ||
				want != "" && h.status() != want && len(o.rival) == 0 {
				w.failf("the API confirmed that %s is %s, and it is %s", o.name, want, h.status())
			}
			return
		}
		var e *client.Error
		if errors.As(err, &e) && e.Status < http.StatusInternalServerError {
			w.failf("the API refused to make %s %s: %v", o.name, want, err)
			return
		}
		clock.Pause(w.ctx, apiAgain)
	}
}

// limit gives the app its limits, and takes them away again.
func (w *Environment) limit(l *limited) {
	for _, to := range []struct {
		at       time.Duration
		settings client.Settings
	}{{l.from, l.settings}, {l.to, client.Settings{}}} {
		w.pause(to.at)
		for w.ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(w.ctx, apiTimeout)
			err := w.client.PutSettings(ctx, app, to.settings)
			cancel()
			if err == nil {
				break
			}
			clock.Pause(w.ctx, apiAgain)
		}
	}
}
