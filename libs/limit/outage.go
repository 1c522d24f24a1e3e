package limit

import "time"

const (
	// While the shared state is unavailable for some apps only, the pause between attempts for them
	// doubles from unavailablePause up to maxUnavailablePause: each may hold up the others for the
	// timeout of a Sync.
	unavailablePause    = 250 * time.Millisecond
	maxUnavailablePause = 2 * time.Second
)

// outage is what the limiter knows of a shared state that is unavailable, for all apps or for some.
type outage struct {
	// whole means that no demand was answered since it last failed for another app than before. An
	// app that becomes active then counts as unavailable. An app that fails again and again says
	// nothing about others.
	whole bool
	pause time.Duration // between attempts for unavailable apps; 0 without an outage
	next  time.Time     // next attempt for them
	// executors is the largest number of executors known of any app, 0 until it is needed.
	executors int
}

// lose notes that the shared state is unavailable for an app.
func (l *Limiter) lose(a *app) {
	if a.unavailable {
		return
	}
	a.unavailable = true
	if a.answered {
		return
	}
	if l.outage.executors == 0 {
		for _, other := range l.apps {
			l.outage.executors = max(l.outage.executors, other.executors)
		}
	}
	a.executors = max(a.executors, l.outage.executors)
}

// failed notes for which apps a Sync failed, how many others it answered, and one of the errors.
func (l *Limiter) failed(apps []*app, answered int, err error, now time.Time) {
	more := false
	for _, a := range apps {
		more = more || !a.unavailable
		l.lose(a)
	}
	l.outage.whole = answered == 0 && (l.outage.whole || more)
	if len(apps) > 0 {
		l.metrics.errors.Inc()
		if l.outage.pause == 0 {
			l.opts.Logger.Warn().Err(err).Int("apps", len(apps)).Int("others", answered).
				Msg("shared limit state unavailable, each executor uses its part of the limits")
		}
		pause := unavailablePause
		if !l.outage.whole {
			pause = min(max(2*l.outage.pause, unavailablePause), maxUnavailablePause)
		}
		l.outage.pause, l.outage.next = pause, now.Add(pause)
		return
	}
	if l.outage.pause == 0 {
		return
	}
	for _, a := range l.active {
		if a.unavailable && a.limited() {
			return
		}
	}
	l.opts.Logger.Info().Msg("shared limit state recovered")
	l.outage = outage{}
}
