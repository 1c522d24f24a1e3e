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
	"github.com/carillon-timer/carillon/libs/timer"
)

// endpoint says how a timer's receiver behaves.
type endpoint struct {
	fails int           // so many attempts are answered 500
	takes time.Duration // until it answers
	// it accepts, and completes the fire so long afterwards; 0: it answers when it is done.
	completeAfter time.Duration
}

// acceptedFor is how long an accepted fire may take: longer than whatever befalls the world.
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

// recorder is the receiver: it keeps each arrival, and for each when what came of it was recorded
// in the store.
type recorder struct {
	mu       sync.Mutex
	arrivals receiver.Arrivals
	begun    map[timer.FireID]time.Time // when a process first set out to call
	open     map[callKey][]int          // arrivals that are not settled
}

type callKey struct {
	fire    timer.FireID
	attempt int32
	n       uint16
}

func newRecorder() *recorder {
	return &recorder{begun: make(map[timer.FireID]time.Time), open: make(map[callKey][]int)}
}

// begins notes that a process sets out to call: it may die or freeze before the call arrives.
func (r *recorder) begins(fire timer.FireID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.begun[fire]; !again {
		r.begun[fire] = time.Now()
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

// markRecorded notes that the store has what came of an attempt of a process: from now on nothing excuses
// its repetition.
func (r *recorder) markRecorded(p *process, fire timer.FireID, attempt int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := callKey{fire, attempt, p.number}
	for _, i := range r.open[c] {
		r.arrivals[i].DoneNS = time.Now().UnixNano()
	}
	delete(r.open, c)
}

// caller is how one process calls back: over no network, to the recorder.
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

// complete is what a receiver does that has accepted a fire. It repeats itself until it has an
// answer, for a while also where it is refused: the acceptance may not be recorded yet, or never
// be, for the executor died; then another call comes, and another completion.
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

// gateRequest is the gate before a request. What the executor does just before it, the look at its
// session, is no call to the outside, so a frozen process comes as far as here. It would have
// stopped before that look, and taken it when it woke: so it goes on once it has proved its session
// again, and gives up when it learns that the session is dead.
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
