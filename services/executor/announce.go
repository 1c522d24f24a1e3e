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
	eventsMax     = 50_000
	eventsTimeout = 5 * time.Second
	eventsAgain   = time.Second
	announceEvery = time.Second
	// how old the position may become while there is nothing to announce.
	noteAtLeast = 5 * announceEvery
)

// announcer publishes outcomes for whoever listens, after they are recorded, each at least once:
// how far it is, it notes with its session, and what a session that ended had not announced, a
// scheduler reads and announces. While the bus is away more outcomes come than are kept here: they
// are read from the store when it is back.
//
// Each result of the session is counted from before its record until it is announced, or has its
// place behind the position that is read from again; the position that is noted lies before all of
// them.
type announcer struct {
	svc *Service
	max int // events kept

	mu    sync.Mutex
	queue []event
	term  *session.Epoch // whose outcomes are counted: the latest
	// its results that are expected to be recorded, or in the queue, by the second in which they
	// finished.
	pending map[int64]int
	noted   int64     // unix ms: up to here all of the term's are announced
	behind  bool      // the queue overflowed, and takes nothing until that is read
	latest  int64     // unix ms: when the last of its results that were expected finished
	saved   time.Time // when it was noted last for the term; zero: it was not
	// unix ms: the earliest of the term's outcomes that did not fit the queue and were not read
	// since; 0: there is none.
	missed int64
	wake   chan struct{} // has room for one
}

// event is an outcome to be announced.
type event struct {
	timer.Outcome
	app     string // empty: not known any more
	session timer.ID
	each    bool // it tells of each of its targets, which is read from the store
}

func newAnnouncer(s *Service) *announcer {
	return &announcer{
		svc:     s,
		max:     eventsMax,
		pending: make(map[int64]int),
		wake:    make(chan struct{}, 1),
	}
}

