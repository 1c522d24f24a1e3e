package events

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/outcomeevent"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// eventsMax is how many outcome events are queued in memory. Beyond it they are read from the
	// store.
	eventsMax = 50_000
	// gatherWait is how long an event waits for others. An event needs far less of the broker's time
	// in a batch than alone.
	gatherWait       = 20 * time.Millisecond
	eventsTimeout    = 5 * time.Second
	eventsRetryAfter = time.Second
	ackEvery         = time.Second
	// maxAckAge is how old the acknowledged position may be while nothing is published.
	maxAckAge = 5 * ackEvery
)

// Store is the part of the store that a publisher uses.
type Store interface {
	store.AppsByID
	store.Definitions
	store.States
	store.OutcomeEvents
}

// Options of a publisher.
type Options struct {
	Store      Store
	Bus        bus.Publisher
	Clock      *clock.Clock
	Epoch      func() *session.Epoch // of the current session, or nil
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Publisher publishes recorded outcomes, each at least once: on the outcomes topic, and failed ones
// as dead letters, too. It acknowledges its position with its session, and a scheduler publishes what
// an expired session had not. While the bus is unavailable the queue may overflow; the overflow is
// read from the store later.
//
// Each result of the session is pending from before its record until it is published, or until it
// lies behind the position of the next reread. The acknowledged position is always before all
// pending results.
type Publisher struct {
	opts    Options
	log     zerolog.Logger
	delayed prometheus.Counter
	max     int // maximum length of a queue

	mu       sync.Mutex
	outcomes outbox
	letters  outbox         // of the failed among them
	epoch    *session.Epoch // the latest; only its outcomes are counted
	// pending counts the epoch's results that are expected or queued, by the second they finished
	// in.
	pending    map[int64]int
	ackedMS    int64     // unix ms: the epoch's outcomes up to here are published
	overflowed bool      // the queue overflowed and takes nothing until the overflow is read
	latest     int64     // unix ms: the latest finish of an expected result
	ackedAt    time.Time // of the last acknowledgement for the epoch; zero: none
	// firstMissedMS is the finish time, in unix ms, of the earliest outcome of the epoch that
	// overflowed and was not read since. 0: there is none.
	firstMissedMS int64
	wake          chan struct{} // capacity 1
}

// Event is an outcome to be published.
type Event struct {
	timer.Outcome
	App, Name string // of the app and the timer; empty: unknown
	Session   timer.ID
	PerTarget bool   // it lists each target, read from the store
	LastError string // of the last attempt
}

// outbox is a queue of events for one topic. Neither topic waits for the other.
type outbox struct {
	topic    bus.Topic
	queue    []Event
	failedAt time.Time // when the latest batch was not published; zero: it was
}

// New returns a publisher with an empty queue.
func New(o Options) *Publisher {
	a := &Publisher{
		opts:     o,
		log:      o.Logger,
		outcomes: outbox{topic: bus.Outcomes},
		letters:  outbox{topic: bus.TasksDead},
		delayed: promauto.With(o.Registerer).NewCounter(prometheus.CounterOpts{
			Name: "carillon_outcome_events_delayed_total",
			Help: "Recorded outcomes that overflowed the queue in memory and are published from the store.",
		}),
		max:     eventsMax,
		pending: make(map[int64]int),
		wake:    make(chan struct{}, 1),
	}
	for _, q := range []*outbox{&a.outcomes, &a.letters} {
		promauto.With(o.Registerer).NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "carillon_outcome_events_waiting",
			Help:        "Messages about recorded outcomes that wait in memory to be published, by topic.",
			ConstLabels: prometheus.Labels{"topic": string(q.topic)},
		}, func() float64 {
			a.mu.Lock()
			defer a.mu.Unlock()
			return float64(len(q.queue))
		})
	}
	return a
}

// Expect counts a result that is about to be recorded, so that no position at or after its finish
// time is acknowledged before it is published. If such a position is acknowledged already, the
// result's finish time moves behind it. Otherwise nobody would read it.
func (a *Publisher) Expect(epoch *session.Epoch, o *timer.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.switchEpoch(epoch); a.epoch != epoch {
		return
	}
	o.FinishedMS = max(o.FinishedMS, a.ackedMS+1)
	a.pending[o.FinishedMS/1000]++
	a.latest = max(a.latest, o.FinishedMS)
}

