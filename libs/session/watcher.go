package session

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Watcher ends sessions that fell silent. Any number of processes may watch: ending is conditional on the renewal number seen,
// and exactly one of them is told that it ended a session.
type Watcher struct {
	store store.Sessions
	log   zerolog.Logger
	seen  map[timer.ID]sight
}

type sight struct {
	renewals int64
	since    time.Time
}

// NewWatcher returns a watcher that has seen nobody yet: whoever starts watching waits for Silence too.
func NewWatcher(st store.Sessions, log zerolog.Logger) *Watcher {
	return &Watcher{store: st, log: log, seen: make(map[timer.ID]sight)}
}

// Look reads the live sessions and ends the silent ones. It returns those that live on and those that this call ended. It is not
// safe for concurrent use.
//
// A read that takes long makes the stretch of silence seem shorter, never longer: a number counts as seen from after its read
// returned, and as unchanged from before the next read was sent.
func (w *Watcher) Look(ctx context.Context) (live, ended []store.Session, err error) {
	asked := time.Now()
	all, err := w.store.LiveSessions(ctx)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the store says what it was doing
	}
	got := time.Now()
	seen := make(map[timer.ID]sight, len(all))
	for _, s := range all {
		before, known := w.seen[s.ID]
		if !known || before.renewals != s.Renewals {
			seen[s.ID] = sight{renewals: s.Renewals, since: got}
			live = append(live, s)
			continue
		}
		seen[s.ID] = before
		if asked.Sub(before.since) < Silence {
			live = append(live, s)
			continue
		}
		mine, endErr := w.store.EndSession(ctx, s.ID, s.Renewals)
		if endErr != nil {
			err = endErr
			live = append(live, s)
			continue
		}
		if mine {
			w.log.Warn().Int64("session", int64(s.ID)).Str("kind", string(s.Kind)).Str("name", s.Name).Msg("silent session ended")
			ended = append(ended, s)
		}
	}
	w.seen = seen
	return live, ended, err
}
