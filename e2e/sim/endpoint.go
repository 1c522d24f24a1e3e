package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// endpoint is the behaviour of a timer's receiver.
type endpoint struct {
	fails int           // the first attempts, which get 500
	takes time.Duration // time until the answer
	// It accepts, and completes the fire after this time; 0: it answers when it is done.
	completeAfter time.Duration
}

// acceptedFor is the deadline of an accepted fire. It is longer than every injected fault.
const acceptedFor = 30 * time.Minute

func (e endpoint) url() string {
	return fmt.Sprintf(
		"http://sim.test/%d/%d/%d",
		e.fails,
		e.takes.Milliseconds(),
		e.completeAfter.Milliseconds(),
	)
}

func endpointOf(url string) (e endpoint, err error) {
	var takes, completeAfter int
	_, err = fmt.Sscanf(url, "http://sim.test/%d/%d/%d", &e.fails, &takes, &completeAfter)
	e.takes, e.completeAfter = time.Duration(
		takes,
	)*time.Millisecond, time.Duration(
		completeAfter,
	)*time.Millisecond
	return e, err
}

// recorder is the receiver. It records each arrival, and when the store recorded its result.
type recorder struct {
	mu       sync.Mutex
	arrivals receiver.Arrivals
	begun    map[timer.FireID]time.Time // when a process first started a call
	deferred map[timer.FireID]bool      // for a limit, before their first call
	covered  map[timer.FireID]int64     // up to where a stand-in stood for others when it first asked
	// When fires without an attempt were first deferred because their timer was inactive.
	inactive map[timer.FireID]time.Time
	claimed  map[timer.FireID]time.Time // when fires were first claimed
	skipped  map[timer.FireID]time.Time // when fires were first skipped because their timer was inactive
	open     map[callKey][]int          // arrivals whose result is not recorded
}

type callKey struct {
	fire    timer.FireID
	attempt int32
	n       uint16
}

func newRecorder() *recorder {
	return &recorder{
		begun:    make(map[timer.FireID]time.Time),
		deferred: make(map[timer.FireID]bool),
		covered:  make(map[timer.FireID]int64),
		inactive: make(map[timer.FireID]time.Time),
		claimed:  make(map[timer.FireID]time.Time),
		skipped:  make(map[timer.FireID]time.Time),
		open:     make(map[callKey][]int),
	}
}

// begins notes that a process starts a call. It may die or freeze before the call arrives.
func (r *recorder) begins(fire timer.FireID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.begun[fire]; !again {
		r.begun[fire] = time.Now()
	}
}

// markDeferred notes the fires among those to be released that a limit defers before their first
// call. It is called before the release, whose answer may be lost.
func (r *recorder) markDeferred(fires []timer.Fire) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range fires {
		if fires[i].State == timer.FireDeferred && fires[i].Attempt == 0 {
			r.deferred[fires[i].FireID] = true
		}
	}
}

// markClaimed notes fires that a session has claimed.
func (r *recorder) markClaimed(fires []timer.Fire) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range fires {
		if _, again := r.claimed[fires[i].FireID]; !again {
			r.claimed[fires[i].FireID] = time.Now()
		}
	}
}

// markInactive notes that a fire without an attempt is about to wait for its timer, and gives up its
// slot.
func (r *recorder) markInactive(fire timer.FireID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.inactive[fire]; !again {
		r.inactive[fire] = time.Now()
	}
}

// markSkipped notes the fires that are about to be skipped because their timer is inactive.
func (r *recorder) markSkipped(outcomes []timer.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range outcomes {
		o := &outcomes[i]
		if o.Kind != timer.Skipped ||
			o.Reason != timer.ReasonInactive && o.Reason != timer.ReasonPaused {
			continue
		}
		if _, again := r.skipped[o.FireID]; !again {
			r.skipped[o.FireID] = time.Now()
		}
	}
}

// markCatchUps notes up to where fires stand for others when they first ask to be the stand-in. It
// is called before the request, whose answer may be lost.
func (r *recorder) markCatchUps(requests []store.CatchUpRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range requests {
		q := &requests[i]
		if to, ok := r.covered[q.FireID]; !ok || q.ToMS < to {
			r.covered[q.FireID] = q.ToMS
		}
	}
}

func (r *recorder) arrive(p *process, q *callback.Request) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.arrivals)
	r.arrivals = append(r.arrivals, receiver.Arrival{
		Fire:      q.Fire,
		Attempt:   q.Attempt,
		StartNS:   q.Start.UnixNano(),
		ArrivedNS: time.Now().UnixNano(),
		Port:      p.number,
	})
	c := callKey{q.Fire, q.Attempt, p.number}
	r.open[c] = append(r.open[c], i)
	return i
}

