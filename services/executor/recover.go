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
	reclaimEvery = time.Second
	ownEvery     = 10               // reclaimEverys between looks without cause
	ownAfter     = 10 * time.Second // past its run, before a claim is looked for in the hands without cause
	ownAhead     = time.Minute      // of its run, after a claim that failed
	ownLimit     = 300_000
)

// watch ends silent sessions and dispatches what they had claimed. Dying between the two leaves it to the sweep.
func (s *Service) watch(ctx context.Context) error {
	w := session.NewWatcher(s.opts.Store, s.keeper, s.log)
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
		if err := s.inherit(ctx, ended); err != nil {
			s.log.Warn().Err(err).Msg("claims of an ended session left to the sweep")
		}
		cancel()
	}
}

// inherit publishes the open fires of ended sessions.
func (s *Service) inherit(ctx context.Context, ended []store.Session) error {
	n, err := session.Inherit(ctx, s.opts.Store, s.opts.Dispatch, ended, s.opts.Clock.Now())
	s.met.inherited.Add(float64(n))
	return err //nolint:wrapcheck // it says what it was doing
}

// reclaim takes up claims of its own term that are not in hand: the claim's answer was lost after its commit. It looks soon after a
// claim that failed, and now and then at what is overdue. What has just left the hands is gone from the store, or of another
// revision: the claim decides.
func (s *Service) reclaim(ctx context.Context) error {
	tick := time.NewTicker(reclaimEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		until := s.opts.Clock.Now().Add(-ownAfter)
		switch {
		case s.claimFailed.Swap(false):
			until = until.Add(ownAfter + ownAhead)
		case n%ownEvery != 0:
			continue
		}
		if err := s.reclaimUntil(ctx, until.UnixMilli()); err != nil {
			s.claimFailed.Store(true)
			s.log.Debug().Err(err).Msg("own claims not looked through")
		}
	}
}

func (s *Service) reclaimUntil(ctx context.Context, untilMS int64) error {
	term := s.keeper.Term()
	if term == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	fires, err := s.opts.Store.Owned(ctx, []timer.ID{term.ID}, untilMS, ownLimit)
	for len(fires) > 0 && err == nil {
		n := min(len(fires), store.MaxBatch)
		_, err = s.claim(ctx, term, fires[:n], false)
		fires = fires[n:]
	}
	return err //nolint:wrapcheck // the store says what it was doing
}
