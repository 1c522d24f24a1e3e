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
	apiTimeout   = 5 * time.Second
	apiRetryWait = 700 * time.Millisecond
)

// RoundTrip sends a request to one of the API's processes, as the network would.
func (env *Environment) RoundTrip(q *http.Request) (*http.Response, error) {
	env.mu.Lock()
	env.nextAPI++
	p := env.current[apiRole][env.nextAPI%replicas]
	h := env.handlers[p]
	env.mu.Unlock()
	if !p.alive() {
		return nil, errDead
	}
	answer := make(chan *http.Response, 1)
	env.running.Go(func() {
		if p.beforeCall(q.Context(), "HTTP") != nil {
			return
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, q)
		if p.afterCall("HTTP") == nil {
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

func (env *Environment) pauseUntil(until time.Duration) {
	clock.Pause(env.ctx, time.Until(env.startTime.Add(until)))
}

// runTimerPlan makes a plan's requests for one timer, each after the API has confirmed the previous
// one.
func (env *Environment) runTimerPlan(o *timerPlan) {
	env.pauseUntil(o.create)
	var id timer.ID
	env.retryUntilConfirmed(o, timer.StatusActive, func(ctx context.Context) error {
		t, _, err := env.client.Create(ctx, o.request(env.startTime))
		id = t.TimerID()
		return err
	})
	status := timer.StatusActive
	set := func(s timer.Status) {
		status = s
		env.retryUntilConfirmed(o, s, func(ctx context.Context) error {
			_, err := env.client.SetStatus(ctx, app, id, string(s))
			return err
		})
	}
	off := func(n int) {
		if o.pauses[n/2] == 0 { //nolint:mnd // every other flip
			set(timer.StatusInactive)
			return
		}
		status = timer.StatusPaused
		env.retryUntilConfirmed(
			o,
			"",
			func(ctx context.Context) error { return env.pauseTimer(ctx, o, id, n) },
		)
	}
	var rival sync.WaitGroup
	if len(o.rivalFlips) > 0 {
		rival.Go(func() { env.flipAsRival(o, id) })
	}
	var editor sync.WaitGroup
	if len(o.edits) > 0 {
		editor.Go(func() { env.edit(o, id) })
	}
	defer editor.Wait()
	for n, at := range o.flips {
		env.pauseUntil(at)
		if status == timer.StatusActive {
			off(n)
		} else {
			set(timer.StatusActive)
		}
	}
	if o.remove > 0 {
		env.pauseUntil(o.remove)
		env.removeTimer(o, id)
		return
	}
	rival.Wait()
	env.pauseUntil(env.plan.Length)
	if strings.HasPrefix(o.concurrency, "queue") {
		env.removeTimer(o, id) // its waiting fires may take longer than the run
		return
	}
	if status != timer.StatusActive || len(o.rivalFlips) > 0 { // waiting fires are called now
		o.rivalFlips = nil
		set(timer.StatusActive)
	}
}

func (env *Environment) removeTimer(o *timerPlan, id timer.ID) {
	tried := false
	env.retryUntilConfirmed(o, timer.StatusDeleted, func(ctx context.Context) error {
		err := env.client.Delete(ctx, app, id)
		var e *client.Error
		if tried && errors.As(err, &e) && e.Status == http.StatusNotFound {
			return nil // the timer was deleted, and the answer was lost
		}
		tried = true
		return err
	})
}

// pauseTimer pauses a timer at one of its flips. If a rival has deactivated the timer, there is
// nothing to pause.
func (env *Environment) pauseTimer(ctx context.Context, o *timerPlan, id timer.ID, flip int) error {
	var until time.Time
	if part := o.pauses[flip/2]; part > 0 { //nolint:mnd // every other flip
		end := o.flips[flip] + time.Minute
		if flip+1 < len(o.flips) {
			end = o.flips[flip+1]
		}
		until = env.startTime.Add(o.flips[flip] + time.Duration(part*float64(end-o.flips[flip]))).
			Truncate(time.Millisecond)
		if soon := time.Now().Add(2 * apiTimeout).Truncate(time.Millisecond); until.Before(soon) {
			until = soon // an earlier end could be past before the request is done
		}
	}
	_, err := env.client.Pause(ctx, app, id, "simulated", until)
	var apiErr *client.Error
	if errors.As(err, &apiErr) && apiErr.Status == http.StatusConflict && len(o.rivalFlips) > 0 {
		return nil
	}
	return err
}

// edit changes the timer's step while other clients change its status. It stops if the timer is
// deleted.
func (env *Environment) edit(o *timerPlan, id timer.ID) {
	for _, e := range o.edits {
		env.pauseUntil(e.at)
		for env.ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(env.ctx, apiTimeout)
			to := o.schedule(env.startTime, e.step)
			_, err := env.client.Edit(ctx, app, id, client.Change{Schedule: &to})
			cancel()
			var apiErr *client.Error
			if errors.As(err, &apiErr) && apiErr.Status < http.StatusInternalServerError {
				if apiErr.Status != http.StatusNotFound {
					env.failf("the API refused to edit %s: %v", o.name, err)
				}
				return
			}
			if err == nil {
				break
			}
			clock.Pause(env.ctx, apiRetryWait)
		}
	}
}

// flipAsRival is another client that activates and deactivates the same timer.
func (env *Environment) flipAsRival(o *timerPlan, id timer.ID) {
	for i, at := range o.rivalFlips {
		env.pauseUntil(at)
		s := []timer.Status{timer.StatusInactive, timer.StatusActive}[i%2]
		env.retryUntilConfirmed(o, s, func(ctx context.Context) error {
			_, err := env.client.SetStatus(ctx, app, id, string(s))
			return err
		})
	}
}

// retryUntilConfirmed repeats a request until it succeeds, and checks that it had its effect.
func (env *Environment) retryUntilConfirmed(
	o *timerPlan,
	want timer.Status,
	do func(ctx context.Context) error,
) {
	for env.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(env.ctx, apiTimeout)
		err := do(ctx)
		cancel()
		if err == nil {
			if h, ok := env.observer.historyOf(
				o.name,
			); !ok ||
				want != "" && h.status() != want && len(o.rivalFlips) == 0 {
				env.failf("the API confirmed that %s is %s, and it is %s", o.name, want, h.status())
			}
			return
		}
		var e *client.Error
		if errors.As(err, &e) && e.Status < http.StatusInternalServerError {
			env.failf("the API refused to make %s %s: %v", o.name, want, err)
			return
		}
		clock.Pause(env.ctx, apiRetryWait)
	}
}

// applyLimits sets the app's limits, and removes them again.
func (env *Environment) applyLimits(l *limited) {
	for _, to := range []struct {
		at       time.Duration
		settings client.Settings
	}{{l.from, l.settings}, {l.to, client.Settings{}}} {
		env.pauseUntil(to.at)
		for env.ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(env.ctx, apiTimeout)
			err := env.client.PutSettings(ctx, app, to.settings)
			cancel()
			if err == nil {
				break
			}
			clock.Pause(env.ctx, apiRetryWait)
		}
	}
}
