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
	// callTimeout is how long a user waits for the API before trying again.
	callTimeout = 3 * time.Second
	// tooLate is how long before its instant a one-shot is given up that the API did not confirm.
	tooLate = 200 * time.Millisecond
	// farthest is how far ahead one-shots are.
	farthest = 12 * time.Second
	// flipEvery is how long a timer stays as it is that is switched on and off.
	flipEvery = 5 * time.Second
	// underWay bounds creates without an answer: while the API is away, more are not offered.
	underWay = 300
	setUpBy  = 16
)

// everyOne makes timers call every instant that an outage made late: whatever is skipped counts as
// missing.
//
//nolint:gochecknoglobals // never written
var everyOne = &client.Misfire{Policy: "fire_all", MaxFires: timer.MaxMisfireFires}

// mix is a load in fires per second: every cron is due each second.
type mix struct {
	crons    int // answered with 200
	retries  int // the first attempt fails, the second comes after a second
	later    int // the first attempt fails, the second is a new mark
	failing  int // all attempts fail
	flapping int // timers that are on half of the time, so twice as many
	once     int // made through the API while the load runs
}

func mixOf(rate int) mix {
	m := mix{
		retries:  rate * 12 / 100,
		later:    rate * 4 / 100,
		failing:  rate / 100,
		flapping: rate * 5 / 100,
		once:     rate * 30 / 100,
	}
	m.crons = rate - m.retries - m.later - m.failing - m.flapping - m.once
	return m
}

// traffic is the load of a scenario, with everything that it was told.
type traffic struct {
	w    *Environment
	mix  mix
	seq  atomic.Int64
	open chan struct{}  // a place for each create under way
	work sync.WaitGroup // creates and flips under way
	stop context.CancelFunc

	mu      sync.Mutex
	steady  []standing
	flips   []*flipped
	onces   []oneShot
	bursts  []bounded
	policed []policed
	refused int // calls without success
}

// standing is a cron that stays on.
type standing struct {
	kind  string
	id    timer.ID
	since time.Time // its creation was confirmed
	fails bool
}

// bounded is a cron that is due in each second of a stretch of minutes.
type bounded struct {
	id       timer.ID
	from, to time.Time
}

// flipped is a cron that is switched on and off.
type flipped struct {
	id      timer.ID
	mu      sync.Mutex
	changes []change
}

// change is a status that was asked for: it took effect between sent and done.
type change struct {
	status     timer.Status
	sent, done time.Time // done is zero while it is not confirmed
}

// oneShot is one that the API confirmed.
type oneShot struct {
	id       timer.ID
	at, done time.Time
}

