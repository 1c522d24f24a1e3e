package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/announce"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	eventsEvery   = 5 * time.Second
	eventsTimeout = 30 * time.Second
	// settleAfter is how long after a session's end what it had under way may be committed: only
	// then its outcomes are all there.
	settleAfter = 30 * time.Second
	// eventsWindow bounds what one statement passes by, which is what all sessions recorded in
	// it.
	eventsWindow = time.Minute
	eventsMaxAge = time.Hour // nothing older is announced
)

// expiredSession is a session that ended and may not have announced everything.
type expiredSession struct {
	since     time.Time // first
	published bool      // what was there then is announced
}

// publishEvents publishes outcomes that nobody else will: of executors that ended before they had, and
// those that no executor recorded. Two schedulers at once publish them twice, which whoever listens
// has to bear in any case; dying between the publication and the note of it, too.
func (s *Service) publishEvents(ctx context.Context) error {
	found := make(map[timer.ID]*expiredSession)
	return every(ctx, eventsEvery, func() {
		call, cancel := context.WithTimeout(ctx, eventsTimeout)
		defer cancel()
		if err := s.publishPending(call, found); err != nil {
			s.reportError(ctx, err, "outcomes not announced")
		}
	})
}

// publishPending goes through all of them: what cannot be announced of one keeps no other from it.
func (s *Service) publishPending(ctx context.Context, found map[timer.ID]*expiredSession) error {
	ended, err := s.opts.Store.SessionsWithPendingEvents(ctx)
	if err != nil {
		return fmt.Errorf("looking for outcomes to announce: %w", err)
	}
	for id := range found {
		if _, ok := ended[id]; !ok { // another scheduler was done first
			delete(found, id)
		}
	}
	var errs error
	for id, at := range ended {
		if id == store.SystemSession {
			errs = errors.Join(
				errs,
				s.publishSession(ctx, id, at, s.opts.Now().Add(-store.VisibilityDelay), true),
			)
			continue
		}
		if found[id] == nil {
			found[id] = &expiredSession{since: time.Now()}
		}
		errs = errors.Join(errs, s.publishExpired(ctx, id, at, found[id]))
	}
	return errs
}

// publishExpired announces what a session left: at once what is there, and all of it again when
// nothing can come any more. The position moves only then, for what comes late may have finished
// before what was there.
func (s *Service) publishExpired(
	ctx context.Context,
	id timer.ID,
	at store.OutcomePosition,
	x *expiredSession,
) error {
	last := time.Since(x.since) > settleAfter
	if x.published && !last {
		return nil
	}
	// Its clock may have been ahead of the store's.
	if err := s.publishSession(ctx, id, at, s.opts.Now().Add(eventsWindow), last); err != nil {
		return err
	}
	if x.published = true; !last {
		return nil
	}
	if err := s.opts.Store.FinishEvents(ctx, id); err != nil {
		return fmt.Errorf("ending the announcements of session %d: %w", id, err)
	}
	return nil
}

// publishSession publishes what a session recorded behind a position and finished before an instant,
// and notes how far it is if it shall.
func (s *Service) publishSession(
	ctx context.Context,
	id timer.ID,
	at store.OutcomePosition,
	end time.Time,
	ack bool,
) error {
	if from := end.Add(-eventsMaxAge).UnixMilli(); at.FinishedMS < from {
		at = store.OutcomePosition{FinishedMS: from}
	}
	for at.FinishedMS < end.UnixMilli() {
		until := min(at.FinishedMS+eventsWindow.Milliseconds(), end.UnixMilli())
		page, err := s.opts.Store.PendingEvents(ctx, id, at, until, store.MaxBatch)
		if err != nil {
			return fmt.Errorf("reading outcomes of session %d: %w", id, err)
		}
		if err := s.publishOutcomes(ctx, page); err != nil {
			return err
		}
		if at = (store.OutcomePosition{FinishedMS: until}); len(page) == store.MaxBatch {
			last := &page[len(page)-1]
			at = store.OutcomePosition{FinishedMS: last.FinishedMS, FireID: last.FireID}
		}
		if !ack {
			continue
		}
		if err := s.opts.Store.AckEvents(ctx, id, at); err != nil {
			return fmt.Errorf("noting the announcements of session %d: %w", id, err)
		}
	}
	return nil
}

func (s *Service) publishOutcomes(ctx context.Context, os []timer.Outcome) error {
	msgs, err := announce.Messages(ctx, s.opts.Store, os)
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	if len(msgs) == 0 {
		return nil
	}
	//nolint:wrapcheck // the bus says which topic
	return s.opts.Bus.Publish(ctx, bus.Outcomes, msgs...)
}
