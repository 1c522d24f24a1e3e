package executor

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

func (s *Service) outcome(
	e *inflight.Entry,
	kind timer.OutcomeKind,
	reason timer.Reason,
) timer.Outcome {
	now := s.opts.Clock.Now().UnixMilli()
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
func (s *Service) end(e *inflight.Entry, o timer.Outcome, attempts ...timer.Attempt) {
	if e.Def != nil {
		o.Serial = e.Concurrency().Policy != timer.ConcurrencyAllow
	}
	if e.Def == nil || !e.Serial() {
		s.recorder.End(o, e, attempts...)
		return
	}
	calendars, ok := s.cache.Calendars.Cached(e.App, e.Def.Schedule.Calendars)
	if ok {
		s.endSerial(e, o, attempts, calendars)
		return
	}
	s.ending.Add(1)
	s.endLater(e, o, attempts)
}

// endLater records an outcome once it has the calendars of the successor. It retries until it has,
// because a fixed delay must not stop while the store is unavailable. The outcome needs the store
// in any case. After a crash meanwhile the call is repeated, as with any unrecorded outcome.
func (s *Service) endLater(e *inflight.Entry, o timer.Outcome, attempts []timer.Attempt) {
	q := cache.CalendarQuestion{App: e.App, Names: e.Def.Schedule.Calendars}
	s.lookups.calendars.Ask(e.Fire.AppID, e.Priority(), q,
		func(a lookup.Answer[[]timer.Calendar]) {
			switch {
			case a.Err == nil:
				s.endSerial(e, o, attempts, a.Value)
			case e.Epoch.Context().Err() != nil, errors.Is(a.Err, lookup.ErrClosed):
				// Without the calendars the fixed delay would stop. The next owner calls again.
				s.inflight.Remove(e)
			default:
				s.log.Warn().Func(s.about(e)).
					Err(a.Err).
					Msg("calendars not read, successor delayed")
				time.AfterFunc(calendarRetry, func() { s.endLater(e, o, attempts) })
				return
			}
			s.ending.Add(-1)
		})
}

func (s *Service) endSerial(
	e *inflight.Entry,
	o timer.Outcome,
	attempts []timer.Attempt,
	calendars []timer.Calendar,
) {
	next, err := s.opts.Planner.Successor(&e.Fire, e.Def, calendars, o.FinishedMS)
	if err != nil {
		s.log.Error().Func(s.about(e)).
			Err(err).
			Msg("fixed delay stopped: successor cannot be planned")
	} else {
		o.Next = next
	}
	s.recorder.End(o, e, attempts...)
}
