package executor

import (
	"context"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	watchTimeout = 5 * time.Second
	reclaimEvery = time.Second
	ownEvery     = 10 * time.Second // between looks without cause
	ownShare     = 50               // a look takes no more than one part in so many of the time
	// past its run, before a claim is looked for in the hands without cause.
	ownAfter  = 10 * time.Second
	ownLimit  = 10_000
	maxDoubts = 250_000
)

// watch ends silent sessions and dispatches what they had claimed. Dying between the two leaves it
// to the sweep.
func (s *Service) watch(ctx context.Context) error {
	session.NewMonitor(s.opts.Store, s.keeper, s.log).
		Watch(ctx, func(ctx context.Context, live, ended []store.Session, err error) {
			if err != nil {
				s.log.Debug().Err(err).Msg("sessions not watched")
			} else {
				s.bypass.living.Store(&live)
			}
			if err := s.inherit(ctx, ended); err != nil {
				s.log.Warn().Err(err).Msg("claims of an ended session left to the sweep")
			}
		})
	return nil
}

// inherit publishes the open fires of ended sessions.
func (s *Service) inherit(ctx context.Context, ended []store.Session) error {
	n, err := session.RecoverOrphans(ctx, s.opts.Store, s.opts.Dispatch, ended, s.opts.Clock.Now())
	s.met.inherited.Add(float64(n))
	return err //nolint:wrapcheck // it says what it was doing
}

// doubts are fires of claims without an answer, which may be this executor's.
type doubts struct {
	mu    sync.Mutex
	fires []timer.Fire
}

func (d *doubts) add(fires []timer.Fire) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.fires) < maxDoubts {
		d.fires = append(d.fires, fires...)
	}
}

func (d *doubts) take() []timer.Fire {
	d.mu.Lock()
	defer d.mu.Unlock()
	fires := d.fires
	d.fires = nil
	return fires
}

// reclaim takes up claims of its own term that are not in hand: the claim's answer was lost after
// its commit. It claims again soon what is in doubt, for the task of such a fire may go to another
// executor, which finds it taken. Now and then it looks at what is overdue, the less often the
// longer that takes. What has just left the hands is gone from the store, or of another revision:
// the claim decides.
func (s *Service) reclaim(ctx context.Context) error {
	tick := time.NewTicker(reclaimEvery)
	defer tick.Stop()
	next := time.Now().Add(ownEvery)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		term := s.keeper.Epoch()
		if term == nil {
			continue
		}
		if err := s.claimAgain(ctx, term, s.doubts.take()); err != nil {
			s.log.Debug().Err(err).Msg("claims still in doubt")
			continue
		}
		if time.Now().Before(next) {
			continue
		}
		began := time.Now()
		if err := s.claimOverdue(ctx, term); err != nil {
			s.log.Debug().Err(err).Msg("own claims not looked through")
		}
		next = time.Now().Add(max(ownEvery, ownShare*time.Since(began)))
	}
}

// claimAgain claims what is in doubt. What meets an error is in doubt again.
func (s *Service) claimAgain(ctx context.Context, term *session.Epoch, fires []timer.Fire) error {
	for len(fires) > 0 {
		n := min(len(fires), store.MaxBatch)
		_, err := s.claim(ctx, term, fires[:n], byDoubt)
		if fires = fires[n:]; err != nil {
			s.doubts.add(fires)
			return err
		}
	}
	return nil
}

func (s *Service) claimOverdue(ctx context.Context, term *session.Epoch) error {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	fires, err := s.opts.Store.Owned(
		ctx,
		[]timer.ID{term.ID},
		s.opts.Clock.Now().Add(-ownAfter).UnixMilli(),
		ownLimit,
	)
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	return s.claimAgain(ctx, term, fires)
}
