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
)

const (
	// receiveConcurrency is how many batches of a topic's tasks wait for their claim here, where the
	// apps take turns. What there is no room for stays on the topic and stands before whatever
	// comes behind it: 50,000 at one instant were 30,000 too many for 32 batches of two executors.
	receiveConcurrency = 128
	receiveLow         = 16 // of the low-priority topic, where one claim is made at a time
	claimConcurrency   = 2  // claims per topic
	receiveWait        = 5 * time.Millisecond
	claimTimeout       = 5 * time.Second
	validityPollEvery  = 100 * time.Millisecond // between looks whether the session is trusted
	// catch-up is claimed in smaller batches, so that it can give way,.
	maxLowBatch = store.MaxBatch / 2
	minLowBatch = 100 // and while the present is pressed in very small ones
	// catch-up is received while less than 1/lowShare of the hands is taken,.
	lowShare = 2
	maxLate  = 1000 // and while fewer late fires wait for their call
	// after which a lane that brings nothing is not behind any more.
	taskAgeValidFor = 2 * maxCatchUpDelay
)

var (
	errNotClaimed  = errors.New("the claim was broken off")
	errUnconfirmed = errors.New(
		"an earlier revision of the fire is in hand, or its claim is in doubt",
	)
	// errSessionExpired lets the tasks of a claim come again: a session that was ended wins nothing,
	// which says nothing of the fires. Who ended it looked for what it had claimed before this, and
	// others for what was handed to it later still.
	errSessionExpired = errors.New(
		"the session may have been ended, and the claim won nothing for that",
	)
)

// subscribe joins the tasks topics. A task is acknowledged when its fire is claimed, in hand
// already, or another's: from then on the claim carries it, and the broker has nothing
// unacknowledged of slow calls.
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
		return consumers, fmt.Errorf("listening to %s: %w", bus.TimersChanged, err)
	}
	return append(consumers, c), nil
}

// receive handles a batch of tasks: they wait for their claim, whoever makes it. When the consumer
// closes, those that nobody has taken come again.
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

func decode(batch []bus.Message) *delivery {
	d := &delivery{
		tasks: make([]task, 0, len(batch)),
		errs:  make([]error, len(batch)),
		done:  make(chan struct{}),
	}
	for i, m := range batch {
		f, err := taskwire.Decode(m.Payload)
		if err != nil {
			d.errs[i] = bus.Permanent(err)
			continue
		}
		d.tasks = append(d.tasks, task{fire: f, published: m.Published, index: i})
	}
	return d
}

// claimWithSlot gives the slot back whatever happens, a panic included, which the bus survives.
func (s *Service) claimWithSlot(ctx context.Context, waiting *claimQueue, d *delivery, low bool) {
	defer func() { <-waiting.slots }()
	if waiting.hasWaiting(d) { // nobody has taken them meanwhile
		s.claimNext(ctx, waiting, low)
	}
}

// claimNext claims the next batch of those that wait.
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
		return // closing
	}
	tasks := waiting.take(limit)
	if len(tasks) == 0 {
		return // others have claimed them
	}
	fires, errs := make([]timer.Fire, len(tasks)), bus.SameError(len(tasks), errNotClaimed)
	// also of a claim that panics: others wait for it.
	defer func() { waiting.answer(tasks, errs) }()
	for i, t := range tasks {
		fires[i] = t.fire
	}
	s.noteTaskAge(tasks, low)
	s.met.taskBatch.Observe(float64(len(tasks)))
	source := sourceTask
	if low {
		source = sourceLowTask
	}
	again, err := s.claim(ctx, epoch, fires, source)
	clear(errs)
	if err != nil {
		s.log.Debug().Err(err).Int("tasks", len(fires)).Msg("tasks not claimed, to be redelivered")
		errs = bus.SameError(len(tasks), err)
	}
	for _, i := range again {
		errs[i] = errUnconfirmed
	}
}

// validEpoch waits for a session that is trusted. While there is none nothing is taken, not even the
// task of a fire that is in hand: the session may be dead, and the task the one by which others
// shall take the fire over. The intake leaves the topics then, and what waits here goes to others.
func (s *Service) validEpoch(ctx context.Context) (*session.Epoch, error) {
	for {
		epoch, err := s.heartbeater.Wait(ctx)
		if err != nil {
			return nil, err //nolint:wrapcheck // only that the consumer closes
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

// claim takes fires in hand and claims them. Two batches with the same fire: the second does not
// find it free in the hands. Dying after the claim's commit: the session dies too, and its claims
// are dispatched again. An answer that was lost: the entries leave the hands, the tasks come again,
// and the claim finds that they are the session's already.
//
// It returns the places of fires whose task has to come again.
func (s *Service) claim(
	ctx context.Context,
	epoch *session.Epoch,
	fires []timer.Fire,
	source claimSource,
) (again []int, err error) {
	es, again, err := s.inflight.reserve(ctx, epoch, fires, source, s.opts.Clock.Now().UnixMilli())
	if err != nil || len(es) == 0 {
		return again, err
	}
	ask := make([]timer.Fire, len(es))
	for i, e := range es {
		ask[i] = e.fire
	}
	// A consumer that closes waits for this. Cut off instead, the claim might be committed without
	// anybody knowing, under a session that lives on for as long as the stop takes.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	kept := false
	defer func() {
		// by a panic, which the bus survives: left in hand, they would be acknowledged when they
		// come again, and called by nobody.
		if !kept {
			s.inflight.remove(es...)
		}
	}()
	won, err := s.opts.Store.Claim(call, epoch.ID, ask)
	if err != nil {
		s.inflight.remove(es...)
		s.unconfirmedClaims.add(ask) // or it was done, and only its answer lost
		return again, err            //nolint:wrapcheck // the store says what it was doing
	}
	mine := s.keepClaimed(es, won)
	if source == sourceReadmit {
		for now, i := s.opts.Clock.Now(), 0; i < len(mine); i++ {
			s.moveTo(mine[i], now)
		}
	}
	s.met.claimsLost.Add(float64(len(es) - len(mine)))
	if err := s.stateCache.load(call, mine); err != nil {
		// Not fatal: each call asks again for what is missing.
		s.log.Debug().Err(err).Msg("timers of claimed fires not read ahead")
	}
	kept = true
	s.wheel.add(mine...)
	if len(mine) < len(es) && !epoch.Valid() {
		return again, errSessionExpired
	}
	return again, nil
}

// keepClaimed gives entries what the store says of their fires, and drops those that were not won.
func (s *Service) keepClaimed(es []*claimedFire, won []timer.Fire) []*claimedFire {
	byID := make(map[timer.FireID]*timer.Fire, len(won))
	for i := range won {
		byID[won[i].FireID] = &won[i]
	}
	var mine, lost []*claimedFire
	for _, e := range es {
		if f := byID[e.fire.FireID]; f != nil {
			e.fire = *f
			mine = append(mine, e)
		} else {
			lost = append(lost, e)
		}
	}
	s.inflight.confirmed(mine)
	s.inflight.remove(lost...)
	return mine
}

// taskAge is how long a task had waited, on its topic and here, when it was claimed.
type taskAge struct {
	ms atomic.Int64
	at clock.Stamp // its claim
}

// noteTaskAge notes how old the oldest task of a claim is, for the session's report of load. The
// low-priority topic's is noted apart: while it is far behind, the others are not.
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
