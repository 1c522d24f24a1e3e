package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	app = "chaos"
	// callTimeout is how long a client waits for the API before it tries again.
	callTimeout = 3 * time.Second
	// giveUpBefore is how long before its instant the load gives up an unconfirmed one-shot.
	giveUpBefore = 200 * time.Millisecond
	// maxAhead is the greatest time from creation to due instant of one-shots.
	maxAhead = 12 * time.Second
	// toggleEvery is the time between two status changes of a timer.
	toggleEvery = 5 * time.Second
	// maxPendingCreates bounds the creates without an answer. While the API is unavailable, the
	// load starts no more.
	maxPendingCreates = 300
	setupConcurrency  = 16
)

// fireAll makes timers call every instant that an outage delayed: each skipped fire counts as
// missing.
//
//nolint:gochecknoglobals // never written
var fireAll = &client.Misfire{Policy: "fire_all", MaxFires: timer.MaxMisfireFires}

// mix is a load in fires per second. Every cron is due each second.
type mix struct {
	crons   int // the endpoint answers 200
	retries int // the first attempt fails, the second comes after a second
	// the first attempt fails, and the second waits so long that the fire is released
	longRetries int
	failing     int // all attempts fail
	toggled     int // timers that are active half of the time, so there are twice as many
	once        int // created through the API during the load
}

func mixOf(rate int) mix {
	m := mix{
		retries:     rate * 12 / 100,
		longRetries: rate * 4 / 100,
		failing:     rate / 100,
		toggled:     rate * 5 / 100,
		once:        rate * 30 / 100,
	}
	m.crons = rate - m.retries - m.longRetries - m.failing - m.toggled - m.once
	return m
}

// traffic is the load of a scenario, with the API's confirmations.
type traffic struct {
	env         *Environment
	mix         mix
	seq         atomic.Int64
	createSlots chan struct{}  // a slot for each pending create
	work        sync.WaitGroup // pending creates and status changes
	stop        context.CancelFunc

	mu            sync.Mutex
	steady        []steadyTimer
	toggledTimers []*toggledTimer
	oneShots      []oneShot
	bursts        []burstTimer
	policyTimers  []policyTimer
	refused       int // failed API calls
}

// steadyTimer is a cron that stays active.
type steadyTimer struct {
	kind  string
	id    timer.ID
	since time.Time // confirmation of its creation
	fails bool
}

// burstTimer is a cron that is due in each second of some minutes.
type burstTimer struct {
	id       timer.ID
	from, to time.Time
}

// toggledTimer is a cron that becomes inactive and active in turn.
type toggledTimer struct {
	id      timer.ID
	mu      sync.Mutex
	changes []statusChange
}

// statusChange is a requested status. It took effect between sent and done.
type statusChange struct {
	status     timer.Status
	sent, done time.Time // done is zero until the API confirms
}

// oneShot is a one-shot that the API confirmed.
type oneShot struct {
	id       timer.ID
	at, done time.Time
}

// scriptEndpoint sets the endpoint's answers for each path of the load.
func scriptEndpoint(rcv *receiver.Receiver) {
	rcv.Script("/ok", receiver.Script{})
	rcv.Script(
		"/retry",
		receiver.Script{Statuses: []int{http.StatusInternalServerError, http.StatusOK}},
	)
	rcv.Script(
		"/later",
		receiver.Script{Statuses: []int{http.StatusServiceUnavailable, http.StatusOK}},
	)
	rcv.Script("/slow", receiver.Script{Delay: slowAnswer})
	rcv.Script("/fail", receiver.Script{Statuses: []int{http.StatusInternalServerError}})
}

