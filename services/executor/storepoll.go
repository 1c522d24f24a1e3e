package executor

import (
	"context"
	"slices"
	"sync"
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

// storePoller claims the fires that no task brings, see package pickup. It knows from arriving
// tasks whether the topics keep up.
//
// Two at once: executors divide the buckets by the sessions they see alive. Where they disagree, or
// a task arrives after all, one claim wins. Crash after the claim: the session expires. Unanswered
// claim: it is unconfirmed and repeated, see confirmClaims.
type storePoller struct {
	*pickup.Poller

	onTime, low arrivals
}

func newStorePoller(s *Service) (*pickup.Poller, error) {
	//nolint:wrapcheck // it names the package
	return pickup.New(pickup.Options{
		Store:    s.opts.Store,
		Ahead:    s.opts.PollAhead,
		Now:      s.opts.Clock.Now,
		Epoch:    s.heartbeater.Epoch,
		Pressure: s.pressure,
		Claim: func(ctx context.Context, epoch *session.Epoch, q pickup.Question, fires []timer.Fire, late bool) error {
			source := inflight.FromPoll
			if late {
				source = inflight.FromLatePoll
			}
			return s.claimPolled(ctx, epoch, inflight.Arrivals(fires, pathOf(q)), source)
		},
		Logger:     s.log,
		Registerer: s.opts.Registerer,
	})
}

// pollStore polls the store until ctx ends.
func (s *Service) pollStore(ctx context.Context) error {
	s.storePoller.onTime.lastArrival.Set() // give tasks time to arrive first
	return s.storePoller.Run(ctx)          //nolint:wrapcheck // it returns no error
}

// pressure returns the load by which the poller decides what it may claim.
func (s *Service) pressure() pickup.Pressure {
	b := &s.storePoller
	p := pickup.Pressure{
		Room:       s.opts.MaxInflight / inflight.CrowdedShare,
		LateRoom:   s.inflight.LateRoom(),
		Idle:       b.onTime.idle(),
		Dispatched: b.onTime.lastArrival.Within(dispatchedWithin),
		Behind:     b.onTime.behind(&s.taskAges[1]),
		LowBehind:  b.low.behind(&s.taskAges[0]),
	}
	if s.inflight.Crowded() {
		p.Room, p.LateRoom = 0, 0
	}
	if s.catchUpThrottle.congested() {
		p.LateRoom = 0
	}
	return p
}

// arrivals records when tasks arrive on one or more topics.
type arrivals struct {
	lastArrival clock.Stamp // tasks were received, or their claim ended
	mu          sync.Mutex
	next        int
	receivers   map[int]time.Time // receive calls, with their start
}

// receiving records that tasks arrived and are being handled until done is called.
func (b *storePoller) receiving(low bool) (done func()) {
	l := &b.onTime
	if low {
		l = &b.low
	}
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
func (l *arrivals) behind(age *taskAge) bool {
	waits, _ := l.oldestWait()
	return waits >= pickup.Every || !l.idle() && !age.fresh()
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

// claimPolled claims fires that no task brought.
func (s *Service) claimPolled(
	ctx context.Context,
	epoch *session.Epoch,
	arrivals []inflight.Arrival,
	source inflight.Source,
) error {
	for part := range slices.Chunk(arrivals, store.MaxBatch) {
		if _, err := s.claim(ctx, epoch, part, source); err != nil {
			return err
		}
	}
	return nil
}
