package scheduler

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
)

// monitorSessions expires sessions that no longer renew. Executors recover their claims.
func (s *Service) monitorSessions(ctx context.Context) error {
	session.NewMonitor(s.opts.Store, s.heartbeater, s.log).
		Watch(ctx, func(_ context.Context, live, _ []store.Session, err error) {
			if err != nil {
				s.log.Debug().Err(err).Msg("sessions not monitored")
				return
			}
			s.gaugeSessions(live)
		})
	return nil
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