// script tells the endpoint how to answer on each path of the load.
func script(rcv *receiver.Receiver) {
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

// startTraffic makes the crons and begins to make the rest.
func startTraffic(ctx context.Context, w *Environment, m mix) (*traffic, error) {
	t := &traffic{w: w, mix: m, open: make(chan struct{}, underWay)}
	eg, egCtx := errgroup.WithContext(ctx)
	eg.SetLimit(setUpBy)
	// The path over the proxy before the endpoint is for a part: what is cut off there is tried
	// again.
	for _, k := range []struct {
		name, path string
		n          int
		retry      client.Retry
		fails      bool
	}{
		{"cron", "/ok", m.crons, client.Retry{Attempts: 10, Wait: "500ms", Factor: 1.5}, false},
		{"retry", "/retry", m.retries, client.Retry{Attempts: 10, Wait: "1s", Factor: 1.5}, false},
		{"later", "/later", m.later, client.Retry{Attempts: 10, Wait: "6s", Factor: 1}, false},
		{"failing", "/fail", m.failing, client.Retry{Attempts: 2, Wait: "500ms", Factor: 1}, true},
	} {
		for i := range k.n {
			over := i
			if k.fails { // its few attempts have to arrive
				over = 0
			}
			eg.Go(func() error {
				tm, _, err := w.api.Create(egCtx, client.NewTimer{
					App:      app,
					Name:     fmt.Sprintf("%s-%d", k.name, i),
					Schedule: client.Cron("* * * * * *"),
					Target: client.Post(
						w.endpoint(over) + k.path,
					),
					Retry:   &k.retry,
					Misfire: everyOne,
					Status:  "active",
				})
				t.mu.Lock()
				defer t.mu.Unlock()
				t.steady = append(
					t.steady,
					standing{kind: k.name, id: tm.TimerID(), since: time.Now(), fails: k.fails},
				)
				return err
			})
		}
	}
	for i := range 2 * m.flapping {
		eg.Go(func() error {
			f := &flipped{changes: []change{{status: timer.StatusActive, sent: time.Now()}}}
			tm, _, err := w.api.Create(egCtx, client.NewTimer{
				App:      app,
				Name:     fmt.Sprintf("flapping-%d", i),
				Schedule: client.Cron("* * * * * *"),
				Target:   client.Post(w.endpoint(i) + "/ok"),
				Misfire:  everyOne,
				Status:   "active",
				Retry:    &client.Retry{Attempts: 10, Wait: "500ms", Factor: 1.5},
			})
			f.id, f.changes[0].done = tm.TimerID(), time.Now()
			t.mu.Lock()
			defer t.mu.Unlock()
			t.flips = append(t.flips, f)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, fmt.Errorf("making the load's timers: %w", err)
	}
	ctx, t.stop = context.WithCancel(ctx)
	for _, f := range t.flips {
		t.work.Go(func() { t.flap(ctx, f) })
	}
	t.work.Go(func() { t.offer(ctx) })
	return t, nil
}

// end makes no more, waits until the API has confirmed what is under way, and returns up to which
// instant the load is judged.
func (t *traffic) end() time.Time {
	t.stop()
	t.work.Wait()
	return time.Now().Truncate(time.Second)
}

// offer makes one-shots at the mix's rate. A tick that comes late makes as many as are missing.
func (t *traffic) offer(ctx context.Context) {
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
			case t.open <- struct{}{}:
				t.work.Go(func() {
					defer func() { <-t.open }()
					t.one()
				})
			default: // the API is away: this one is never asked for
			}
		}
	}
}

// one makes a one-shot. It is asked for until it is confirmed, by its name the same one, or until
// its instant is too near.
func (t *traffic) one() {
	n := t.seq.Add(1)
	at := time.Now().Add(time.Second + rand.N(farthest)).Truncate(time.Millisecond)
	q := client.NewTimer{
		App:      app,
		Name:     fmt.Sprintf("once-%d", n),
		Schedule: client.At(at),
		Target:   client.Post(t.w.endpoint(int(n)) + "/ok"),
		Status:   "active",
		Retry:    &client.Retry{Attempts: 10, Wait: "500ms", Factor: 1.5},
	}
	for wait := 250 * time.Millisecond; time.Until(at) > tooLate; wait = min(2*wait, 2*time.Second) {
		ctx, cancel := context.WithTimeout(t.w.ctx, callTimeout)
		tm, _, err := t.w.api.Create(ctx, q)
		cancel()
		if err == nil {
			t.mu.Lock()
			t.onces = append(t.onces, oneShot{id: tm.TimerID(), at: at, done: time.Now()})
			t.mu.Unlock()
			return
		}
		t.note(err)
		if t.w.ctx.Err() != nil {
			return
		}
		clock.Pause(t.w.ctx, wait)
	}
}

