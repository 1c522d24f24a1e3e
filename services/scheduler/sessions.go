package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
)

const (
	watchTimeout = 5 * time.Second
	// expiredWithin is how long ago a session may have ended whose claims are looked for at the start.
	expiredWithin = time.Hour
	// sessionsValidFor is how long the list of the living may be used.
	sessionsValidFor = 5 * time.Second
)

// monitorSessions ends silent sessions and dispatches what they had claimed. Dying between the two leaves it
// to the next scheduler that starts, or to the sweep.
func (s *Service) monitorSessions(ctx context.Context) error {
	s.recoverExpired(ctx)
	session.NewMonitor(s.opts.Store, s.heartbeater, s.log).
		Watch(ctx, func(ctx context.Context, live, ended []store.Session, err error) {
			if err != nil {
				s.log.Debug().Err(err).Msg("sessions not watched")
			} else {
				s.setSessions(live)
			}
			if err := s.recoverOrphans(ctx, ended); err != nil {
				s.log.Warn().Err(err).Msg("claims of an ended session left to the sweep")
			}
		})
	return nil
}

// recoverExpired dispatches what sessions that ended before this scheduler started still own: nobody
// may have been there to do it, as when everything is one process.
func (s *Service) recoverExpired(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	ended, err := s.opts.Store.ExpiredSessions(ctx, expiredWithin)
	if err == nil {
		err = s.recoverOrphans(ctx, ended)
	}
	if err != nil {
		s.log.Warn().Err(err).Msg("claims of ended sessions left to the sweep")
	}
}

func (s *Service) recoverOrphans(ctx context.Context, ended []store.Session) error {
	n, err := session.RecoverOrphans(ctx, s.opts.Store, s.opts.Dispatch, ended, s.opts.Now())
	s.met.orphansRecovered.Add(float64(n))
	return err //nolint:wrapcheck // it says what it was doing
}

func (s *Service) setSessions(live []store.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if executorLost(s.live, live) {
		s.unclaimed.executorLost.Set()
	}
	before := s.live
	s.live, s.liveAt = live, time.Now()
	if slices.EqualFunc(before, live, func(b, l store.Session) bool { return b.Kind == l.Kind }) {
		return
	}
	s.met.sessions.Reset()
	for _, l := range live {
		s.met.sessions.WithLabelValues(string(l.Kind)).Inc()
	}
}

// executorLost tells whether an executor that lived before lives no more, whoever ended it.
func executorLost(before, now []store.Session) bool {
	return slices.ContainsFunc(before, func(b store.Session) bool {
		return b.Kind == store.ExecutorSession &&
			!slices.ContainsFunc(now, func(n store.Session) bool { return n.ID == b.ID })
	})
}

func (s *Service) sessions() ([]store.Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live, !s.liveAt.IsZero() && time.Since(s.liveAt) < sessionsValidFor
}