func (r *recorder) answer(i int, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrivals[i].Status = uint16(status) //nolint:gosec // three digits
}

// markRecorded notes that the store has recorded the result of a process's attempt. From now on
// nothing excuses a repetition.
func (r *recorder) markRecorded(p *process, fire timer.FireID, attempt int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := callKey{fire, attempt, p.number}
	for _, i := range r.open[c] {
		r.arrivals[i].DoneNS = time.Now().UnixNano()
	}
	delete(r.open, c)
}

// caller makes one process's callbacks to the recorder, without a network.
type caller struct{ p *process }

// Call implements callback.Caller.
func (c caller) Call(ctx context.Context, q *callback.Request) callback.Result {
	gone := callback.Result{Class: callback.Retry, Error: "no answer"}
	env := c.p.env
	env.recorder.begins(q.Fire)
	if !env.gateRequest(ctx, c.p) {
		return gone
	}
	e, err := endpointOf(q.Target.URL)
	if err != nil {
		return callback.Result{Class: callback.Reject, Error: err.Error()}
	}
	i := env.recorder.arrive(c.p, q)
	env.log.printf(
		"%s calls %s attempt %d, %s late",
		c.p,
		q.Fire,
		q.Attempt,
		time.Since(time.UnixMilli(q.Fire.DueMS)),
	)
	c.p.hitTrigger("Call", after)
	takes := time.NewTimer(min(e.takes, q.Timeout))
	defer takes.Stop()
	select {
	case <-takes.C:
	case <-ctx.Done():
		return gone
	case <-c.p.died:
		return gone
	}
	if e.takes >= q.Timeout {
		return gone
	}
	status := http.StatusOK
	if q.Attempt <= int32(e.fails) { //nolint:gosec // a handful
		status = http.StatusInternalServerError
	}
	env.recorder.answer(i, status)
	if err := c.p.afterCall("Answer"); err != nil {
		return gone
	}
	if status != http.StatusOK {
		return callback.Result{Class: callback.Retry, StatusCode: int32(status), Error: "HTTP 500"}
	}
	if e.completeAfter > 0 {
		env.running.Go(func() { env.complete(q.Fire, q.Token, e.completeAfter) })
		return callback.Result{
			Class:          callback.Accepted,
			StatusCode:     http.StatusAccepted,
			CompleteWithin: acceptedFor,
		}
	}
	return callback.Result{Class: callback.Success, StatusCode: int32(status)}
}

// complete acts as a receiver that has accepted a fire. It repeats the completion until it
// succeeds. It also repeats it after a conflict: the acceptance may not be recorded yet. If the
// executor died, the acceptance is never recorded; then another call comes, with another
// completion.
func (env *Environment) complete(fire timer.FireID, token string, after time.Duration) {
	const retryFor = acceptedFor - time.Minute
	clock.Pause(env.ctx, after)
	for began := time.Now(); env.ctx.Err() == nil && time.Since(began) < retryFor; clock.Pause(env.ctx, apiRetryWait) {
		ctx, cancel := context.WithTimeout(env.ctx, apiTimeout)
		_, err := env.client.Complete(ctx, fire, token, "delivered", "")
		cancel()
		var apiErr *client.Error
		switch {
		case err == nil:
			return
		case errors.As(err, &apiErr) && apiErr.Status < http.StatusInternalServerError && apiErr.Status != http.StatusConflict:
			env.failf("the API refused to complete %s: %v", fire, err)
			return
		}
	}
}

// gateRequest is the gate before a callback. The executor checks its session just before, without
// an outside call, so a frozen process gets this far. A real process would have stopped before that
// check, and made it after the freeze. So this process goes on after its session was renewed again,
// and gives up if its session has expired.
func (env *Environment) gateRequest(ctx context.Context, p *process) bool {
	p.hitTrigger("Call", before)
	p.mu.Lock()
	dead, thaw := p.dead, p.thaw
	p.mu.Unlock()
	if dead || ctx.Err() != nil {
		return false
	}
	if thaw == nil {
		return true
	}
	select {
	case <-thaw:
	case <-p.died:
		return false
	}
	woke := time.Now()
	for !env.observer.renewedSince(p, woke) {
		select {
		case <-time.After(hangPollInterval):
		case <-p.died:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}
