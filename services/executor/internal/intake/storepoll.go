package intake

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/pickup"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const (
	// noTasksAfter is how long after the last task the topics count as idle.
	noTasksAfter = time.Second
	// dispatchedWithin is how long after the last on-time task a burst is taken for one that a
	// trigger dispatched.
	dispatchedWithin = 5 * noTasksAfter
	// freshTaskAge is the maximum age of tasks at their claim while the topics count as keeping up.
	// If tasks are older, unclaimed fires may still have theirs on a topic.
	freshTaskAge = 2 * pickup.Every

	latePollMax = pickup.LateBatch // late fires claimed at once without a task
)

// newPoller returns the poller of the fires that no task brings, see package pickup. The intake
// knows from arriving tasks whether the topics keep up.
//
// Two at once: executors divide the buckets by the sessions they see alive. Where they disagree, or
// a task arrives after all, one claim wins. Crash after the claim: the session expires. Unanswered
// claim: it is unconfirmed and repeated, see confirmClaims.
func newPoller(in *Intake) (*pickup.Poller, error) {
	//nolint:wrapcheck // it names the package
	return pickup.New(pickup.Options{
		Store:    in.opts.Store,
		Ahead:    in.opts.PollAhead,
		Now:      in.opts.Clock.Now,
		Epoch:    in.opts.Heartbeater.Epoch,
		Pressure: in.pressure,
		Claim: func(ctx context.Context, epoch *session.Epoch, q pickup.Question, fires []timer.Fire, late bool) error {
			source := inflight.FromPoll
			if late {
				source = inflight.FromLatePoll
			}
			return in.claimPolled(ctx, epoch, inflight.Arrivals(fires, pathOf(q)), source)
		},
		Logger:     in.log,
		Registerer: in.opts.Registerer,
	})
}

// pollStore polls the store until ctx ends.
func (in *Intake) pollStore(ctx context.Context) {
	in.onTime.lastArrival.Set() // give tasks time to arrive first
	_ = in.poller.Run(ctx)      // it returns no error
}

// Alive returns the alive sessions as of the last poll of the sessions, nil while they are unknown.
func (in *Intake) Alive() []store.Session { return in.poller.Alive() }

// pressure returns the load by which the poller decides what it may claim.
func (in *Intake) pressure() pickup.Pressure {
	p := pickup.Pressure{
		Room:       in.opts.Inflight.Room(),
		LateRoom:   in.opts.Inflight.LateRoom(),
		Idle:       in.onTime.idle(),
		Dispatched: in.onTime.lastArrival.Within(dispatchedWithin),
		Behind:     in.onTime.behind(),
		LowBehind:  in.low.behind(),
	}
	if p.Room == 0 || in.throttle.congested() {
		p.LateRoom = 0
	}
	return p
}

// LateRoom returns how many late fires may be claimed, if on-time fires are not congested.
func (in *Intake) LateRoom() int {
	if in.throttle.congested() {
		return 0
	}
	return min(latePollMax, in.opts.Inflight.LateRoom())
}

// arrivals records when tasks arrive on one or more topics.
type arrivals struct {
	age         taskAge     // of the tasks claimed last
	lastArrival clock.Stamp // tasks were received, or their claim ended
	mu          sync.Mutex
	next        int
	receivers   map[int]time.Time // receive calls, with their start
}

// taskAge is how long a task waited, on its topic and here, until its claim.
type taskAge struct {
	ms atomic.Int64
	at clock.Stamp // when it was claimed
}

func (in *Intake) arrivalsOf(low bool) *arrivals {
	if low {
		return &in.low
	}
	return &in.onTime
}

// receiving records that tasks arrived and are being handled until done is called.
func (l *arrivals) receiving() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.receivers == nil {
		l.receivers = make(map[int]time.Time)
	}
	l.next++
	id := l.next
	l.receivers[id] = time.Now()
	return func() {
		l.lastArrival.Set()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.receivers, id)
	}
}

// oldestWait returns how long received tasks have waited for their claim. some is false if there
// are none.
func (l *arrivals) oldestWait() (waits time.Duration, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, began := range l.receivers {
		waits = max(waits, time.Since(began))
	}
	return waits, len(l.receivers) > 0
}

// idle reports whether no tasks arrive.
func (l *arrivals) idle() bool {
	_, some := l.oldestWait()
	return !some && !l.lastArrival.Within(noTasksAfter)
}

// behind reports whether tasks still to be claimed may carry the unclaimed fires. Either the last
// tasks were old at their claim, or some have waited here since before the last poll.
func (l *arrivals) behind() bool {
	waits, _ := l.oldestWait()
	return waits >= pickup.Every || !l.idle() && !l.age.fresh()
}

// fresh reports whether the last tasks were claimed soon after their publication.
func (a *taskAge) fresh() bool {
	return a.at.Within(noTasksAfter) && a.ms.Load() < freshTaskAge.Milliseconds()
}

// pathOf returns how a question of the poller found a fire.
func pathOf(q pickup.Question) timer.Path {
	switch q {
	case pickup.DueSoon:
		return timer.PathDueSoon
	case pickup.Overdue:
		return timer.PathOverdue
	case pickup.Orphaned:
		return timer.PathOrphaned
	}
	return timer.PathUnknown
}
