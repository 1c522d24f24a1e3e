package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/outcomeevent"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	eventsEvery   = 5 * time.Second
	eventsTimeout = 30 * time.Second
	// pageTimeout is how long a topic may take for a page: one that cannot be published to hangs.
	pageTimeout = 10 * time.Second
	// settleAfter is how long after a session's expiry its transactions may still be sent to commit.
	// Once a write that was sent later has succeeded, all its outcomes are visible.
	settleAfter = 30 * time.Second
	// eventsWindow bounds the time range of one statement, which reads past the outcomes of all
	// sessions in it.
	eventsWindow = time.Minute
	eventsMaxAge = time.Hour // older outcomes are not published
)

// expiredSession is an expired session that may have unpublished outcomes.
type expiredSession struct {
	since     time.Time // when it was first found
	published bool      // the outcomes found at first are published
	last      bool      // the present pass is the last one
	passes    [2]pass
}

// topicsAway tells which topics, in the order of passes, did not take a page in this round. They are
// not tried for other sessions, so that one that hangs takes the time of one.
type topicsAway [2]atomic.Bool

var errTopicAway = errors.New("the topic did not take the outcomes of another session")

// pass is how far one topic has the outcomes of a session. Neither topic waits for the other.
type pass struct {
	topic bus.Topic
	at    store.OutcomePosition // zero: where the session has acknowledged
	done  bool
}

func newPasses() (passes [2]pass) {
	for i, topic := range outcomeevent.Topics() {
		passes[i].topic = topic
	}
	return passes
}

// reached returns the position up to which both topics have the outcomes between two.
func (x *expiredSession) reached(from, end store.OutcomePosition) store.OutcomePosition {
	out := end
	for i := range x.passes {
		switch p := &x.passes[i]; {
		case p.done:
		case p.at == store.OutcomePosition{}:
			return from
		case p.at.Before(out):
			out = p.at
		}
	}
	return out
}

// publishEvents publishes the outcomes that no executor will: those left by expired executors, and
// those that no executor recorded. Two schedulers at once, or a crash before the acknowledgement,
// publish them twice, which consumers must accept anyway.
func (s *Service) publishEvents(ctx context.Context) error {
	found := make(map[timer.ID]*expiredSession)
	return every(ctx, eventsEvery, func() {
		call, cancel := context.WithTimeout(ctx, eventsTimeout)
		defer cancel()
		if err := s.publishPending(call, found); err != nil {
			s.reportError(ctx, err, "outcomes not published")
		}
	})
}

