package executor

import (
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/admission"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/delivery"
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
	granted *delivery.Permit // the permit that the fire has waited for, usually nil
	// owner is the app, nil until its settings are known; ownerAsked is set once they were asked.
	owner      *cache.App
	ownerAsked bool

	view     timerView
	resolved bool // view has the state of the timer, and entry the definition

	// The answers that the caches may have evicted when they are needed.
	stored     *timerView // the timer's state as read from the store
	past       []timer.Inactivity
	pastKey    cache.InactivityKey
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
	value *cache.Definition
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
	if _, steady := s.readClock(); !steady {
		s.wheel.Add(e)
		return over
	}
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
			endInactivity(e, &c.view.State, s.opts.Clock.Now().UnixMilli())
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
		s.deliverer.DeferUntil(e, s.opts.Clock.Now().Add(inflight.MaxWait))
		return
	}
	s.recheckLater(e)
}

// settle ends a candidate that is not called. Its fire may have another owner.
func (s *Service) settle(c *candidate) {
	s.inflight.CallStarted(c.entry)
	c.granted.Release()
}

// readOwner finds the settings of the app.
func (s *Service) readOwner(c *candidate) progress {
	state := &c.view.State
	if c.owner = s.cache.Apps.Known(state.AppID); c.owner == nil {
		c.ownerAsked = true
		return ask(s, s.lookups.tenants, c, cache.AppQuestion{ID: state.AppID, Name: state.App},
			func(*cache.App, time.Time) {}) // they are known now, or changed again
	}
	// Of several targets the caller decides about each.
	if c.owner.SignError != nil && !hasUnsigned(c.entry.Def) {
		s.deliverer.NotAttempted(
			c.entry,
			timer.FailureInvalid,
			"not sent: "+c.owner.SignError.Error(),
		)
		return over
	}
	return goes
}

// hasUnsigned returns whether a target of a definition is called without a signature.
func hasUnsigned(d *timer.Definition) bool {
	return d != nil && (d.Target.Unsigned ||
		slices.ContainsFunc(d.Targets, func(t timer.Target) bool { return t.Unsigned }))
}

// stillWanted checks that the timer still wants the fire as decided. The answers since (slot,
// catch-up, app) and the queue may have taken longer than P5 allows for the state. If the state has
// changed, the fire is decided again at once.
func (s *Service) stillWanted(c *candidate) progress {
	e, view := c.entry, &c.view
	if !s.opts.Clock.Within(cache.MaxAgeAtDecision, view.asOf) {
		now, asOf, ok := s.cache.Timers.State(e.Fire.Timer)
		switch {
		case ok:
		case c.stored != nil && s.opts.Clock.Within(cache.MaxAgeAtDecision, c.stored.asOf):
			now, asOf = c.stored.State, c.stored.asOf
		default:
			return s.askState(c)
		}
		// Acquiring its own slot changes these.
		now.Running, now.LastRunning = view.State.Running, view.State.LastRunning
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