// expect counts a result that is about to be recorded: nothing that finished as late is noted as
// announced before it is. One that took so long from its end to here that more is noted already
// ends now: behind what is noted nobody would look for it.
func (a *announcer) expect(term *session.Epoch, o *timer.Outcome) {
	if a.svc.opts.NoEvents {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.follow(term); a.term != term {
		return
	}
	o.FinishedMS = max(o.FinishedMS, a.noted+1)
	a.pending[o.FinishedMS/1000]++
	a.latest = max(a.latest, o.FinishedMS)
}

// follow counts for a term from its first sight on, and not for one that it followed: what that
// left, somebody else announces. The lock is held.
func (a *announcer) follow(term *session.Epoch) {
	if term == nil || a.term != nil && term.ID <= a.term.ID {
		return
	}
	a.term, a.pending, a.noted, a.latest, a.behind, a.missed, a.saved = term, make(
		map[int64]int,
	), 0, 0, false, 0, time.Time{}
}

// settle takes results off the count: they are announced, or were not recorded.
func (a *announcer) settle(es ...event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range es {
		a.off(&es[i])
	}
}

func (a *announcer) off(e *event) {
	if a.term == nil || a.term.ID != e.session {
		return
	}
	second := e.FinishedMS / 1000
	if a.pending[second]--; a.pending[second] <= 0 {
		delete(a.pending, second)
	}
}

// put announces a recorded outcome.
func (a *announcer) put(e event) {
	if a.svc.opts.NoEvents {
		return
	}
	a.mu.Lock()
	switch {
	case !a.behind && len(a.queue) < a.max:
		a.queue = append(a.queue, e)
	case a.term != nil && a.term.ID == e.session:
		if a.behind = true; a.missed == 0 || e.FinishedMS < a.missed {
			a.missed = e.FinishedMS
		}
		a.off(&e)
		a.svc.met.eventsLate.Inc()
	default: // a scheduler finds it in the store
		a.svc.met.eventsLate.Inc()
	}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run announces until ctx ends.
func (a *announcer) run(ctx context.Context) {
	if a.svc.opts.NoEvents {
		return
	}
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	for {
		select {
		case <-a.wake:
			a.announce(ctx)
		case <-tick.C:
			a.announce(ctx)
			if a.moved() {
				a.note(ctx)
			}
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceEvery)
			a.announce(last)
			a.note(last)
			cancel()
			return
		}
	}
}

// announce publishes what waits.
func (a *announcer) announce(ctx context.Context) {
	for ctx.Err() == nil {
		a.mu.Lock()
		n := min(store.MaxBatch, len(a.queue))
		batch := a.queue[:n:n]
		a.mu.Unlock()
		if n == 0 {
			break
		}
		if err := a.publish(ctx, batch); err != nil {
			clock.Pause(ctx, eventsAgain)
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
func (a *announcer) reread(ctx context.Context) (more bool) {
	a.mu.Lock()
	from, term := a.missed, a.term
	a.missed = 0
	a.mu.Unlock()
	if from == 0 {
		return false
	}
	done := a.pages(ctx, term.ID, from)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.term != term: // whoever announces for sessions that ended goes on from what was noted, which is before all of it
	case done:
		a.behind = false
	case a.missed == 0 || from < a.missed:
		a.missed = from
	}
	return done && a.missed > 0
}

// pages announces a session's outcomes that finished at an instant or later, as they are recorded
// now, unless ctx ends before.
func (a *announcer) pages(ctx context.Context, session timer.ID, from int64) (done bool) {
	at := store.OutcomePosition{FinishedMS: from}
	for ctx.Err() == nil {
		page, err := a.svc.opts.Store.PendingEvents(ctx, session, at, timer.NeverMS, store.MaxBatch)
		if err == nil {
			err = a.send(ctx, page)
		}
		if err != nil {
			a.svc.log.Debug().Err(err).Msg("outcomes not announced, trying again")
			clock.Pause(ctx, eventsAgain)
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

// moved tells whether the position should be noted: it lies before the latest result, or was noted
// a while ago.
func (a *announcer) moved() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.latest > a.noted || len(a.pending) > 0 || a.svc.keeper.Epoch() != a.term ||
		time.Since(a.saved) >= noteAtLeast
}

// note writes how far this session's outcomes are announced: up to the second before the first that
// is not. One that has none to announce says so too, so that nobody has to look through all that
// others recorded while it lived.
func (a *announcer) note(ctx context.Context) {
	a.mu.Lock()
	a.follow(a.svc.keeper.Epoch())
	term, upTo := a.term, a.svc.opts.Clock.Now().Add(-announceEvery).UnixMilli()
	for second := range a.pending {
		upTo = min(upTo, second*1000-1)
	}
	if a.missed > 0 {
		upTo = min(upTo, a.missed-1)
	}
	a.noted, a.saved = max(a.noted, upTo), time.Now()
	a.mu.Unlock()
	if term == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	if err := a.svc.opts.Store.AckEvents(
		ctx,
		term.ID,
		store.OutcomePosition{FinishedMS: upTo},
	); err != nil {
		a.svc.log.Debug().Err(err).Msg("position of announcements not noted")
		a.mu.Lock()
		defer a.mu.Unlock()
		a.saved = time.Time{} // at the next tick again
	}
}

// publish announces what is kept here. An app that was not known when the outcome came is read, and
// so is what became of each target: the attempts before the last one were made by whoever had the
// fire then.
func (a *announcer) publish(ctx context.Context, es []event) error {
	msgs := make([]bus.Message, 0, len(es))
	var partial []timer.Outcome
	for i := range es {
		if es[i].app == "" || es[i].each {
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
func (a *announcer) send(ctx context.Context, os []timer.Outcome) error {
	call, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	msgs, err := announce.Messages(call, a.svc.opts.Store, os)
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	return a.deliver(ctx, msgs)
}

func (a *announcer) deliver(ctx context.Context, msgs []bus.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	//nolint:wrapcheck // the bus says which topic
	return a.svc.opts.Bus.Publish(ctx, bus.Outcomes, msgs...)
}