// startTraffic creates the crons and starts the other load.
func startTraffic(ctx context.Context, env *Environment, m mix) (*traffic, error) {
	t := &traffic{env: env, mix: m, createSlots: make(chan struct{}, maxPendingCreates)}
	eg, egCtx := errgroup.WithContext(ctx)
	eg.SetLimit(setupConcurrency)
	// Some timers call over the endpoint's proxy. Calls that are cut off there are repeated.
	for _, k := range []struct {
		name, path string
		n          int
		retry      client.Retry
		fails      bool
	}{
		{"cron", "/ok", m.crons, client.Retry{Attempts: 10, Wait: "500ms", Factor: 1.5}, false},
		{"retry", "/retry", m.retries, client.Retry{Attempts: 10, Wait: "1s", Factor: 1.5}, false},
		{"later", "/later", m.longRetries, client.Retry{Attempts: 10, Wait: "6s", Factor: 1}, false},
		{"failing", "/fail", m.failing, client.Retry{Attempts: 2, Wait: "500ms", Factor: 1}, true},
	} {
		for i := range k.n {
			over := i
			if k.fails { // its few attempts must arrive
				over = 0
			}
			eg.Go(func() error {
				tm, _, err := env.api.Create(egCtx, client.NewTimer{
					App:      app,
					Name:     fmt.Sprintf("%s-%d", k.name, i),
					Schedule: client.Cron("* * * * * *"),
					Target: client.Post(
						env.endpoint(over) + k.path,
					),
					Retry:   &k.retry,
					Misfire: fireAll,
					Status:  "active",
				})
				t.mu.Lock()
				defer t.mu.Unlock()
				t.steady = append(
					t.steady,
					steadyTimer{kind: k.name, id: tm.TimerID(), since: time.Now(), fails: k.fails},
				)
				return err
			})
		}
	}
	for i := range 2 * m.toggled {
		eg.Go(func() error {
			f := &toggledTimer{
				changes: []statusChange{{status: timer.StatusActive, sent: time.Now()}},
			}
			tm, _, err := env.api.Create(egCtx, client.NewTimer{
				App:      app,
				Name:     fmt.Sprintf("flapping-%d", i),
				Schedule: client.Cron("* * * * * *"),
				Target:   client.Post(env.endpoint(i) + "/ok"),
				Misfire:  fireAll,
				Status:   "active",
				Retry:    &client.Retry{Attempts: 10, Wait: "500ms", Factor: 1.5},
			})
			f.id, f.changes[0].done = tm.TimerID(), time.Now()
			t.mu.Lock()
			defer t.mu.Unlock()
			t.toggledTimers = append(t.toggledTimers, f)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, fmt.Errorf("creating the load's timers: %w", err)
	}
	ctx, t.stop = context.WithCancel(ctx)
	for _, f := range t.toggledTimers {
		t.work.Go(func() { t.toggle(ctx, f) })
	}
	t.work.Go(func() { t.createOneShots(ctx) })
	return t, nil
}

// end stops the load and waits until the API has confirmed pending requests. It returns the instant
// up to which the load is checked.
func (t *traffic) end() time.Time {
	t.stop()
	t.work.Wait()
	return time.Now().Truncate(time.Second)
}

// createOneShots creates one-shots at the mix's rate. A late tick creates the missing ones.
func (t *traffic) createOneShots(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	began, made := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for want := int(time.Since(began).Seconds() * float64(t.mix.once)); made < want; made++ {
			select {
			case t.createSlots <- struct{}{}:
				t.work.Go(func() {
					defer func() { <-t.createSlots }()
					t.createOneShot()
				})
			default: // the API is unavailable: leave this one out
			}
		}
	}
}

// createOneShot creates a one-shot. It repeats the request, with the same name, until the API
// confirms it or the due instant is too close.
func (t *traffic) createOneShot() {
	n := t.seq.Add(1)
	at := time.Now().Add(time.Second + rand.N(maxAhead)).Truncate(time.Millisecond)
	q := client.NewTimer{
		App:      app,
		Name:     fmt.Sprintf("once-%d", n),
		Schedule: client.At(at),
		Target:   client.Post(t.env.endpoint(int(n)) + "/ok"),
		Status:   "active",
		Retry:    &client.Retry{Attempts: 10, Wait: "500ms", Factor: 1.5},
	}
	for wait := 250 * time.Millisecond; time.Until(at) > giveUpBefore; wait = min(2*wait, 2*time.Second) {
		ctx, cancel := context.WithTimeout(t.env.ctx, callTimeout)
		tm, _, err := t.env.api.Create(ctx, q)
		cancel()
		if err == nil {
			t.mu.Lock()
			t.oneShots = append(t.oneShots, oneShot{id: tm.TimerID(), at: at, done: time.Now()})
			t.mu.Unlock()
			return
		}
		t.countRefusal(err)
		if t.env.ctx.Err() != nil {
			return
		}
		clock.Pause(t.env.ctx, wait)
	}
}

// toggle changes a timer's status until ctx ends, and leaves it active: fires that were due before
// a deactivation and were not recorded wait until the timer is active again.
func (t *traffic) toggle(ctx context.Context, f *toggledTimer) {
	clock.Pause(ctx, rand.N(2*toggleEvery))
	for ctx.Err() == nil {
		t.setStatus(f, timer.StatusInactive)
		clock.Pause(ctx, toggleEvery)
		t.setStatus(f, timer.StatusActive)
		clock.Pause(ctx, toggleEvery)
	}
}

// setStatus repeats a status change until the API confirms it.
func (t *traffic) setStatus(f *toggledTimer, status timer.Status) {
	i := f.begin(status)
	for {
		ctx, cancel := context.WithTimeout(t.env.ctx, callTimeout)
		_, err := t.env.api.SetStatus(ctx, app, f.id, string(status))
		cancel()
		if err == nil {
			f.finish(i)
			return
		}
		t.countRefusal(err)
		if t.env.ctx.Err() != nil {
			return
		}
		clock.Pause(t.env.ctx, time.Second)
	}
}

func (f *toggledTimer) begin(s timer.Status) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, statusChange{status: s, sent: time.Now()})
	return len(f.changes) - 1
}

