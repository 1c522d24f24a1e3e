package delivery

import (
	"errors"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/lookup"
)

// calendarRetry is the time between reads of the calendars of a successor.
const calendarRetry = 200 * time.Millisecond

func (d *Deliverer) outcome(
	e *inflight.Entry,
	kind timer.OutcomeKind,
	reason timer.Reason,
) timer.Outcome {
	now := d.opts.Clock.Now().UnixMilli()
	return timer.Outcome{
		Fire:       e.Fire,
		Kind:       kind,
		Reason:     reason,
		FinishedMS: now,
		UntilMS:    e.Fire.DueMS,
		Count:      1,
		Attempts:   e.Fire.Attempt,
		LatenessMS: e.Fire.FirstLatenessMS,
		Hops:       e.Hops(now),
	}
}

// end records an outcome, with what its record triggers: the slot passed on, and the successor of a
// fixed delay.
func (d *Deliverer) end(e *inflight.Entry, o timer.Outcome, attempts ...timer.Attempt) {
	if e.Def != nil {
		o.Serial = e.Concurrency().Policy != timer.ConcurrencyAllow
	}
	if e.Def == nil || !e.Serial() {
		d.opts.Recorder.End(o, e, attempts...)
		return
	}
	calendars, ok := d.opts.Calendars.Cached(e.App, e.Def.Schedule.Calendars)
	if ok {
		d.endSerial(e, o, attempts, calendars)
		return
	}
	d.ending.Add(1)
	d.endLater(e, o, attempts)
}

// endLater records an outcome once it has the calendars of the successor. It retries until it has,
// because a fixed delay must not stop while the store is unavailable. The outcome needs the store
// in any case. After a crash meanwhile the call is repeated, as with any unrecorded outcome.
func (d *Deliverer) endLater(e *inflight.Entry, o timer.Outcome, attempts []timer.Attempt) {
	q := cache.CalendarQuestion{App: e.App, Names: e.Def.Schedule.Calendars}
	d.opts.ReadCalendars.Ask(e.Fire.AppID, e.Priority(), q,
		func(a lookup.Answer[[]timer.Calendar]) {
			switch {
			case a.Err == nil:
				d.endSerial(e, o, attempts, a.Value)
			case e.Epoch.Context().Err() != nil, errors.Is(a.Err, lookup.ErrClosed):
				// Without the calendars the fixed delay would stop. The next owner calls again.
				d.opts.Inflight.Remove(e)
			default:
				d.opts.Logger.Warn().Func(d.opts.Traces.About(e)).
					Err(a.Err).
					Msg("calendars not read, successor delayed")
				time.AfterFunc(calendarRetry, func() { d.endLater(e, o, attempts) })
				return
			}
			d.ending.Add(-1)
		})
}

func (d *Deliverer) endSerial(
	e *inflight.Entry,
	o timer.Outcome,
	attempts []timer.Attempt,
	calendars []timer.Calendar,
) {
	next, err := d.opts.Planner.Successor(&e.Fire, e.Def, calendars, o.FinishedMS)
	if err != nil {
		d.opts.Logger.Error().Func(d.opts.Traces.About(e)).
			Err(err).
			Msg("fixed delay stopped: successor cannot be planned")
	} else {
		o.Next = next
	}
	d.opts.Recorder.End(o, e, attempts...)
}
