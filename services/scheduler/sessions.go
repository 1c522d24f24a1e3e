package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
)

// sessionsKnownFor is how long the count of alive sessions is shown after it was last read. Errors
// that pass sooner do not show.
const sessionsKnownFor = 10 * time.Second

// monitorSessions expires sessions that no longer renew. Executors recover their claims.
func (s *Service) monitorSessions(ctx context.Context) error {
	read := time.Now()
	session.NewMonitor(s.opts.Store, s.heartbeater, s.log).
		Watch(ctx, func(_ context.Context, live, _ []store.Session, err error) {
			if err != nil {
				s.log.Debug().Err(err).Msg("sessions not monitored")
				// A count kept through an outage of MySQL would say that executors are alive.
				if time.Since(read) >= sessionsKnownFor {
					s.gaugeSessions(nil)
				}
				return
			}
			read = time.Now()
			s.gaugeSessions(live)
		})
	return nil
}

// gaugeSessions counts the alive sessions by kind. Without any, the gauge has no series.
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
