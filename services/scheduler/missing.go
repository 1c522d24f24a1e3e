package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Limits of the search for missing fires. They bound its cost, whatever the number of timers.
const (
	missingTimeout  = 20 * time.Second
	missingTimers   = 50              // per search
	missingInstants = 50              // per timer
	missingRange    = 2 * time.Hour   // how far back a search looks
	missingDelay    = 2 * time.Minute // instants of the latest minutes are left to the next search
)

// findMissing searches for due instants without a fire and without an outcome. There are none if
// every other part does what it should. So a fire that was never made is found here, and not by a
// user.
//
// A search looks at the next timers in order of id, and at instants of each from a random place in
// the last hours on. Every scheduler searches by itself, from a random timer on. They share nothing,
// so nothing has to be agreed on. Two may count the same instant.
func (s *Service) findMissing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, missingTimeout)
	defer cancel()
	states, err := s.opts.Store.StatesAfter(ctx, s.nextMissing, missingTimers)
	if err != nil {
		return fmt.Errorf("listing timers: %w", err)
	}
	s.nextMissing = 0 // after the last timer, begin with the first
	if len(states) == missingTimers {
		s.nextMissing = states[missingTimers-1].ID
	}
	for i := range states {
		if err := s.findMissingOf(ctx, &states[i]); err != nil {
			return err
		}
	}
	return nil
}

// findMissingOf explains instants of a timer. The timer may be deleted meanwhile.
func (s *Service) findMissingOf(ctx context.Context, state *timer.State) error {
	if state.Status == timer.StatusDeleted {
		return nil
	}
	now := s.opts.Now()
	to := now.Add(-missingDelay).UnixMilli()
	from := max(to-missingRange.Milliseconds(), state.AnchorMS)
	if state.AnchorMS == 0 || from >= to {
		return nil // it was never active by then
	}
	from += rand.Int64N(to - from)
	facts, err := explain.Read(ctx, s.opts.Store, explain.Query{
		App: state.App, ID: state.ID, FromMS: from, ToMS: to, Limit: missingInstants,
		NowMS: now.UnixMilli(),
	})
	switch {
	case timer.CodeOf(err) == timer.CodeNotFound:
		return nil
	case err != nil:
		return fmt.Errorf("searching for missing fires of timer %s: %w", state.ID, err)
	}
	for _, a := range facts.Explain() {
		s.met.searched.Inc()
		if a.Code != explain.Missing {
			continue
		}
		s.met.missing.Inc()
		s.log.Error().
			Str("app", state.App).
			Str("timer", state.Name).
			Stringer("timer_id", state.ID).
			Time("due", time.UnixMilli(a.AtMS).UTC()).
			Int32("version", a.Version).
			Msg("a fire is missing: it was due, and there is neither a fire nor an outcome")
	}
	return nil
}
