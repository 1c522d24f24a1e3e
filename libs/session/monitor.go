package session

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// blindAfter is how long a monitor may go without a successful poll before it blames the store
	// for missing renewals.
	blindAfter = time.Second
	// Grace replaces Timeout after an outage of the store, until the session is renewed once. Then
	// all processes reach the store at once, and renewals are late. A session lost during the
	// outage is detected later by that.
	Grace = 10 * time.Second

	watchTimeout = 5 * time.Second // of a poll and its handler
	justAfter    = time.Millisecond
)

// Monitor expires sessions that no longer renew. Any number of processes may monitor. Expiry is
// conditional on the observed renewal number, and exactly one process is told that it expired a
// session.
//
// An outage of the store stops all renewals. So a monitor that could not poll, or whose own session
// is not renewed or opened either, does not count that time and then grants Grace. Otherwise the
// first poll after an outage would expire every session, and every unrecorded call would be repeated.
type Monitor struct {
	store       store.Sessions
	heartbeater *Heartbeater // of this process's own session; nil: none
	log         zerolog.Logger
	observed    map[timer.ID]observation
	reused      map[timer.ID]observation // the map of the poll before, reused by the next
	lastLook    time.Time                // when the last successful poll ended
	// next is when the first alive session expires unless it is renewed.
	next time.Time
}

type observation struct {
	renewals int64
	since    time.Time
	timeout  time.Duration // after which the session expires
}

// NewMonitor returns a Monitor without observations, so a new monitor also waits for Timeout.
// heartbeater is of the process's own session, or nil.
func NewMonitor(st store.Sessions, heartbeater *Heartbeater, log zerolog.Logger) *Monitor {
	return &Monitor{
		store:       st,
		heartbeater: heartbeater,
		log:         log,
		observed:    make(map[timer.ID]observation),
		reused:      make(map[timer.ID]observation),
	}
}

// blind reports whether missing renewals may be the fault of the store.
func (w *Monitor) blind(asked time.Time) bool {
	if !w.lastLook.IsZero() && asked.Sub(w.lastLook) > blindAfter {
		return true
	}
	return w.heartbeater != nil && w.heartbeater.late()
}

// Watch polls until ctx ends and passes each result to handle. The context passed to handle has a
// timeout of a few seconds, counted from the poll.
func (w *Monitor) Watch(
	ctx context.Context,
	handle func(ctx context.Context, live, ended []store.Session, err error),
) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		call, cancel := context.WithTimeout(ctx, watchTimeout)
		live, ended, err := w.Look(call)
		handle(call, live, ended, err)
		cancel()
		at := began.Add(MonitorInterval)
		if w.next.Before(at) && w.next.After(began) {
			at = w.next
		}
		tick.Reset(time.Until(at))
	}
}

// Look polls the sessions once and expires those that no longer renew. It returns the alive ones
// and those that this call expired. It is not safe for concurrent use.
//
// A slow read shortens the measured time without renewal and never lengthens it. A renewal number
// counts as observed after its read returned, and as unchanged before the next read was sent.
func (w *Monitor) Look(ctx context.Context) (live, ended []store.Session, err error) {
	asked := time.Now()
	all, err := w.store.LiveSessions(ctx)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the store says what failed
	}
	got := time.Now()
	blind := w.blind(asked)
	w.lastLook, w.next = got, got.Add(Timeout)
	observed := w.reused
	clear(observed)
	live = make([]store.Session, 0, len(all))
	for _, s := range all {
		before, known := w.observed[s.ID]
		if !known || before.renewals != s.Renewals {
			before = observation{renewals: s.Renewals, since: got, timeout: Timeout}
		}
		if known && blind {
			before.since, before.timeout = got, Grace
		}
		observed[s.ID] = before
		if asked.Sub(before.since) < before.timeout {
			live = append(live, s)
			if over := before.since.Add(before.timeout + justAfter); over.Before(w.next) {
				w.next = over
			}
			continue
		}
		expiredHere, endErr := w.store.ExpireSession(ctx, s.ID, s.Renewals)
		if endErr != nil {
			err = endErr
			live = append(live, s)
			continue
		}
		if expiredHere {
			w.log.Warn().
				Int64("session", int64(s.ID)).
				Str("kind", string(s.Kind)).
				Str("name", s.Name).
				Msg("session expired")
			ended = append(ended, s)
		}
	}
	w.observed, w.reused = observed, w.observed
	return live, ended, err
}
