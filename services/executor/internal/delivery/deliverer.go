package delivery

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/firetrace"
	"github.com/carillon-timer/carillon/services/executor/internal/hold"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/lookup"
	"github.com/carillon-timer/carillon/services/executor/internal/order"
)

// Store is the part of the store that a deliverer uses.
type Store interface {
	Fire(ctx context.Context, app string, id timer.FireID) (store.FireRecord, error)
	SetStatus(
		ctx context.Context,
		items []store.StatusChange,
		plan store.Planner,
	) ([]store.StatusResult, error)
}

// Planner plans successors of fixed delays, and the fires of a paused timer.
type Planner interface {
	Plan(t *timer.Timer, nowMS int64) store.Plan
	Successor(
		f *timer.Fire,
		d *timer.Definition,
		calendars []timer.Calendar,
		endMS int64,
	) (*timer.Fire, error)
}

// Recorder records what becomes of a fire; *record.Recorder implements it.
type Recorder interface {
	End(o timer.Outcome, e *inflight.Entry, as ...timer.Attempt)
	Hold(e *inflight.Entry, as ...timer.Attempt)
	Release(e *inflight.Entry, as ...timer.Attempt)
}

// Options of a deliverer. Its functions must not block, except Callable.
type Options struct {
	Store    Store
	Planner  Planner
	Caller   callback.Caller
	Tokens   *callback.CompletionTokens // nil: receivers may not complete a fire later
	Limits   limit.Admission
	Breakers *limit.Breakers
	Clock    *clock.Clock
	Counts   *slicing.Counts
	Inflight *inflight.Set
	Wheel    *hold.Wheel // fires that wait go there
	Recorder Recorder
	Order    *order.Sequencer  // of late fires
	Traces   *firetrace.Traces // nil: tracing is off
	Active   *Active           // gets the attempts in flight

	Lookups       *lookup.Set // gets the readers of the deliverer
	Calendars     *cache.Calendars
	ReadCalendars *lookup.Reader[cache.CalendarQuestion, []timer.Calendar]

	// Committed dispatches the fires of a paused timer.
	Committed func(ctx context.Context, fires []timer.Fire)
	// Permitted queues a fire for a worker that has the permit that it waited for.
	Permitted func(e *inflight.Entry)
	// Callable waits for whether the timer allows a further part of a call that has begun.
	Callable func(e *inflight.Entry) bool
	// Recheck decides a fire again in a moment.
	Recheck func(e *inflight.Entry)
	// Starts is told how late after its run time the first attempt of an on-time fire starts.
	Starts func(late time.Duration)

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Deliverer makes attempts and carries out what follows them.
type Deliverer struct {
	opts    Options
	met     *metrics
	records *lookup.Reader[recordQuestion, recordAnswer]
	pauses  *lookup.Reader[pauseQuestion, struct{}]
	ending  atomic.Int64 // outcomes that wait for the store: for calendars, or the last attempt
}

// The questions of a deliverer, with an answer of its own.
type (
	recordQuestion struct {
		app string
		id  timer.FireID
	}
	recordAnswer struct {
		attempts []timer.Attempt
		err      error
	}
	pauseQuestion struct {
		app   string
		key   store.VersionKey
		epoch *session.Epoch // in which the receiver was called
	}
)

// New returns a deliverer without attempts.
func New(o Options) *Deliverer {
	d := &Deliverer{opts: o, met: newMetrics(o.Registerer)}
	d.records = lookup.Open(o.Lookups, lookup.PerApp(), lookup.Each(d.readRecords))
	d.pauses = lookup.Open(o.Lookups, lookup.PerApp(), d.pauseTimers)
	return d
}

// Timer is what the decision about a fire found of its timer.
type Timer struct {
	State timer.State
	AsOf  time.Time  // as of when the state is true
	App   *cache.App // of the timer
}

// Deliver attempts a fire whose timer allows it, and carries out what follows. granted is the permit
// that the fire has waited for, usually nil. The fire no longer belongs to the caller.
func (d *Deliverer) Deliver(e *inflight.Entry, t *Timer, granted *Permit) {
	if granted.expired(e, &t.App.Limits) {
		granted.Release()
		granted, e.PermitExpired = nil, true
	}
	p := d.acquirePermit(e, t.App, granted)
	if p == nil {
		granted.Release()
		return
	}
	if !e.Low && e.Fire.Attempt == 0 && !e.WasLimited() {
		d.opts.Starts(
			time.Duration(d.opts.Clock.Now().UnixMilli()-e.Fire.RunAtMS) * time.Millisecond,
		)
	}
	d.call(e, t, p)
}

// Release gives back a fire that was not started. If the fire is late because of a limit or a
// breaker, its stored state says so to the next owner.
func (d *Deliverer) Release(e *inflight.Entry) {
	d.TakePermit(e).Release()
	if now := d.opts.Clock.Now(); e.Fire.State == timer.FireReady && e.WasLimited() &&
		now.UnixMilli() > e.Fire.RunAtMS {
		e.Fire.State = timer.FireDeferred
		e.MoveTo(now, d.opts.Counts)
	}
	d.opts.Recorder.Release(e)
}

// Waiting returns how many outcomes are not with the recorder yet.
func (d *Deliverer) Waiting() int { return int(d.ending.Load()) }

// Close lets no more fires wait for the limits of their app, and returns those that do.
func (d *Deliverer) Close() (left []*inflight.Entry) {
	for _, w := range d.opts.Limits.Close() {
		//nolint:forcetypeassert // only acquirePermit adds waiters
		left = append(left, w.(*waiter).entry)
	}
	return left
}
