package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/outcomeevent"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	eventsEvery   = 5 * time.Second
	eventsTimeout = 30 * time.Second
	// settleAfter is how long after a session's expiry its transactions may still commit. Only then
	// are all its outcomes visible.
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

	// at is how far the present pass has come. page is what it publishes there, nil if that is not
	// read yet, and next the position behind it. A round that could not publish all of a page leaves
	// it to the next one, so what one topic has is not repeated for the other.
	at   store.OutcomePosition
	page *outcomeevent.Page
	next store.OutcomePosition
}

// restart begins another pass.
func (x *expiredSession) restart() {
	x.at, x.page, x.next = store.OutcomePosition{}, nil, store.OutcomePosition{}
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
	for id, at := range ended {
		if ctx.Err() != nil {
			break // the next round has the others, in another order
		}
		var acked bool
		if id == store.SystemSession {
			end := s.opts.Now().Add(-store.VisibilityDelay)
			acked, err = s.publishSession(ctx, id, at, end, true, new(expiredSession))
		} else {
			if found[id] == nil {
				found[id] = &expiredSession{since: time.Now()}
			}
			acked, err = s.publishExpired(ctx, id, at, found[id])
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
) (acked bool, err error) {
	last := time.Since(x.since) > settleAfter
	if x.published && !last {
		return false, nil
	}
	if last &&
		!x.last { // outcomes may have been committed behind where an earlier pass has come to
		x.last = true
		x.restart()
	}
	// The session's clock may have been ahead of the store's.
	end := s.opts.Now().Add(eventsWindow)
	if acked, err = s.publishSession(ctx, id, at, end, last, x); err != nil {
		return acked, err
	}
	x.restart()
	if x.published = true; !last {
		return acked, nil
	}
	if err := s.opts.Store.FinishEvents(ctx, id); err != nil {
		return acked, fmt.Errorf("finishing the outcome events of session %d: %w", id, err)
	}
	return acked, nil
}

// publishSession publishes the outcomes of a session after a position and before end, from where x
// has come to. If ack is set, it acknowledges each position, and returns whether it has acknowledged
// any.
func (s *Service) publishSession(
	ctx context.Context,
	id timer.ID,
	at store.OutcomePosition,
	end time.Time,
	ack bool,
	x *expiredSession,
) (acked bool, err error) {
	if x.at.FinishedMS > at.FinishedMS {
		at = x.at
	}
	if from := end.Add(-eventsMaxAge).UnixMilli(); at.FinishedMS < from {
		at = store.OutcomePosition{FinishedMS: from}
	}
	for x.page != nil || at.FinishedMS < end.UnixMilli() {
		if x.page == nil {
			if err := s.readPage(ctx, id, at, end, x); err != nil {
				return acked, err
			}
		}
		if err := x.page.Publish(ctx, s.opts.Bus); err != nil {
			return acked, err //nolint:wrapcheck // the bus names the topic
		}
		events := x.page.Events
		at = x.next
		x.at, x.page = at, nil
		if !ack {
			continue
		}
		if err := s.opts.Store.AckEvents(ctx, id, at); err != nil {
			return acked, fmt.Errorf("acknowledging the outcome events of session %d: %w", id, err)
		}
		acked = true
		if id == store.SystemSession { // executors have logged theirs
			s.logSkips(events)
		}
	}
	return acked, nil
}

// readPage reads the next page of outcomes of a session.
func (s *Service) readPage(
	ctx context.Context, id timer.ID, at store.OutcomePosition, end time.Time, x *expiredSession,
) error {
	until := min(at.FinishedMS+eventsWindow.Milliseconds(), end.UnixMilli())
	page, err := s.opts.Store.PendingEvents(ctx, id, at, until, store.MaxBatch)
	if err != nil {
		return fmt.Errorf("reading outcomes of session %d: %w", id, err)
	}
	events, err := outcomeevent.Events(ctx, s.opts.Store, page)
	if err != nil {
		return err //nolint:wrapcheck // already wrapped
	}
	x.page, x.next = &outcomeevent.Page{Events: events}, store.OutcomePosition{FinishedMS: until}
	if len(page) == store.MaxBatch {
		last := &page[len(page)-1]
		x.next = store.OutcomePosition{FinishedMS: last.FinishedMS, FireID: last.FireID}
	}
	return nil
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
