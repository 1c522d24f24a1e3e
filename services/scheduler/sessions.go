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
				s.gaugeSessions(live)
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

// gaugeSessions counts the alive sessions by kind.
func (s *Service) gaugeSessions(live []store.Session) {
	kinds := make([]store.SessionKind, len(live))
	for i, l := range live {
		kinds[i] = l.Kind
	}
	if slices.Equal(kinds, s.kinds) {
		return
	}
	s.kinds = kinds
	s.met.sessions.Reset()
	for _, k := range kinds {
		s.met.sessions.WithLabelValues(string(k)).Inc()
	}
}
