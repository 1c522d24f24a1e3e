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
	recoverTimeout  = 5 * time.Second
	confirmEvery    = time.Second
	ownedCheckEvery = 10 * time.Second // between looks without cause
	ownedCheckShare = 50               // a look takes no more than one part in so many of the time
	// past its run, before a claim is looked for in the hands without cause.
	ownedOverdueAfter    = 10 * time.Second
	ownedLimit           = 10_000
	maxUnconfirmedClaims = 250_000
)

// monitorSessions ends silent sessions and dispatches what they had claimed. Dying between the two leaves it
// to the sweep.
func (s *Service) monitorSessions(ctx context.Context) error {
	session.NewMonitor(s.opts.Store, s.heartbeater, s.log).
		Watch(ctx, func(ctx context.Context, live, ended []store.Session, err error) {
			if err != nil {
				s.log.Debug().Err(err).Msg("sessions not watched")
			} else {
				s.storePoller.alive.Store(&live)
			}
			if err := s.recoverOrphans(ctx, ended); err != nil {
				s.log.Warn().Err(err).Msg("claims of an ended session left to the sweep")
			}
		})
	return nil
}

// recoverOrphans publishes the open fires of ended sessions.
func (s *Service) recoverOrphans(ctx context.Context, ended []store.Session) error {
	n, err := session.RecoverOrphans(ctx, s.opts.Store, s.opts.Dispatch, ended, s.opts.Clock.Now())
	s.met.orphansRecovered.Add(float64(n))
	return err //nolint:wrapcheck // it says what it was doing
}

// unconfirmedClaims are fires of claims without an answer, which may be this executor's.
type unconfirmedClaims struct {
	mu    sync.Mutex
	fires []timer.Fire
}

func (d *unconfirmedClaims) add(fires []timer.Fire) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.fires) < maxUnconfirmedClaims {
		d.fires = append(d.fires, fires...)
	}
}

func (d *unconfirmedClaims) take() []timer.Fire {
	d.mu.Lock()
	defer d.mu.Unlock()
	fires := d.fires
	d.fires = nil
	return fires
}

// confirmClaims takes up claims of its own term that are not in hand: the claim's answer was lost after
// its commit. It claims again soon what is in doubt, for the task of such a fire may go to another
// executor, which finds it taken. Now and then it looks at what is overdue, the less often the
// longer that takes. What has just left the hands is gone from the store, or of another revision:
// the claim decides.
func (s *Service) confirmClaims(ctx context.Context) error {
	tick := time.NewTicker(confirmEvery)
	defer tick.Stop()
	next := time.Now().Add(ownedCheckEvery)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		epoch := s.heartbeater.Epoch()
		if epoch == nil {
			continue
		}
		if err := s.confirm(ctx, epoch, s.unconfirmedClaims.take()); err != nil {
			s.log.Debug().Err(err).Msg("claims still in doubt")
			continue
		}
		if time.Now().Before(next) {
			continue
		}
		began := time.Now()
		if err := s.confirmOverdue(ctx, epoch); err != nil {
			s.log.Debug().Err(err).Msg("own claims not looked through")
		}
		next = time.Now().Add(max(ownedCheckEvery, ownedCheckShare*time.Since(began)))
	}
}

// confirm claims what is in doubt. What meets an error is in doubt again.
func (s *Service) confirm(ctx context.Context, epoch *session.Epoch, fires []timer.Fire) error {
	for len(fires) > 0 {
		n := min(len(fires), store.MaxBatch)
		_, err := s.claim(ctx, epoch, fires[:n], sourceUnconfirmed)
		if fires = fires[n:]; err != nil {
			s.unconfirmedClaims.add(fires)
			return err
		}
	}
	return nil
}

func (s *Service) confirmOverdue(ctx context.Context, epoch *session.Epoch) error {
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	fires, err := s.opts.Store.Owned(
		ctx,
		[]timer.ID{epoch.ID},
		s.opts.Clock.Now().Add(-ownedOverdueAfter).UnixMilli(),
		ownedLimit,
	)
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	return s.confirm(ctx, epoch, fires)
}