// switchEpoch starts counting for a newer epoch. A scheduler publishes what earlier epochs left.
// The caller holds the lock.
func (a *Publisher) switchEpoch(epoch *session.Epoch) {
	if epoch == nil || a.epoch != nil && epoch.ID <= a.epoch.ID {
		return
	}
	a.epoch, a.pending, a.ackedMS, a.latest, a.overflowed, a.firstMissedMS, a.ackedAt = epoch, make(
		map[int64]int,
	), 0, 0, false, 0, time.Time{}
}

// Settle stops counting results: they are published, or were not recorded.
func (a *Publisher) Settle(es ...Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range es {
		a.uncount(&es[i])
	}
}

func (a *Publisher) uncount(e *Event) {
	if a.epoch == nil || a.epoch.ID != e.Session {
		return
	}
	second := e.FinishedMS / 1000
	if a.pending[second]--; a.pending[second] <= 0 {
		delete(a.pending, second)
	}
}

// Put queues a recorded outcome.
func (a *Publisher) Put(e Event) {
	a.mu.Lock()
	switch {
	case !a.overflowed && max(len(a.outcomes.queue), len(a.letters.queue)) < a.max:
		a.outcomes.queue = append(a.outcomes.queue, e)
		if e.Kind == timer.Failed {
			a.letters.queue = append(a.letters.queue, e)
			if a.epoch != nil && a.epoch.ID == e.Session {
				a.pending[e.FinishedMS/1000]++ // until both are published
			}
		}
	case a.epoch != nil && a.epoch.ID == e.Session:
		if a.overflowed = true; a.firstMissedMS == 0 || e.FinishedMS < a.firstMissedMS {
			a.firstMissedMS = e.FinishedMS
		}
		a.uncount(&e)
		a.delayed.Inc()
	default: // a scheduler finds it in the store
		a.delayed.Inc()
	}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends.
func (a *Publisher) Run(ctx context.Context) {
	tick := time.NewTicker(ackEvery)
	defer tick.Stop()
	for {
		select {
		case <-a.wake:
			clock.Pause(ctx, gatherWait)
			a.flush(ctx)
		case <-tick.C:
			a.flush(ctx)
			if a.ackDue() {
				a.ack(ctx)
			}
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackEvery)
			a.flush(last)
			a.ack(last)
			cancel()
			return
		}
	}
}

// flush publishes the queued events, then the overflow. What cannot be published waits for the next
// call.
func (a *Publisher) flush(ctx context.Context) {
	outcomes, letters := a.drain(ctx, &a.outcomes), a.drain(ctx, &a.letters)
	if !outcomes || !letters {
		return
	}
	for more := true; more; {
		more = a.reread(ctx)
	}
}

// drain publishes the events of a queue. done is false if some are left.
func (a *Publisher) drain(ctx context.Context, q *outbox) (done bool) {
	for ctx.Err() == nil {
		a.mu.Lock()
		n := min(store.MaxBatch, len(q.queue))
		batch := q.queue[:n:n]
		a.mu.Unlock()
		if n == 0 {
			return true
		}
		if !q.failedAt.IsZero() && time.Since(q.failedAt) < eventsRetryAfter {
			return false
		}
		q.failedAt = time.Time{}
		if err := a.publish(ctx, q.topic, batch); err != nil {
			a.log.Debug().Err(err).Msg("outcomes not published, retrying")
			q.failedAt = time.Now()
			return false
		}
		a.mu.Lock()
		if q.queue = q.queue[n:]; len(q.queue) == 0 {
			q.queue = nil
		}
		a.mu.Unlock()
		a.Settle(batch...)
	}
	return false
}

// reread publishes overflowed outcomes from the store, starting at the earliest. If more overflow
// meanwhile, it returns true, and the next call starts at their earliest.
func (a *Publisher) reread(ctx context.Context) (more bool) {
	a.mu.Lock()
	from, epoch := a.firstMissedMS, a.epoch
	a.firstMissedMS = 0
	a.mu.Unlock()
	if from == 0 {
		return false
	}
	done := a.publishFromStore(ctx, epoch.ID, from)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	// The epoch ended: a scheduler continues from the acknowledged position, which is before all of
	// it.
	case a.epoch != epoch:
	case done:
		a.overflowed = false
	case a.firstMissedMS == 0 || from < a.firstMissedMS:
		a.firstMissedMS = from
	}
	return done && a.firstMissedMS > 0
}

