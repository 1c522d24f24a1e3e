package executor

import (
	"context"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/announce"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// outcomes that wait to be announced; beyond it they are read from the store again.
	eventsMax        = 50_000
	eventsTimeout    = 5 * time.Second
	eventsRetryAfter = time.Second
	ackEvery         = time.Second
	// how old the position may become while there is nothing to announce.
	maxAckAge = 5 * ackEvery
)

// eventPublisher publishes outcomes for whoever listens, after they are recorded, each at least once:
// how far it is, it notes with its session, and what a session that ended had not announced, a
// scheduler reads and announces. While the bus is away more outcomes come than are kept here: they
// are read from the store when it is back.
//
// Each result of the session is counted from before its record until it is announced, or has its
// place behind the position that is read from again; the position that is noted lies before all of
// them.
type eventPublisher struct {
	svc *Service
	max int // events kept

	mu    sync.Mutex
	queue []event
	epoch *session.Epoch // whose outcomes are counted: the latest
	// its results that are expected to be recorded, or in the queue, by the second in which they
	// finished.
	pending    map[int64]int
	ackedMS    int64     // unix ms: up to here all of the term's are announced
	overflowed bool      // the queue overflowed, and takes nothing until that is read
	latest     int64     // unix ms: when the last of its results that were expected finished
	ackedAt    time.Time // when it was noted last for the term; zero: it was not
	// unix ms: the earliest of the term's outcomes that did not fit the queue and were not read
	// since; 0: there is none.
	firstMissedMS int64
	wake          chan struct{} // has room for one
}

// event is an outcome to be announced.
type event struct {
	timer.Outcome
	app       string // empty: not known any more
	session   timer.ID
	perTarget bool // it tells of each of its targets, which is read from the store
}

func newEventPublisher(s *Service) *eventPublisher {
	return &eventPublisher{
		svc:     s,
		max:     eventsMax,
		pending: make(map[int64]int),
		wake:    make(chan struct{}, 1),
	}
}

