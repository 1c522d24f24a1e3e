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
// as dead letters, too. Neither topic waits for the other. It acknowledges its position with its
// session, and a scheduler publishes what an expired session had not. While a topic is unavailable,
// its queue may overflow; the overflow is read from the store later.
//
// Each result of the session is pending from before its record until it is published on its topics,
// or until it lies behind the position of the next reread. The acknowledged position is always before
// all pending results.
type Publisher struct {
	opts    Options
	log     zerolog.Logger
	delayed prometheus.Counter
	max     int // maximum length of a queue

	mu       sync.Mutex
	outboxes [2]*outbox
	epoch    *session.Epoch // the latest; only its outcomes are counted
	// pending counts the epoch's results that are expected, and those in queues, by the second they
	// finished in.
	pending map[int64]int
	ackedMS int64     // unix ms: the epoch's outcomes up to here are published
	latest  int64     // unix ms: the latest finish of an expected result
	ackedAt time.Time // of the last acknowledgement for the epoch; zero: none
}

// outbox is what waits for one topic.
type outbox struct {
	topic bus.Topic
	wake  chan struct{} // capacity 1

	// The rest belongs to the lock of the publisher.
	queue      []Event
	overflowed bool // the queue overflowed and takes nothing until the overflow is read
	// firstMissedMS is the finish time, in unix ms, of the earliest outcome of the epoch that
	// overflowed and was not read since. 0: there is none.
	firstMissedMS int64
	rereadMS      int64 // where the reread under way began, in unix ms; 0: there is none
}

// Event is an outcome to be published.
type Event struct {
	timer.Outcome
	App, Name string // of the app and the timer; empty: unknown
	Session   timer.ID
	PerTarget bool   // it lists each target, read from the store
	LastError string // of the last attempt
}

// New returns a publisher with empty queues.
func New(o Options) *Publisher {
	a := &Publisher{
		opts: o,
		log:  o.Logger,
		delayed: promauto.With(o.Registerer).NewCounter(prometheus.CounterOpts{
			Name: "carillon_outcome_events_delayed_total",
			Help: "Messages about recorded outcomes that overflowed a queue in memory and are published from the store.",
		}),
		max:     eventsMax,
		pending: make(map[int64]int),
	}
	for i, topic := range outcomeevent.Topics() {
		q := &outbox{topic: topic, wake: make(chan struct{}, 1)}
		a.outboxes[i] = q
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
		// The acknowledged position of an earlier epoch is not known any more, but before now.
		o.FinishedMS = max(o.FinishedMS, a.opts.Clock.Now().UnixMilli())
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
	a.epoch, a.pending, a.ackedMS, a.latest, a.ackedAt = epoch, make(
		map[int64]int,
	), 0, 0, time.Time{}
	for _, q := range a.outboxes {
		q.overflowed, q.firstMissedMS = false, 0
	}
}

// Settle stops expecting a result, because it was not recorded.
func (a *Publisher) Settle(e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(&e, -1)
}

// count adds to the pending results of the second of an event. The caller holds the lock.
func (a *Publisher) count(e *Event, n int) {
	if a.epoch == nil || a.epoch.ID != e.Session {
		return
	}
	second := e.FinishedMS / 1000
	if a.pending[second] += n; a.pending[second] <= 0 {
		delete(a.pending, second)
	}
}

// Put queues a recorded outcome for its topics.
func (a *Publisher) Put(e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.outboxes {
		if !outcomeevent.Takes(q.topic, e.Kind) {
			continue
		}
		switch {
		case !q.overflowed && len(q.queue) < a.max:
			q.queue = append(q.queue, e)
			a.count(&e, 1)
		case a.epoch != nil && a.epoch.ID == e.Session:
			if q.overflowed = true; q.firstMissedMS == 0 || e.FinishedMS < q.firstMissedMS {
				q.firstMissedMS = e.FinishedMS
			}
			a.delayed.Inc()
		default: // a scheduler finds it in the store
			a.delayed.Inc()
		}
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	a.count(&e, -1) // it was expected
}

// Run publishes until ctx ends.
func (a *Publisher) Run(ctx context.Context) {
	var publishing sync.WaitGroup
	for _, q := range a.outboxes {
		publishing.Go(func() { a.run(ctx, q) })
	}
	tick := time.NewTicker(ackEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			if a.ackDue() {
				a.ack(ctx)
			}
		case <-ctx.Done():
		}
	}
	publishing.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackEvery)
	defer cancel()
	a.ack(last)
}

// run publishes on one topic until ctx ends.
func (a *Publisher) run(ctx context.Context, q *outbox) {
	for {
		select {
		case <-q.wake:
			clock.Pause(ctx, gatherWait)
			a.flush(ctx, q)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackEvery)
			a.flush(last, q)
			cancel()
			return
		}
	}
}