// publishFromStore publishes the session's outcomes that finished at from or later. done is false
// if ctx ended first.
func (a *Publisher) publishFromStore(
	ctx context.Context,
	session timer.ID,
	from int64,
) (done bool) {
	at := store.OutcomePosition{FinishedMS: from}
	for ctx.Err() == nil {
		page, err := a.opts.Store.PendingEvents(ctx, session, at, timer.NeverMS, store.MaxBatch)
		var events []outcomeevent.Event
		if err == nil {
			events, err = a.read(ctx, page)
		}
		if err != nil {
			a.log.Debug().Err(err).Msg("outcomes not read, retrying")
			clock.Pause(ctx, eventsRetryAfter)
			continue
		}
		if !a.publishPage(ctx, events) {
			return false
		}
		if len(page) < store.MaxBatch {
			return true
		}
		last := &page[len(page)-1]
		at = store.OutcomePosition{FinishedMS: last.FinishedMS, FireID: last.FireID}
	}
	return false
}

// publishPage publishes events of stored outcomes until both topics have them. done is false if ctx
// ended first.
func (a *Publisher) publishPage(ctx context.Context, es []outcomeevent.Event) (done bool) {
	p := outcomeevent.Page{Events: es}
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, 2*eventsTimeout) //nolint:mnd // two topics
		err := p.Publish(call, a.opts.Bus)
		cancel()
		if err == nil {
			return true
		}
		a.log.Debug().Err(err).Msg("outcomes not published, retrying")
		clock.Pause(ctx, eventsRetryAfter)
	}
	return false
}

// ackDue reports whether to acknowledge the position: it is before the latest result, or its last
// acknowledgement is old.
func (a *Publisher) ackDue() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.latest > a.ackedMS || len(a.pending) > 0 || a.opts.Epoch() != a.epoch ||
		time.Since(a.ackedAt) >= maxAckAge
}

// ack stores how far this session's outcomes are published: up to the second before the first
// pending one. A session without outcomes does so too, or a scheduler would scan everything
// recorded while it lived.
func (a *Publisher) ack(ctx context.Context) {
	a.mu.Lock()
	a.switchEpoch(a.opts.Epoch())
	epoch, upTo := a.epoch, a.opts.Clock.Now().Add(-ackEvery).UnixMilli()
	for second := range a.pending {
		upTo = min(upTo, second*1000-1)
	}
	if a.firstMissedMS > 0 {
		upTo = min(upTo, a.firstMissedMS-1)
	}
	a.ackedMS, a.ackedAt = max(a.ackedMS, upTo), time.Now()
	a.mu.Unlock()
	if epoch == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	if err := a.opts.Store.AckEvents(
		ctx,
		epoch.ID,
		store.OutcomePosition{FinishedMS: upTo},
	); err != nil {
		a.log.Debug().Err(err).Msg("position of published outcomes not stored")
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ackedAt = time.Time{} // retry at the next tick
	}
}

// publish publishes events on one topic. It reads from the store an unknown app, and the result of
// each target, because earlier attempts may belong to another executor.
func (a *Publisher) publish(ctx context.Context, topic bus.Topic, es []Event) error {
	all := make([]outcomeevent.Event, 0, len(es))
	var partial []timer.Outcome
	for i := range es {
		e := &es[i]
		if e.App == "" || e.PerTarget {
			partial = append(partial, e.Outcome)
			continue
		}
		all = append(all, outcomeevent.New(&e.Outcome, e.App, e.Name, e.LastError, nil))
	}
	read, err := a.read(ctx, partial)
	if err != nil {
		return err
	}
	all = append(all, read...)
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	if topic == bus.TasksDead {
		return outcomeevent.PublishDeadLetters(ctx, a.opts.Bus, all) //nolint:wrapcheck // as below
	}
	return outcomeevent.PublishOutcomes(ctx, a.opts.Bus, all) //nolint:wrapcheck // the bus names it
}

// read returns the events of stored outcomes.
func (a *Publisher) read(ctx context.Context, os []timer.Outcome) ([]outcomeevent.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	//nolint:wrapcheck // already wrapped
	return outcomeevent.Events(ctx, a.opts.Store, os)
}
