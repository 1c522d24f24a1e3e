package executor

import (
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/admission"
	"github.com/carillon-timer/carillon/services/executor/internal/hold"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// candidate is a due fire until its call, with what is known for its decision. It belongs to the
// worker that took the fire, then to the lookup that it waits for, then to the ready queue.
//
// The decision is taken again from what is known whenever an answer has come. So a crash in between
// loses nothing that the next owner of the fire does not ask again.
type candidate struct {
	entry   *inflight.Entry
	granted *permit // the permit that the fire has waited for, usually nil
	// owner is the app, nil until its settings are known; ownerAsked is set once they were asked.
	owner      *tenant
	ownerAsked bool

	view     timerView
	resolved bool // view has the state of the timer, and entry the definition

	// The answers that the caches may have evicted when they are needed.
	stored     *timerView // the timer's state as read from the store
	past       []timer.Inactivity
	pastKey    inactivityKey
	version    versionAnswer
	definition definitionAnswer
	calendars  *calendarAnswer
	row        *rowAnswer
	moved      bool // entry has the row that an edit moved, and its definition is to be read

	wake chan error // of a call that waits for an answer; nil: the candidate goes on by itself
}

// versionAnswer is the version by which to call a fire, as the store told.
type versionAnswer struct {
	version, stateVersion int32
	oneShotKnown          bool
	asked                 bool
}

// definitionAnswer is a definition as the store told; nil: it is missing.
type definitionAnswer struct {
	key   store.VersionKey
	value *cachedDefinition
	asked bool
}

// calendarAnswer is the calendars of a definition.
type calendarAnswer struct {
	of    *timer.Definition
	value []timer.Calendar
}

// timerView is what is known of a fire's timer, and the time as of which its state is true.
type timerView struct {
	admission.View

	asOf time.Time
}

// progress is how far a decision has come.
type progress uint8

const (
	waits progress = iota // for an answer; the candidate is no longer the caller's
	over                  // the verdict is carried out; the fire is no longer the caller's
	goes                  // nothing is missing so far
)

// evaluate decides about a due fire by what is known, without waiting. With goes the call may
// start, as far as the timer and the app's settings decide.
func (s *Service) evaluate(c *candidate) progress {
	e := c.entry
	if !e.Epoch.Valid() {
		// If the session has expired, the next owner of the claim makes the call. If its renewal is
		// only late, the fire waits.
		s.recheckLater(e)
		return over
	}
	if !c.resolved {
		if p := s.resolve(c); p != goes {
			return p
		}
		c.resolved = true
		if c.view.Status.Action == admission.Call {
			e.AdjustDue(&c.view.State)
		}
	}
	if p := s.admit(c); p != goes {
		return p
	}
	if p := s.readOwner(c); p != goes {
		return p
	}
	return s.stillWanted(c)
}

// resume goes on with a candidate whose question is answered. Once it is decided it needs a worker.
func (s *Service) resume(c *candidate, err error) {
	switch {
	case c.wake != nil:
		c.wake <- err
	case err != nil:
		s.log.Debug().Err(err).Msg("fire not decided, delayed")
		s.undecided(c)
		s.settle(c)
	default:
		switch s.evaluate(c) {
		case waits:
		case over:
			s.settle(c)
		case goes:
			s.pushDecided(c)
		}
	}
}

// pushDecided queues a candidate that may be called. Once the queue is closed the drain finds its
// fire on the wheel.
func (s *Service) pushDecided(c *candidate) {
	c.entry.WaitFor(timer.WaitWorker, s.opts.Clock.Now().UnixMilli())
	short, ok := s.queue.PushDecided(
		hold.Due[*candidate]{Entry: c.entry, Known: c},
		c.granted != nil,
	)
	if !ok {
		s.wheel.Add(c.entry)
		s.settle(c)
		return
	}
	s.startWorkers(short)
}

// undecided delays a fire for whose decision an answer failed. It stays in flight, unless fires of
// apps that could not be read fill the set while those of other apps could run.
func (s *Service) undecided(c *candidate) {
	e := c.entry
	if c.ownerAsked && c.owner == nil && e.Epoch.Context().Err() == nil && s.inflight.Crowded() {
		e.DeferFor(timer.WaitStore, s.opts.Clock.Now().UnixMilli())
		s.deferUntil(e, s.opts.Clock.Now().Add(inflight.MaxWait))
		return
	}
	s.recheckLater(e)
}

// settle ends a candidate that is not called. Its fire may have another owner.
func (s *Service) settle(c *candidate) {
	s.inflight.CallStarted(c.entry)
	c.granted.release()
}

// readOwner finds the settings of the app.
func (s *Service) readOwner(c *candidate) progress {
	state := &c.view.State
	if c.owner = s.tenants.known(state.AppID); c.owner == nil {
		c.ownerAsked = true
		return ask(s, s.lookups.tenants, c, tenantQuestion{state.AppID, state.App},
			func(*tenant, time.Time) {}) // they are known now, or changed again
	}
	if c.owner.misconfigured != nil {
		s.notAttempted(
			c.entry,
			timer.FailureInvalid,
			"not sent: "+c.owner.misconfigured.Error(),
		)
		return over
	}
	return goes
}

// stillWanted checks that the timer still wants the fire as decided. The answers since (slot,
// catch-up, app) and the queue may have taken longer than P5 allows for the state. If the state has
// changed, the fire is decided again at once.
func (s *Service) stillWanted(c *candidate) progress {
	e, view := c.entry, &c.view
	if time.Since(view.asOf) >= maxStateAgeAtDecision {
		now, asOf, ok := s.stateCache.state(e.Fire.Timer)
		switch {
		case ok:
		case c.stored != nil && time.Since(c.stored.asOf) < maxStateAgeAtDecision:
			now, asOf = c.stored.State, c.stored.asOf
		default:
			return s.askState(c)
		}
		now.Running = view.State.Running // acquiring its own slot changes this
		if now != view.State {
			// no wait is needed: the cache has the new state
			s.wheel.AddAt(s.opts.Clock.Now().UnixMilli(), e)
			return over
		}
		view.asOf = asOf
	}
	if e.Fire.Cause != timer.CauseBackfill {
		return goes
	}
	view.Cancelled = admission.Unknown // it was read before the slot and the app
	return s.admit(c)
}

func (s *Service) askState(c *candidate) progress {
	return ask(s, s.lookups.states, c, c.entry.Fire.Timer,
		func(state timer.State, sent time.Time) {
			c.stored = &timerView{View: admission.View{State: state}, asOf: sent}
		})
}

// resolve finds the definition by which to call the fire, which may be missing, and the timer's
// state. The state is from the cache if that is fresh and allows the call. Otherwise it is read
// from the store.
func (s *Service) resolve(c *candidate) progress {
	e := c.entry
	if d := &c.definition; e.Def == nil && d.value != nil && d.key == versionKey(e) {
		e.Def, e.Endpoint = &d.value.Definition, d.value.endpoint
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
		e.Fire.Version, e.Def, e.Endpoint = version, nil, ""
		d, p := s.definitionOf(c, versionKey(e))
		if p != goes {
			return p
		}
		if d == nil {
			c.view = view
			return goes
		}
		e.Def, e.Endpoint = &d.Definition, d.endpoint
	}
}

// definitionOf returns a version of the timer's definition, nil if it is missing.
func (s *Service) definitionOf(c *candidate, key store.VersionKey) (*cachedDefinition, progress) {
	if d := &c.definition; d.asked && d.key == key {
		return d.value, goes
	}
	if d, ok := s.stateCache.defs.Get(key); ok {
		return d, goes
	}
	return nil, ask(s, s.lookups.definitions, c, definitionQuestion{key, c.entry.Fire.AppID},
		func(d *cachedDefinition, _ time.Time) {
			c.definition = definitionAnswer{key: key, value: d, asked: true}
		})
}

// stateOf returns the state of a fire's timer, with its verdict.
func (s *Service) stateOf(c *candidate) (timerView, progress) {
	// A cached state may be a second old, which is enough for a call. A skip is final and needs the
	// stored state, because the timer may have been activated since.
	e := c.entry
	state, asOf, ok := s.stateCache.state(e.Fire.Timer)
	var v admission.Verdict
	var p progress
	if ok {
		if v, p = s.verdictOf(c, &state); p != goes {
			return timerView{}, p
		}
	}
	if !ok || v.Action != admission.Call {
		if c.stored == nil || time.Since(c.stored.asOf) >= maxStateAgeAtCall {
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

// versionFor returns the version by which to call a fire, given its timer's state. An edit that
// keeps the due times leaves open fires untouched, so a row has the version it was planned by. If
// an edit changed the plan, the row itself tells, see readRow.
func (s *Service) versionFor(c *candidate, state *timer.State) (int32, progress) {
	e := c.entry
	f := e.Fire
	f.DueMS = e.DueMS(state)
	version, sure := currentVersion(&f, state)
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

// currentVersion returns the version by which to call a fire. sure is false if the state does not
// suffice to tell. A fire due after the current version took effect is called by it, an earlier one
// by the version in effect then.
func currentVersion(f *timer.Fire, s *timer.State) (version int32, sure bool) {
	switch {
	case f.Series != 0, f.Version >= s.Version, f.DueMS <= s.VersionMS && f.Version+1 == s.Version:
		return f.Version, true
	case f.DueMS <= s.VersionMS:
		return f.Version, false
	case s.PlanVersion <= f.Version:
		return s.Version, true
	default:
		return f.Version, true // its row was moved to the version, or the fire is superseded
	}
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