// publishPending handles every session with pending events. An error of one does not stop the
// others. Where the time ends after a part of a session's outcomes is acknowledged, the next round
// goes on from there, which is no error.
func (s *Service) publishPending(ctx context.Context, found map[timer.ID]*expiredSession) error {
	ended, err := s.opts.Store.SessionsWithPendingEvents(ctx)
	if err != nil {
		return fmt.Errorf("reading sessions with pending outcome events: %w", err)
	}
	for id := range found {
		if _, ok := ended[id]; !ok { // another scheduler has finished it
			delete(found, id)
		}
	}
	var errs error
	away := new(topicsAway)
	for id, at := range ended {
		if ctx.Err() != nil {
			break // the next round has the others, in another order
		}
		var acked bool
		if id == store.SystemSession {
			// Commits may stall while reads go on: an outcome is visible VisibilityDelay after its end
			// only where a later write has succeeded. Before the first one, nothing is known.
			written := s.heartbeater.Written()
			if written.IsZero() {
				continue
			}
			end := s.opts.Now().Add(-time.Since(written) - store.VisibilityDelay)
			x := &expiredSession{passes: newPasses()}
			for i := range x.passes { // it has no failed fire
				x.passes[i].done = x.passes[i].topic == bus.TasksDead
			}
			acked, err = s.publishSession(ctx, id, at, end, true, x, away)
		} else {
			if found[id] == nil {
				found[id] = &expiredSession{since: time.Now(), passes: newPasses()}
			}
			acked, err = s.publishExpired(ctx, id, at, found[id], away)
		}
		if !isPartial(ctx, acked) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// publishExpired publishes what an expired session left: at once what is visible, and all of it
// again once no more can commit. Only then does the position move, because late commits may have
// finished before outcomes seen earlier.
func (s *Service) publishExpired(
	ctx context.Context,
	id timer.ID,
	at store.OutcomePosition,
	x *expiredSession,
	away *topicsAway,
) (acked bool, err error) {
	last := s.heartbeater.Written().Sub(x.since) > settleAfter
	if x.published && !last {
		return false, nil
	}
	if last && !x.last {
		// Outcomes may have been committed behind where an earlier pass has come to.
		x.last, x.passes = true, newPasses()
	}
	// The session's clock may have been ahead of the store's, or the store's own before it was set
	// back: then its outcomes are a little later than its position.
	end := s.opts.Now()
	if position := time.UnixMilli(at.FinishedMS); position.After(end) {
		end = position
	}
	end = end.Add(eventsWindow)
	if acked, err = s.publishSession(ctx, id, at, end, last, x, away); err != nil {
		return acked, err
	}
	x.passes = newPasses()
	if x.published = true; !last {
		return acked, nil
	}
	if err := s.opts.Store.FinishEvents(ctx, id); err != nil {
		return acked, fmt.Errorf("finishing the outcome events of session %d: %w", id, err)
	}
	return acked, nil
}

// publishSession publishes the outcomes of a session after a position and before end, on each topic
// from where its pass has come to. If ack is set, it acknowledges what both topics have, and returns
// whether it has acknowledged any.
func (s *Service) publishSession(
	ctx context.Context,
	id timer.ID,
	at store.OutcomePosition,
	end time.Time,
	ack bool,
	x *expiredSession,
	away *topicsAway,
) (acked bool, err error) {
	from := at
	if oldest := end.Add(-eventsMaxAge).UnixMilli(); from.FinishedMS < oldest {
		from = store.OutcomePosition{FinishedMS: oldest}
	}
	var mu sync.Mutex // of the passes, and of what is acknowledged
	advance := func(p *pass, to store.OutcomePosition, done bool) error {
		mu.Lock()
		p.at, p.done = to, done
		reached := x.reached(at, store.OutcomePosition{FinishedMS: end.UnixMilli()})
		further := at.Before(reached)
		mu.Unlock()
		if !ack || !further {
			return nil
		}
		// Both topics may do so at once: a position never moves back.
		if err := s.opts.Store.AckEvents(ctx, id, reached); err != nil {
			return fmt.Errorf("acknowledging the outcome events of session %d: %w", id, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if acked = true; at.Before(reached) {
			at = reached
		}
		return nil
	}
	var errs [2]error
	var topics sync.WaitGroup
	for i := range x.passes {
		switch p := &x.passes[i]; {
		case p.done:
		case away[i].Load():
			errs[i] = errTopicAway
		default:
			topics.Go(func() { errs[i] = s.publishTopic(ctx, id, from, end, p, advance, &away[i]) })
		}
	}
	topics.Wait()
	return acked, errors.Join(errs[:]...)
}

// publishTopic carries on the pass of one topic. A repeated call goes on where it was, so it repeats
// nothing but the page that was not published.
func (s *Service) publishTopic(
	ctx context.Context,
	id timer.ID,
	at store.OutcomePosition,
	end time.Time,
	p *pass,
	advance func(p *pass, to store.OutcomePosition, done bool) error,
	away *atomic.Bool,
) error {
	if at.Before(p.at) {
		at = p.at
	}
	for at.FinishedMS < end.UnixMilli() {
		until := min(at.FinishedMS+eventsWindow.Milliseconds(), end.UnixMilli())
		page, err := s.opts.Store.PendingEvents(ctx, id, at, until, store.MaxBatch)
		if err != nil {
			return fmt.Errorf("reading outcomes of session %d: %w", id, err)
		}
		if at = (store.OutcomePosition{FinishedMS: until}); len(page) == store.MaxBatch {
			last := &page[len(page)-1]
			at = store.OutcomePosition{FinishedMS: last.FinishedMS, FireID: last.FireID}
		}
		events, err := outcomeevent.Read(ctx, s.opts.Store, p.topic, page)
		if err != nil {
			return err //nolint:wrapcheck // already wrapped
		}
		call, cancel := context.WithTimeout(ctx, pageTimeout)
		err = outcomeevent.Publish(call, s.opts.Bus, p.topic, events)
		cancel()
		if err != nil {
			away.Store(true)
			return err //nolint:wrapcheck // the bus names the topic
		}
		if err := advance(p, at, false); err != nil {
			return err
		}
		if id == store.SystemSession { // executors have logged theirs
			s.logSkips(events)
		}
	}
	return advance(p, at, true)
}

// logSkips logs fires that no executor recorded as skipped, with the words of executors. Of many at
// once it logs some; the events have all.
func (s *Service) logSkips(events []outcomeevent.Event) {
	for _, e := range events {
		o := e.Outcome
		if o.Kind != timer.Skipped {
			continue
		}
		s.skips.Info().
			Str(logging.App, e.App).
			Str(logging.TimerName, e.Timer).
			Stringer(logging.Timer, o.Timer).
			Stringer(logging.Fire, o.FireID).
			Str(logging.Reason, string(o.Reason)).
			Int64(logging.Count, o.Count).
			Msg(logging.FireSkipped)
	}
}
