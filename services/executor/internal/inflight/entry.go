package inflight

import (
	"sync/atomic"
	"time"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// MaxWait is the longest wait that a fire spends in flight, except for a worker while the set is
// Roomy. For a longer one the fire is released with a new run time.
const MaxWait = 5 * time.Second

// Entry is an in-flight fire, with the session epoch that claimed it.
type Entry struct {
	Fire     timer.Fire
	rev      int32 // of fire when it was claimed; constant while in flight
	Epoch    *session.Epoch
	Def      *timer.Definition // the definition of the last decision; nil until loaded
	Endpoint string            // of Def; empty if there is no breaker to ask
	// App is the name of the timer's app, empty if the timer does not exist. It belongs to the
	// worker, then to the recorder.
	App string
	// Name is the timer's name, and Origin the trace context of the request that made it. Both are
	// set with App.
	Name, Origin string
	Trace        *Trace // nil: tracing is off
	// Late is set while a fire received late from the low-priority topic waits for its call.
	Late  atomic.Bool
	Began atomic.Bool // its first attempt has started
	Low   bool        // received from the low-priority topic
	// unconfirmed is set while the claim is unanswered and no task carries the fire. Set.mu
	// guards it.
	unconfirmed bool
	// large is the definition whose bodies the set counts for this fire, or nil. Set.mu guards it.
	large       *timer.Definition
	keepsBodies atomic.Bool // large is not nil

	// LastError is the error of the last attempt of a failed fire. It belongs to the worker, then
	// to the recorder.
	LastError string

	// DueFromMS is the last activation of a one-shot's timer, if the fire was due before that, or 0.
	// It belongs to the worker.
	DueFromMS int64

	// ToGiveBack is set while the fire waits to be given back to a newer release. It belongs to the
	// worker.
	ToGiveBack bool
	// Limits have delayed it before. This and the next two belong to the worker.
	WaitedForLimit   bool
	Ordered          bool // its sequence let it start, see the sequencer
	WaitedForBreaker bool // the breaker of its endpoint has delayed it before
	// StateVersion is the version of the timer's state that the fire's version was resolved by. It
	// belongs to the worker.
	StateVersion int32
	// AskedFor is the app for which the fire was looked for, because calls of it may start sooner than
	// expected; empty once it has asked for a call itself. It belongs to the worker.
	AskedFor string
	// PermittedFor is the app whose limits have granted it a permit, or empty, and PermittedAt is when.
	// They are the worker's once the fire is queued.
	PermittedFor string
	PermittedAt  time.Time
	// PermitExpired is set once a permit was too old for its call, until that call starts. It belongs
	// to the worker.
	PermitExpired bool

	hops hops
}

// WasLimited reports whether the fire waited for a limit or a breaker. Its lateness then says
// nothing about the load of the executor.
func (e *Entry) WasLimited() bool {
	return e.WaitedForLimit || e.WaitedForBreaker || e.Fire.State == timer.FireDeferred
}

// Canary reports whether the fire is Carillon's own canary, which metrics and outcome events leave
// out.
func (e *Entry) Canary() bool { return e.Def != nil && e.Def.Target.Kind == timer.KindCanary }

// ToAllTargets reports whether each of several targets must accept the fire.
func (e *Entry) ToAllTargets() bool { return e.Def != nil && e.Def.Mode == timer.ModeAll }

// DueMS returns when a fire is due. A one-shot is due at the last activation of its timer, if that is
// later. It may have been due while the timer was active, and then have waited for that, with its
// retries: people pause a timer to mend it, and want its only fire to be called afterwards, by the
// version of then.
func (e *Entry) DueMS(state *timer.State) int64 {
	if e.Fire.Series != 0 || e.Def == nil || !e.Def.Schedule.Kind.OneShot() {
		return e.Fire.DueMS
	}
	return max(e.Fire.DueMS, state.ActiveFromMS())
}

// AdjustDue stores the later due time of a one-shot, see DueMS.
func (e *Entry) AdjustDue(state *timer.State) {
	if due := e.DueMS(state); due > e.Fire.DueMS {
		e.DueFromMS = due
	}
}

// PlannedMS returns when the first attempt should start: the due time plus jitter, or the time of
// the request. A one-shot starts no sooner than its timer is active.
func (e *Entry) PlannedMS() int64 {
	f := &e.Fire
	switch f.Cause {
	case timer.CauseSchedule:
		return max(f.DueMS+schedule.Jitter(f.Timer, f.DueMS, e.Def.Schedule.Jitter), e.DueFromMS)
	case timer.CauseRunNow:
		return f.DueMS
	case timer.CauseBackfill, timer.CauseRedrive:
	}
	return max(f.DueMS, timer.ID(f.Series).TimeMS()) // the series is the id of the request
}

// VersionKey returns the key of the definition by which the fire is called.
func (e *Entry) VersionKey() store.VersionKey {
	return store.VersionKey{Timer: e.Fire.Timer, Version: e.Fire.Version}
}

// MoveTo sets the run time of the fire. Its bucket depends on the minute and is set even if the fire
// stays in flight, because a stop may release it.
func (e *Entry) MoveTo(at time.Time, counts *slicing.Counts) {
	e.Fire.RunAtMS = at.UnixMilli()
	e.Fire.Bucket = counts.Bucket(e.Fire.FireID, e.Fire.RunAtMinute())
}

// Serial reports whether a fire belongs to the serial of a fixed delay.
func (e *Entry) Serial() bool {
	return e.Def.Schedule.Kind == timer.KindFixedDelay && e.Fire.Series == 0
}

// Concurrency returns the concurrency policy of a fire. A fixed delay runs one fire at a time,
// whatever runs beside it. If an edit or an activation starts a new serial during a call, its first
// fire waits for that last call of the old serial.
func (e *Entry) Concurrency() timer.Concurrency {
	c := e.Def.Concurrency.Resolved()
	if c.Policy == timer.ConcurrencyAllow && e.Serial() {
		c.Policy, c.MaxQueue = timer.ConcurrencyQueueAll, timer.MaxMaxQueue
	}
	return c
}

// QueuePriority returns the queue priority of an entry. A fire of the low-priority topic stays
// low here until its first attempt.
func (e *Entry) QueuePriority() limit.Priority {
	if e.Late.Load() || e.Low && e.Fire.Attempt == 0 {
		return limit.Low
	}
	return e.Priority()
}

// Priority returns the priority of a fire among those of its app: the configured one, but low for a
// fire of a backfill until its first attempt. It is the same wherever the fire waits, in memory or in
// the store. So it waits behind other timers, and not they behind a whole backfill.
func (e *Entry) Priority() limit.Priority {
	if e.Fire.Cause == timer.CauseBackfill && e.Fire.Attempt == 0 {
		return limit.Low
	}
	switch e.Fire.PriorityLevel {
	case timer.LevelLow:
		return limit.Low
	case timer.LevelHigh:
		return limit.High
	case timer.LevelNormal:
	}
	return limit.Normal
}