// expect counts a result that is about to be recorded: nothing that finished as late is noted as
// announced before it is. One that took so long from its end to here that more is noted already
// ends now: behind what is noted nobody would look for it.
func (a *eventPublisher) expect(epoch *session.Epoch, o *timer.Outcome) {
	if a.svc.opts.NoEvents {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.switchEpoch(epoch); a.epoch != epoch {
		return
	}
	o.FinishedMS = max(o.FinishedMS, a.ackedMS+1)
	a.pending[o.FinishedMS/1000]++
	a.latest = max(a.latest, o.FinishedMS)
}

// switchEpoch counts for a term from its first sight on, and not for one that it followed: what that
// left, somebody else announces. The lock is held.
func (a *eventPublisher) switchEpoch(epoch *session.Epoch) {
	if epoch == nil || a.epoch != nil && epoch.ID <= a.epoch.ID {
		return
	}
	a.epoch, a.pending, a.ackedMS, a.latest, a.overflowed, a.firstMissedMS, a.ackedAt = epoch, make(
		map[int64]int,
	), 0, 0, false, 0, time.Time{}
}

// settle takes results off the count: they are announced, or were not recorded.
func (a *eventPublisher) settle(es ...event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range es {
		a.uncount(&es[i])
	}
}

func (a *eventPublisher) uncount(e *event) {
	if a.epoch == nil || a.epoch.ID != e.session {
		return
	}
	second := e.FinishedMS / 1000
	if a.pending[second]--; a.pending[second] <= 0 {
		delete(a.pending, second)
	}
}

// put announces a recorded outcome.
func (a *eventPublisher) put(e event) {
	if a.svc.opts.NoEvents {
		return
	}
	a.mu.Lock()
	switch {
	case !a.overflowed && len(a.queue) < a.max:
		a.queue = append(a.queue, e)
	case a.epoch != nil && a.epoch.ID == e.session:
		if a.overflowed = true; a.firstMissedMS == 0 || e.FinishedMS < a.firstMissedMS {
			a.firstMissedMS = e.FinishedMS
		}
		a.uncount(&e)
		a.svc.met.eventsDelayed.Inc()
	default: // a scheduler finds it in the store
		a.svc.met.eventsDelayed.Inc()
	}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run announces until ctx ends.
func (a *eventPublisher) run(ctx context.Context) {
	if a.svc.opts.NoEvents {
		return
	}
	tick := time.NewTicker(ackEvery)
	defer tick.Stop()
	for {
		select {
		case <-a.wake:
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

// flush publishes what waits.
func (a *eventPublisher) flush(ctx context.Context) {
	for ctx.Err() == nil {
		a.mu.Lock()
		n := min(store.MaxBatch, len(a.queue))
		batch := a.queue[:n:n]
		a.mu.Unlock()
		if n == 0 {
			break
		}
		if err := a.publish(ctx, batch); err != nil {
			clock.Pause(ctx, eventsRetryAfter)
			continue
		}
		a.mu.Lock()
		if a.queue = a.queue[n:]; len(a.queue) == 0 {
			a.queue = nil
		}
		a.mu.Unlock()
		a.settle(batch...)
	}
	for more := true; more; {
		more = a.reread(ctx)
	}
}

// reread announces from the store what did not fit, from the earliest of it on. While that is read
// first, still more does not fit: its own earliest is read from next, and meanwhile the queue takes
// what comes. It returns whether there is more of it.
func (a *eventPublisher) reread(ctx context.Context) (more bool) {
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
	case a.epoch != epoch: // whoever announces for sessions that ended goes on from what was noted, which is before all of it
	case done:
		a.overflowed = false
	case a.firstMissedMS == 0 || from < a.firstMissedMS:
		a.firstMissedMS = from
	}
	return done && a.firstMissedMS > 0
}

// publishFromStore announces a session's outcomes that finished at an instant or later, as they are recorded
// now, unless ctx ends before.
func (a *eventPublisher) publishFromStore(
	ctx context.Context,
	session timer.ID,
	from int64,
) (done bool) {
	at := store.OutcomePosition{FinishedMS: from}
	for ctx.Err() == nil {
		page, err := a.svc.opts.Store.PendingEvents(ctx, session, at, timer.NeverMS, store.MaxBatch)
		if err == nil {
			err = a.send(ctx, page)
		}
		if err != nil {
			a.svc.log.Debug().Err(err).Msg("outcomes not announced, trying again")
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

// ackDue tells whether the position should be noted: it lies before the latest result, or was noted
// a while ago.
func (a *eventPublisher) ackDue() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.latest > a.ackedMS || len(a.pending) > 0 || a.svc.heartbeater.Epoch() != a.epoch ||
		time.Since(a.ackedAt) >= maxAckAge
}

// ack writes how far this session's outcomes are announced: up to the second before the first that
// is not. One that has none to announce says so too, so that nobody has to look through all that
// others recorded while it lived.
func (a *eventPublisher) ack(ctx context.Context) {
	a.mu.Lock()
	a.switchEpoch(a.svc.heartbeater.Epoch())
	epoch, upTo := a.epoch, a.svc.opts.Clock.Now().Add(-ackEvery).UnixMilli()
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
	if err := a.svc.opts.Store.AckEvents(
		ctx,
		epoch.ID,
		store.OutcomePosition{FinishedMS: upTo},
	); err != nil {
		a.svc.log.Debug().Err(err).Msg("position of announcements not noted")
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ackedAt = time.Time{} // at the next tick again
	}
}

// publish announces what is kept here. An app that was not known when the outcome came is read, and
// so is what became of each target: the attempts before the last one were made by whoever had the
// fire then.
func (a *eventPublisher) publish(ctx context.Context, es []event) error {
	msgs := make([]bus.Message, 0, len(es))
	var partial []timer.Outcome
	for i := range es {
		if es[i].app == "" || es[i].perTarget {
			partial = append(partial, es[i].Outcome)
			continue
		}
		msgs = append(msgs, announce.Message(&es[i].Outcome, es[i].app, nil))
	}
	if err := a.send(ctx, partial); err != nil {
		return err
	}
	return a.deliver(ctx, msgs)
}

// send announces outcomes as the store has them.
func (a *eventPublisher) send(ctx context.Context, os []timer.Outcome) error {
	call, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	msgs, err := announce.Messages(call, a.svc.opts.Store, os)
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	return a.deliver(ctx, msgs)
}

func (a *eventPublisher) deliver(ctx context.Context, msgs []bus.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	//nolint:wrapcheck // the bus says which topic
	return a.svc.opts.Bus.Publish(ctx, bus.Outcomes, msgs...)
}
