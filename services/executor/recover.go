package executor

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	watchEvery   = 250 * time.Millisecond
	watchTimeout = 5 * time.Second
	ownEvery     = 10 * time.Second
	ownAfter     = 10 * time.Second // past its run, before a claim is looked for in the hands
	ownLimit     = 10_000
)

// watch ends silent sessions and dispatches what they had claimed. Dying between the two leaves it to the sweep.
func (s *Service) watch(ctx context.Context) error {
	w := session.NewWatcher(s.opts.Store, s.log)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		call, cancel := context.WithTimeout(ctx, watchTimeout)
		_, ended, err := w.Look(call)
		if err != nil {
			s.log.Debug().Err(err).Msg("sessions not watched")
		}
		if err := s.inherit(call, ended); err != nil {
			s.log.Warn().Err(err).Msg("claims of an ended session left to the sweep")
		}
		cancel()
	}
}

// inherit publishes the open fires of ended sessions.
func (s *Service) inherit(ctx context.Context, ended []store.Session) error {
	fires, err := session.Estate(ctx, s.opts.Store, ended, s.opts.Clock.Now())
	if err != nil || len(fires) == 0 {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	s.met.inherited.Add(float64(len(fires)))
	return s.opts.Dispatch.Publish(ctx, fires) //nolint:wrapcheck // the dispatcher says what it was doing
}

// reclaim takes up claims of its own term that are overdue and not in hand: the claim's answer was lost after its commit. What
// has just left the hands is gone from the store, or of another revision: the claim decides.
func (s *Service) reclaim(ctx context.Context) error {
	tick := time.NewTicker(ownEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		term := s.keeper.Term()
		if term == nil {
			continue
		}
		call, cancel := context.WithTimeout(ctx, watchTimeout)
		until := s.opts.Clock.Now().Add(-ownAfter).UnixMilli()
		fires, err := s.opts.Store.Owned(call, []timer.ID{term.ID}, until, ownLimit)
		for len(fires) > 0 && err == nil {
			n := min(len(fires), store.MaxBatch)
			_, err = s.claim(call, term, fires[:n], s.opts.MaxHands)
			fires = fires[n:]
		}
		cancel()
		if err != nil {
			s.log.Debug().Err(err).Msg("own claims not looked through")
		}
	}
}
