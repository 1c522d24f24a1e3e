package executor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const (
	// receiveConcurrency is how many batches per topic may wait here for their claim, where apps
	// take turns. The rest stays on the topic and delays every message behind it. With 32 batches,
	// two executors left 30,000 of 50,000 simultaneous fires on the topic.
	receiveConcurrency = 128
	receiveLow         = 16 // for the low-priority topic, which has one claim at a time
	claimConcurrency   = 2  // concurrent claims per topic
	receiveWait        = 5 * time.Millisecond
	claimTimeout       = 5 * time.Second
	validityPollEvery  = 100 * time.Millisecond // between checks of the session's validity
	// maxLowBatch makes catch-up claims smaller, so that on-time traffic waits less for them.
	maxLowBatch = store.MaxBatch / 2
	minLowBatch = 100 // maximum while on-time traffic is congested
	// taskAgeValidFor is how long the age of the last task counts for the reported load.
	taskAgeValidFor = 2 * maxCatchUpDelay
)

var (
	errNotClaimed  = errors.New("claim aborted")
	errUnconfirmed = errors.New(
		"an earlier revision of the fire is in flight, or its claim is unconfirmed",
	)
	// errSessionExpired makes the broker redeliver the tasks of a claim that won nothing. An
	// expired session wins no claim, whether or not the fires are free. The process that expired it
	// has already recovered its older claims, and others recover the tasks delivered to it later.
	errSessionExpired = errors.New(
		"claim won nothing: the session may have expired",
	)
)

// subscribe joins the task topics. A task is acknowledged once its fire is claimed, already in
// flight, or owned by another session. From then on the claim carries the fire, so slow calls leave
// no unacknowledged messages.
func (s *Service) subscribe(ctx context.Context) ([]bus.Consumer, error) {
	var consumers []bus.Consumer
	for _, topic := range []bus.Topic{bus.TasksHigh, bus.TasksNormal, bus.TasksLow} {
		low := topic == bus.TasksLow
		atOnce, slots := receiveConcurrency, claimConcurrency
		if low {
			atOnce, slots = receiveLow, 1
		}
		waiting := newClaimQueue(slots, s.met.tasksWaiting)
		c, err := s.opts.Bus.Subscribe(ctx, bus.Subscription{
			Topic:       topic,
			Name:        bus.SubExecutors,
			Concurrency: atOnce,
			MaxBatch:    store.MaxBatch,
			MaxWait:     receiveWait,
			Prefetch:    s.opts.Prefetch,
			DeadLetter:  bus.TasksDead,
		}, func(ctx context.Context, batch []bus.Message) []error {
			return s.receive(ctx, waiting, batch, low)
		})
		if err != nil {
			return consumers, fmt.Errorf("subscribing to %s: %w", topic, err)
		}
		consumers = append(consumers, c)
	}
	c, err := s.opts.Bus.Broadcast(ctx, bus.TimersChanged, s.onTimerChanged)
	if err != nil {
		return consumers, fmt.Errorf("subscribing to broadcasts of %s: %w", bus.TimersChanged, err)
	}
	return append(consumers, c), nil
}

// receive handles a batch of tasks: it queues them and returns when all are answered. Any goroutine
// that holds a slot may make their claim. When the consumer closes, tasks that are still queued are
// redelivered.
func (s *Service) receive(
	ctx context.Context,
	waiting *claimQueue,
	batch []bus.Message,
	low bool,
) []error {
	defer s.storePoller.receiving(low)()
	d := decode(batch)
	waiting.add(d)
	for waiting.hasWaiting(d) {
		select {
		case waiting.slots <- struct{}{}:
			s.claimWithSlot(ctx, waiting, d, low)
		case <-ctx.Done():
			waiting.withdraw(d, context.Cause(ctx))
		}
	}
	<-d.done
	return d.errs
}

func decode(batch []bus.Message) *taskBatch {
	d := &taskBatch{
		tasks: make([]task, 0, len(batch)),
		errs:  make([]error, len(batch)),
		done:  make(chan struct{}),
	}
	for i, m := range batch {
		f, path, err := taskwire.DecodeTask(m.Payload)
		if err != nil {
			d.errs[i] = bus.Permanent(err)
			continue
		}
		d.tasks = append(d.tasks, task{fire: f, path: path, published: m.Published, index: i})
	}
	return d
}

// claimWithSlot makes one claim and frees the slot, even if the claim panics; the bus recovers
// panics.
func (s *Service) claimWithSlot(ctx context.Context, waiting *claimQueue, d *taskBatch, low bool) {
	defer func() { <-waiting.slots }()
	if waiting.hasWaiting(d) { // no other goroutine has taken them meanwhile
		s.claimNext(ctx, waiting, low)
	}
}

