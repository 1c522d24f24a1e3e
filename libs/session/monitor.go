package session

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// blindAfter is how long a watcher may be without a successful look before it takes silence for
	// the store's fault.
	blindAfter = time.Second
	// Grace is how long a session may stay silent after such a time, until it is renewed once:
	// everybody comes back to the store at once then, and the renewals with them. Who died
	// meanwhile is noticed so much later.
	Grace = 10 * time.Second

	watchTimeout = 5 * time.Second // of a look, and of what is done about those that it ended
	justAfter    = time.Millisecond
)

// Monitor ends sessions that fell silent. Any number of processes may watch: ending is conditional
// on the renewal number seen, and exactly one of them is told that it ended a session.
//
// A store that is away silences everybody. So a watcher that could not look, or whose own session
// is not renewed either, judges nobody by that time, and is patient after it: else the first look
// at a store that is back would end all sessions, and every answer that waits to be recorded would
// be a call made twice.
type Monitor struct {
	store       store.Sessions
	heartbeater *Heartbeater // nil: none
	log         zerolog.Logger
	observed    map[timer.ID]observation
	reused      map[timer.ID]observation // that of the look before, to be filled by the next
	lastLook    time.Time                // when the last look that succeeded was over
	// when the first of those that live on will have been silent for too long, unless they are
	// renewed.
	next time.Time
}

type observation struct {
	renewals int64
	since    time.Time
	timeout  time.Duration // that ends the session
}

// NewMonitor returns a watcher that has seen nobody yet: whoever starts watching waits for Silence
// too. own is the keeper of its process's own session, if it has one.
func NewMonitor(st store.Sessions, heartbeater *Heartbeater, log zerolog.Logger) *Monitor {
	return &Monitor{
		store:       st,
		heartbeater: heartbeater,
		log:         log,
		observed:    make(map[timer.ID]observation),
		reused:      make(map[timer.ID]observation),
	}
}

// blind tells whether the silence that this watcher has seen may be the store's.
func (w *Monitor) blind(asked time.Time) bool {
	if !w.lastLook.IsZero() && asked.Sub(w.lastLook) > blindAfter {
		return true
	}
	if w.heartbeater == nil {
		return false
	}
	t := w.heartbeater.Epoch()
	return t != nil && !t.Valid()
}

// Watch looks until ctx ends, and hands each look on. The context that it hands on with it ends
// after a few seconds.
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

// Look reads the live sessions and ends the silent ones. It returns those that live on and those
// that this call ended. It is not safe for concurrent use.
//
// A read that takes long makes the stretch of silence seem shorter, never longer: a number counts
// as seen from after its read returned, and as unchanged from before the next read was sent.
func (w *Monitor) Look(ctx context.Context) (live, ended []store.Session, err error) {
	asked := time.Now()
	all, err := w.store.LiveSessions(ctx)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the store says what it was doing
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
				Msg("silent session ended")
			ended = append(ended, s)
		}
	}
	w.observed, w.reused = observed, w.observed
	return live, ended, err
}