func (f *toggledTimer) finish(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes[i].done = time.Now()
}

// countRefusal counts a failed API call. A 4xx answer is not the result of a fault, so it breaks
// the scenario.
func (t *traffic) countRefusal(err error) {
	t.mu.Lock()
	t.refused++
	t.mu.Unlock()
	var e *client.Error
	if errors.As(err, &e) && e.Status < http.StatusInternalServerError &&
		e.Status != http.StatusTooManyRequests {
		t.env.failf("the API refused a request of the load: %v", err)
	}
}

// burst creates n crons that are due in each second of some minutes from an instant on, which must
// be a full minute.
func (t *traffic) burst(ctx context.Context, n int, from time.Time, minutes int) error {
	from = from.UTC()
	var list []string
	for i := range minutes {
		list = append(list, strconv.Itoa(from.Add(time.Duration(i)*time.Minute).Minute()))
	}
	if from.Add(time.Duration(minutes-1)*time.Minute).Hour() != from.Hour() {
		return fmt.Errorf(
			"%d minutes from %s on are not in one hour: try again",
			minutes,
			from,
		)
	}
	spec := fmt.Sprintf(
		"* %s %d %d %d *",
		strings.Join(list, ","),
		from.Hour(),
		from.Day(),
		from.Month(),
	)
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(4 * setupConcurrency)
	for i := range n {
		eg.Go(func() error {
			tm, _, err := t.env.api.Create(ctx, client.NewTimer{
				App:      app,
				Name:     fmt.Sprintf("burst-%d", i),
				Schedule: client.Cron(spec),
				Target:   client.Post(t.env.endpoint(0) + "/ok"),
				Misfire:  fireAll,
				Status:   "active",
				Retry:    &client.Retry{Attempts: 10, Wait: "500ms", Factor: 1.5},
			})
			t.mu.Lock()
			defer t.mu.Unlock()
			t.bursts = append(
				t.bursts,
				burstTimer{tm.TimerID(), from, from.Add(time.Duration(minutes) * time.Minute)},
			)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return fmt.Errorf("creating the burst: %w", err)
	}
	if time.Now().After(from) {
		return fmt.Errorf("the burst was not created before its start at %s", from)
	}
	return nil
}

// kinds returns the kind of each timer of the load.
func (t *traffic) kinds() map[timer.ID]string {
	m := make(map[timer.ID]string)
	for _, s := range t.steady {
		m[s.id] = s.kind
	}
	for _, f := range t.toggledTimers {
		m[f.id] = "flapping"
	}
	for _, o := range t.oneShots {
		m[o.id] = "once"
	}
	for _, b := range t.bursts {
		m[b.id] = "burst"
	}
	for _, p := range t.policyTimers {
		m[p.id] = p.kind
	}
	return m
}

// changesNear returns the status changes of a toggled timer around a fire.
func (t *traffic) changesNear(id timer.FireID) (near []statusChange) {
	const around = 30 * time.Second
	for _, f := range t.toggledTimers {
		if f.id != id.Timer {
			continue
		}
		f.mu.Lock()
		for _, c := range f.changes {
			if time.UnixMilli(id.DueMS).Sub(c.sent).Abs() < around {
				near = append(near, c)
			}
		}
		f.mu.Unlock()
	}
	return near
}
