package executor

import (
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/admission"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// resolve finds the definition by which to call the fire, which may be missing, and the timer's
// state. The state is from the cache if that is fresh and allows the call. Otherwise it is read
// from the store.
func (s *Service) resolve(c *candidate) progress {
	e := c.entry
	if d := &c.definition; e.Def == nil && d.value != nil && d.key == e.VersionKey() {
		s.define(e, d.value)
	}
	for {
		// Each time anew, so that the state does not age while the definition is read.
		view, p := s.stateOf(c)
		if p != goes {
			return p
		}
		version, p := s.versionFor(c, &view.State)
		if p != goes {
			return p
		}
		if e.Def != nil && version == e.Fire.Version {
			c.view = view
			return goes
		}
		if version != e.Fire.Version && e.Fire.TargetBits != 0 {
			if p := s.carryTargetBits(c, version); p != goes {
				return p
			}
		}
		e.Fire.Version, e.Def, e.Endpoint = version, nil, ""
		d, p := s.definitionOf(c, e.VersionKey())
		if p != goes {
			return p
		}
		if d == nil {
			c.view = view
			return goes
		}
		s.define(e, d)
	}
}

// define gives a fire its definition.
func (s *Service) define(e *inflight.Entry, d *cache.Definition) {
	e.Def, e.Endpoint = d.Definition, d.Endpoint
	s.inflight.Loaded(e)
}

// carryTargetBits makes the results of earlier attempts those of another version's targets. A
// one-shot that was retried may be called by a later version, if its timer was edited in a pause.
func (s *Service) carryTargetBits(c *candidate, version int32) progress {
	e := c.entry
	if e.Def == nil {
		d, p := s.definitionOf(c, e.VersionKey())
		if p != goes {
			return p
		}
		if d == nil {
			e.Fire.TargetBits = 0
			return goes
		}
		s.define(e, d)
	}
	key := e.VersionKey()
	key.Version = version
	d, p := s.definitionOf(c, key)
	if p != goes {
		return p
	}
	var to timer.Definition
	if d != nil {
		to = *d.Definition
	}
	e.Fire.TargetBits = e.Fire.TargetBits.Carry(e.Def, &to)
	return goes
}

// definitionOf returns a version of the timer's definition, nil if it is missing.
func (s *Service) definitionOf(c *candidate, key store.VersionKey) (*cache.Definition, progress) {
	if d := &c.definition; d.asked && d.key == key {
		return d.value, goes
	}
	if d, ok := s.cache.Timers.Definition(key); ok {
		return d, goes
	}
	q := cache.DefinitionQuestion{Key: key, App: c.entry.Fire.AppID}
	return nil, ask(s, s.lookups.definitions, c, q, func(d *cache.Definition, _ time.Time) {
		c.definition = definitionAnswer{key: key, value: d, asked: true}
	})
}

// stateOf returns the state of a fire's timer, with its verdict.
func (s *Service) stateOf(c *candidate) (timerView, progress) {
	// A cached state may be a second old, which is enough for a call. A skip is final and needs the
	// stored state, because the timer may have been activated since.
	e := c.entry
	state, asOf, ok := s.cache.Timers.State(e.Fire.Timer)
	var v admission.Verdict
	var p progress
	if ok {
		if v, p = s.verdictOf(c, &state); p != goes {
			return timerView{}, p
		}
	}
	if !ok || v.Action != admission.Call {
		if c.stored == nil || !s.opts.Clock.Within(cache.MaxAgeAtCall, c.stored.asOf) {
			return timerView{}, s.askState(c)
		}
		state, asOf = c.stored.State, c.stored.asOf
		if v, p = s.verdictOf(c, &state); p != goes {
			return timerView{}, p
		}
	}
	if state.App != "" {
		e.Name, e.Origin = state.Name, state.Origin
		e.App = state.App // the cache may evict the timer before the call ends
	}
	return timerView{View: admission.View{State: state, Status: v}, asOf: asOf}, goes
}

func (s *Service) askState(c *candidate) progress {
	return ask(s, s.lookups.states, c, c.entry.Fire.Timer,
		func(state timer.State, sent time.Time) {
			c.stored = &timerView{View: admission.View{State: state}, asOf: sent}
		})
}

// verdictOf returns the verdict of a state on a fire. It needs earlier inactive periods if they
// decide, which is rare: only for fires left open since before the last activation.
func (s *Service) verdictOf(c *candidate, state *timer.State) (admission.Verdict, progress) {
	e, nowMS := c.entry, s.opts.Clock.Now().UnixMilli()
	oneShot := e.Def != nil && e.Def.Schedule.Kind.OneShot()
	v, known := admission.OfStatus(&e.Fire, oneShot, state, nil, nowMS)
	if known {
		return v, goes
	}
	past, p := s.pastOf(c, state)
	if p != goes {
		return v, p
	}
	v, _ = admission.OfStatus(&e.Fire, oneShot, state, past, nowMS)
	return v, goes
}

// pastOf returns the inactive periods before the state's current one, never nil.
func (s *Service) pastOf(c *candidate, state *timer.State) ([]timer.Inactivity, progress) {
	key := cache.InactivityKeyOf(state)
	past, ok := c.past, c.past != nil && c.pastKey == key
	if !ok {
		past, ok = s.cache.Inactivities.Get(key)
	}
	if ok {
		return past, goes
	}
	return nil, ask(s, s.lookups.inactivities, c, state.ID,
		func(past []timer.Inactivity, _ time.Time) {
			c.past, c.pastKey = past, key
			s.cache.Inactivities.Add(key, past)
		})
}

// inactivitiesOf returns the inactive periods by which the late fires of a timer are told: those that
// began after the fire was due, if there are any.
func (s *Service) inactivitiesOf(c *candidate, state *timer.State) ([]timer.Inactivity, progress) {
	e := c.entry
	from := e.Fire.DueMS - time.Duration(e.Def.Schedule.Jitter).Milliseconds()
	if state.Status == timer.StatusActive && state.ActiveSinceMS <= from {
		return nil, goes
	}
	past, p := s.pastOf(c, state)
	if p != goes {
		return nil, p
	}
	return state.Inactivities(past), goes
}

// versionFor returns the version by which to call a fire, given its timer's state. An edit that
// keeps the due times leaves open fires untouched, so a row has the version it was planned by. If
// an edit changed the plan, the row itself tells, see readRow.
func (s *Service) versionFor(c *candidate, state *timer.State) (int32, progress) {
	e := c.entry
	f := e.Fire
	f.DueMS = e.DueMS(state)
	version, sure := admission.VersionOf(&f, state)
	if sure || e.Def != nil && e.StateVersion == state.Version {
		return version, goes
	}
	oneShotKnown := e.Def != nil
	if a := &c.version; a.asked && a.stateVersion == state.Version &&
		a.oneShotKnown == oneShotKnown {
		if oneShotKnown {
			e.StateVersion = state.Version
		}
		return a.version, goes
	}
	stateVersion := state.Version
	return 0, ask(s, s.lookups.versionsAt, c, f, func(version int32, _ time.Time) {
		c.version = versionAnswer{version, stateVersion, oneShotKnown, true}
	})
}

// calendarsOf returns the calendars of a definition of the candidate's timer.
func (s *Service) calendarsOf(c *candidate, d *timer.Definition) ([]timer.Calendar, progress) {
	if c.calendars != nil && c.calendars.of == d {
		return c.calendars.value, goes
	}
	names := d.Schedule.Calendars
	if found, ok := s.cache.Calendars.Cached(c.entry.App, names); ok {
		return found, goes
	}
	return nil, ask(
		s,
		s.lookups.calendars,
		c,
		cache.CalendarQuestion{App: c.entry.App, Names: names},
		func(found []timer.Calendar, _ time.Time) { c.calendars = &calendarAnswer{d, found} },
	)
}

// stillCallable reports whether the timer allows a further part of a call that has begun. Usually
// the cache knows.
func (s *Service) stillCallable(e *inflight.Entry) bool {
	c := &candidate{entry: e, wake: make(chan error, 1)}
	for {
		view, p := s.stateOf(c)
		if p == goes {
			return view.Status.Action == admission.Call
		}
		select {
		case err := <-c.wake:
			if err != nil {
				return false
			}
		case <-e.Epoch.Context().Done():
			return false
		}
	}
}