// claimNext claims the next batch of queued tasks.
func (s *Service) claimNext(ctx context.Context, waiting *claimQueue, low bool) {
	limit := store.MaxBatch
	if low {
		pause := s.catchUpThrottle.delay()
		if limit = maxLowBatch; pause > 0 {
			limit = minLowBatch
		}
		clock.Pause(ctx, pause)
	}
	epoch, err := s.validEpoch(ctx)
	if err != nil {
		return // the consumer closes
	}
	tasks := waiting.take(limit)
	if len(tasks) == 0 {
		return // other goroutines have claimed them
	}
	errs := bus.SameError(len(tasks), errNotClaimed)
	arrivals := make([]inflight.Arrival, len(tasks))
	// Answer even when the claim panics, because other goroutines wait for it.
	defer func() { waiting.answer(tasks, errs) }()
	for i, t := range tasks {
		arrivals[i] = t.arrival()
	}
	s.noteTaskAge(tasks, low)
	s.met.taskBatch.Observe(float64(len(tasks)))
	source := inflight.FromTask
	if low {
		source = inflight.FromLowTask
	}
	again, err := s.claim(ctx, epoch, arrivals, source)
	clear(errs)
	if err != nil {
		s.log.Debug().Err(err).Int("tasks", len(tasks)).Msg("tasks not claimed, messages nacked")
		errs = bus.SameError(len(tasks), err)
	}
	for _, i := range again {
		errs[i] = errUnconfirmed
	}
}

// validEpoch waits for a valid session. Until then no task is acknowledged, not even one whose fire
// is in flight. The session may have expired, and that task may be the one by which others recover
// the fire. Meanwhile intake unsubscribes, and the queued tasks go to other executors.
func (s *Service) validEpoch(ctx context.Context) (*session.Epoch, error) {
	for {
		epoch, err := s.heartbeater.Wait(ctx)
		if err != nil {
			return nil, err //nolint:wrapcheck // only the end of ctx
		}
		if epoch.Valid() {
			return epoch, nil
		}
		clock.Pause(ctx, validityPollEvery)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// claim adds fires to the in-flight set and claims them in the store.
//
// Two batches with the same fire: the second finds it in the in-flight set and leaves it. Crash
// after the commit: the session expires, and its claims are dispatched again. Lost answer: the
// fires leave the set, their tasks are redelivered, and the repeated claim finds that this session
// owns them.
//
// It returns the indexes of the fires whose task must be redelivered.
func (s *Service) claim(
	ctx context.Context,
	epoch *session.Epoch,
	arrivals []inflight.Arrival,
	source inflight.Source,
) (again []int, err error) {
	es, again, err := s.inflight.Reserve(
		ctx,
		epoch,
		arrivals,
		source,
		s.opts.Clock.Now().UnixMilli(),
	)
	if err != nil || len(es) == 0 {
		return again, err
	}
	s.traces.Asked(es)
	ask := make([]timer.Fire, len(es))
	for i, e := range es {
		ask[i] = e.Fire
	}
	// A closing consumer waits for this call. If ctx cancelled it, the claim might commit unknown
	// to this process, under a session that stays valid until the stop is over.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	kept := false
	defer func() {
		// The claim panicked, and the bus recovers the panic. Fires left in flight would be
		// acknowledged on redelivery, and never called.
		if !kept {
			s.inflight.Remove(es...)
		}
	}()
	won, err := s.opts.Store.Claim(call, epoch.ID, ask)
	if err != nil {
		s.inflight.Remove(es...)
		s.unconfirmedClaims.add(ask) // it may have committed, with its answer lost
		return again, err            //nolint:wrapcheck // the store says what failed
	}
	mine := s.keepClaimed(es, won)
	s.traces.Claimed(mine)
	if source == inflight.FromReadmit {
		for now, i := s.opts.Clock.Now(), 0; i < len(mine); i++ {
			mine[i].MoveTo(now, s.opts.Counts)
		}
	}
	s.met.claimsLost.Add(float64(len(es) - len(mine)))
	if err := s.stateCache.load(call, mine); err != nil {
		// Not fatal: each call reads what is missing.
		s.log.Debug().Err(err).Msg("timers of claimed fires not loaded")
	}
	kept = true
	s.wheel.Add(mine...)
	if len(mine) < len(es) && !epoch.Valid() {
		return again, errSessionExpired
	}
	return again, nil
}

// keepClaimed updates the fires that were won to their stored rows, and drops the others.
func (s *Service) keepClaimed(es []*inflight.Entry, won []timer.Fire) []*inflight.Entry {
	byID := make(map[timer.FireID]*timer.Fire, len(won))
	for i := range won {
		byID[won[i].FireID] = &won[i]
	}
	var mine, lost []*inflight.Entry
	for _, e := range es {
		if f := byID[e.Fire.FireID]; f != nil {
			e.Fire = *f
			mine = append(mine, e)
		} else {
			lost = append(lost, e)
		}
	}
	s.inflight.Confirmed(mine, s.opts.Clock.Now().UnixMilli())
	s.inflight.Remove(lost...)
	return mine
}

// taskAge is how long a task waited, on its topic and here, until its claim.
type taskAge struct {
	ms atomic.Int64
	at clock.Stamp // when it was claimed
}

// noteTaskAge records the age of the oldest task of a claim, for the reported load. The
// low-priority topic has its own entry, because it may be far behind when the others are not.
func (s *Service) noteTaskAge(tasks []*task, low bool) {
	oldest := tasks[0].published
	for _, t := range tasks {
		if t.published.Before(oldest) {
			oldest = t.published
		}
	}
	if oldest.IsZero() {
		return
	}
	age := max(0, s.opts.Clock.Now().Sub(oldest))
	a := &s.taskAges[0]
	if !low {
		a = &s.taskAges[1]
		s.met.taskAge.Set(age.Seconds())
	}
	a.ms.Store(age.Milliseconds())
	a.at.Set()
}
