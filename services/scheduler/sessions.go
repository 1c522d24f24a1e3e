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
	// expiredWithin is how far back a starting scheduler looks for expired sessions with claims.
	expiredWithin = time.Hour
	// sessionsValidFor is how long the list of alive sessions may be used.
	sessionsValidFor = 5 * time.Second
)

// monitorSessions expires sessions that no longer renew and dispatches their claims. If this
// process dies in between, the next scheduler to start or the sweep does.
func (s *Service) monitorSessions(ctx context.Context) error {
	s.recoverExpired(ctx)
	session.NewMonitor(s.opts.Store, s.heartbeater, s.log).
		Watch(ctx, func(ctx context.Context, live, ended []store.Session, err error) {
			if err != nil {
				s.log.Debug().Err(err).Msg("sessions not monitored")
			} else {
				s.setSessions(live)
			}
			if err := s.recoverOrphans(ctx, ended); err != nil {
				s.log.Warn().
					Err(err).
					Msg("claims of expired sessions not dispatched, left to the sweep")
			}
		})
	return nil
}

// recoverExpired dispatches the claims of sessions that expired before this scheduler started.
// Nobody may have been running to do so, for example in a single process.
func (s *Service) recoverExpired(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	ended, err := s.opts.Store.ExpiredSessions(ctx, expiredWithin)
	if err == nil {
		err = s.recoverOrphans(ctx, ended)
	}
	if err != nil {
		s.log.Warn().Err(err).Msg("claims of expired sessions not dispatched, left to the sweep")
	}
}

func (s *Service) recoverOrphans(ctx context.Context, ended []store.Session) error {
	n, err := session.RecoverOrphans(ctx, s.opts.Store, s.opts.Dispatch, ended, s.opts.Now())
	s.met.recovered.WithLabelValues(session.CauseExpiredSession).Add(float64(n))
	return err //nolint:wrapcheck // already wrapped
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

// executorLost reports whether an executor in before is missing in now, whichever process expired
// it.
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