// flap switches a timer off and on until ctx ends; what it has begun it brings to its end.
func (t *traffic) flap(ctx context.Context, f *flipped) {
	clock.Pause(ctx, rand.N(2*flipEvery))
	status := timer.StatusActive
	for ctx.Err() == nil {
		if status == timer.StatusActive {
			status = timer.StatusInactive
		} else {
			status = timer.StatusActive
		}
		i := f.begin(status)
		for {
			call, cancel := context.WithTimeout(t.w.ctx, callTimeout)
			_, err := t.w.api.SetStatus(call, app, f.id, string(status))
			cancel()
			if err == nil {
				f.finish(i)
				break
			}
			t.note(err)
			if t.w.ctx.Err() != nil {
				return
			}
			clock.Pause(t.w.ctx, time.Second)
		}
		clock.Pause(ctx, flipEvery)
	}
}

func (f *flipped) begin(s timer.Status) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, change{status: s, sent: time.Now()})
	return len(f.changes) - 1
}

func (f *flipped) finish(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes[i].done = time.Now()
}

// note counts a call without success. A refusal by the API is no fault of the world: it ends the
// scenario.
func (t *traffic) note(err error) {
	t.mu.Lock()
	t.refused++
	t.mu.Unlock()
	var e *client.Error
	if errors.As(err, &e) && e.Status < http.StatusInternalServerError &&
		e.Status != http.StatusTooManyRequests {
		t.w.failf("the API refused a call of the load: %v", err)
	}
}

// burst makes n crons that are due in each second of some minutes from an instant on, which must be
// a full one.
func (t *traffic) burst(ctx context.Context, n int, from time.Time, minutes int) error {
	from = from.UTC()
	var list []string
	for i := range minutes {
		list = append(list, strconv.Itoa(from.Add(time.Duration(i)*time.Minute).Minute()))
	}
	if from.Add(time.Duration(minutes-1)*time.Minute).Hour() != from.Hour() {
		return fmt.Errorf(
			"the stretch of %d minutes from %s on is not in one hour: try again",
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
	eg.SetLimit(4 * setUpBy)
	for i := range n {
		eg.Go(func() error {
			tm, _, err := t.w.api.Create(ctx, client.NewTimer{
				App:      app,
				Name:     fmt.Sprintf("burst-%d", i),
				Schedule: client.Cron(spec),
				Target:   client.Post(t.w.endpoint(0) + "/ok"),
				Misfire:  everyOne,
				Status:   "active",
				Retry:    &client.Retry{Attempts: 10, Wait: "500ms", Factor: 1.5},
			})
			t.mu.Lock()
			defer t.mu.Unlock()
			t.bursts = append(
				t.bursts,
				bounded{tm.TimerID(), from, from.Add(time.Duration(minutes) * time.Minute)},
			)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return fmt.Errorf("making a burst: %w", err)
	}
	if time.Now().After(from) {
		return fmt.Errorf("the burst was not made before it began at %s", from)
	}
	return nil
}

// kinds returns what each timer of the load is.
func (t *traffic) kinds() map[timer.ID]string {
	m := make(map[timer.ID]string)
	for _, s := range t.steady {
		m[s.id] = s.kind
	}
	for _, f := range t.flips {
		m[f.id] = "flapping"
	}
	for _, o := range t.onces {
		m[o.id] = "once"
	}
	for _, b := range t.bursts {
		m[b.id] = "burst"
	}
	for _, p := range t.policed {
		m[p.id] = p.kind
	}
	return m
}

// history tells what was asked for a timer that is switched on and off, around a fire.
func (t *traffic) history(id timer.FireID) string {
	var out []string
	for _, f := range t.flips {
		if f.id != id.Timer {
			continue
		}
		f.mu.Lock()
		for _, c := range f.changes {
			if gap := time.UnixMilli(id.DueMS).
				Sub(c.sent); gap < 30*time.Second &&
				gap > -30*time.Second {
				out = append(
					out,
					fmt.Sprintf(
						"%s sent %s, confirmed %s",
						c.status,
						c.sent.UTC().Format(time.StampMilli),
						c.done.UTC().Format(time.StampMilli),
					),
				)
			}
		}
		f.mu.Unlock()
	}
	return strings.Join(out, ", ")
}