// flush publishes the queued events, then the overflow.
func (a *Publisher) flush(ctx context.Context, q *outbox) {
	for more := true; more; {
		a.drain(ctx, q)
		more = a.reread(ctx, q)
	}
}

// drain publishes the queued events. If an overflow is to be read, it leaves those that come
// meanwhile: under load the queue may never be empty.
func (a *Publisher) drain(ctx context.Context, q *outbox) {
	a.mu.Lock()
	left := len(q.queue)
	a.mu.Unlock()
	for ctx.Err() == nil {
		a.mu.Lock()
		n := min(store.MaxBatch, len(q.queue))
		batch := q.queue[:n:n]
		a.mu.Unlock()
		if n == 0 {
			return
		}
		if err := a.publish(ctx, q, batch); err != nil {
			a.log.Debug().Err(err).Msg("outcomes not published, retrying")
			clock.Pause(ctx, eventsRetryAfter)
			continue
		}
		a.mu.Lock()
		if q.queue = q.queue[n:]; len(q.queue) == 0 {
			q.queue = nil
		}
		for i := range batch {
			a.count(&batch[i], -1)
		}
		left -= n
		enough := left <= 0 && q.firstMissedMS > 0
		a.mu.Unlock()
		if enough {
			return
		}
	}
}

// reread publishes overflowed outcomes from the store, starting at the earliest. If more overflow
// meanwhile, it returns true, and the next call starts at their earliest.
func (a *Publisher) reread(ctx context.Context, q *outbox) (more bool) {
	a.mu.Lock()
	from, epoch := q.firstMissedMS, a.epoch
	q.firstMissedMS, q.rereadMS = 0, from
	a.mu.Unlock()
	if from == 0 {
		return false
	}
	done := a.publishFromStore(ctx, q, epoch, from)
	a.mu.Lock()
	defer a.mu.Unlock()
	q.rereadMS = 0
	switch {
	// The epoch ended: a scheduler continues from the acknowledged position, which is before all of
	// it.
	case a.epoch != epoch:
	case done:
		q.overflowed = false
	case q.firstMissedMS == 0 || from < q.firstMissedMS:
		q.firstMissedMS = from
	}
	return done && q.firstMissedMS > 0
}

// publishFromStore publishes the outcomes of an epoch that finished at from or later. done is false
// if ctx or the epoch ended first.
func (a *Publisher) publishFromStore(
	ctx context.Context,
	q *outbox,
	epoch *session.Epoch,
	from int64,
) (done bool) {
	at := store.OutcomePosition{FinishedMS: from}
	for ctx.Err() == nil && a.isCurrent(epoch) {
		page, err := a.opts.Store.PendingEvents(ctx, epoch.ID, at, timer.NeverMS, store.MaxBatch)
		if err == nil {
			err = a.send(ctx, q, nil, page)
		}
		if err != nil {
			a.log.Debug().Err(err).Msg("outcomes not published, retrying")
			clock.Pause(ctx, eventsRetryAfter)
			continue
		}
		if len(page) < store.MaxBatch {
			return true
		}
		last := &page[len(page)-1]
		at = store.OutcomePosition{FinishedMS: last.FinishedMS, FireID: last.FireID}
	}
	return false
}

func (a *Publisher) isCurrent(epoch *session.Epoch) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.epoch == epoch
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
	for _, q := range a.outboxes {
		for _, from := range []int64{q.firstMissedMS, q.rereadMS} {
			if from > 0 {
				upTo = min(upTo, from-1)
			}
		}
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

// publish publishes queued events. It reads from the store an unknown app, and for outcome events the
// result of each target, because earlier attempts may belong to another executor.
func (a *Publisher) publish(ctx context.Context, q *outbox, es []Event) error {
	events := make([]outcomeevent.Event, 0, len(es))
	var partial []timer.Outcome
	for i := range es {
		e := &es[i]
		if e.App == "" || e.PerTarget && q.topic == bus.Outcomes {
			partial = append(partial, e.Outcome)
			continue
		}
		events = append(events, outcomeevent.Event{
			Outcome: &e.Outcome, App: e.App, Timer: e.Name, LastError: e.LastError,
		})
	}
	return a.send(ctx, q, events, partial)
}

// send publishes events, and those of stored outcomes that the topic takes.
func (a *Publisher) send(
	ctx context.Context, q *outbox, events []outcomeevent.Event, stored []timer.Outcome,
) error {
	call, cancel := context.WithTimeout(ctx, eventsTimeout)
	read, err := outcomeevent.Read(call, a.opts.Store, q.topic, stored)
	cancel()
	if err != nil {
		return err //nolint:wrapcheck // already wrapped
	}
	call, cancel = context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	//nolint:wrapcheck // the bus names the topic
	return outcomeevent.Publish(call, a.opts.Bus, q.topic, append(events, read...))
}
