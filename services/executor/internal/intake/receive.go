package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/taskwire"
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

// subscribe joins the task topics and hears change notifications. It returns once it has all of
// them. A topic that is unavailable holds up no other: their tasks are received meanwhile. After an
// error, or when ctx ends, it returns the consumers that it has.
func (in *Intake) subscribe(ctx context.Context) (consumers []bus.Consumer, err error) {
	topics := []bus.Topic{bus.TasksHigh, bus.TasksNormal, bus.TasksLow, bus.TimersChanged}
	consumers = make([]bus.Consumer, len(topics))
	g, ctx := errgroup.WithContext(ctx)
	for i, topic := range topics {
		g.Go(func() (err error) {
			if topic == bus.TimersChanged {
				consumers[i], err = in.opts.Bus.Broadcast(ctx, topic, in.opts.TimerChanged)
			} else {
				consumers[i], err = in.subscribeTo(ctx, topic)
			}
			if err != nil {
				consumers[i] = nil
				return fmt.Errorf("subscribing to %s: %w", topic, err)
			}
			return nil
		})
	}
	err = g.Wait()
	return slices.DeleteFunc(consumers, func(c bus.Consumer) bool { return c == nil }), err
}

// subscribeTo joins a task topic. A task is acknowledged once its fire is claimed, already in
// flight, or owned by another session. From then on the claim carries the fire, so slow calls leave
// no unacknowledged messages.
func (in *Intake) subscribeTo(ctx context.Context, topic bus.Topic) (bus.Consumer, error) {
	low := topic == bus.TasksLow
	atOnce, slots := receiveConcurrency, claimConcurrency
	if low {
		atOnce, slots = receiveLow, 1
	}
	waiting := newClaimQueue(slots, in.met.tasksWaiting)
	//nolint:wrapcheck // the caller names the topic
	return in.opts.Bus.Subscribe(ctx, bus.Subscription{
		Topic:       topic,
		Name:        bus.SubExecutors,
		Concurrency: atOnce,
		MaxBatch:    store.MaxBatch,
		MaxWait:     receiveWait,
		Prefetch:    in.opts.Prefetch,
		DeadLetter:  bus.TasksDead,
	}, func(ctx context.Context, batch []bus.Message) []error {
		return in.receive(ctx, waiting, batch, low)
	})
}

// receive handles a batch of tasks: it queues them and returns when all are answered. Any goroutine
// that holds a slot may make their claim. When the consumer closes, tasks that are still queued are
// redelivered.
func (in *Intake) receive(
	ctx context.Context,
	waiting *claimQueue,
	batch []bus.Message,
	low bool,
) []error {
	defer in.arrivalsOf(low).receiving()()
	d := decode(batch)
	waiting.add(d)
	for waiting.hasWaiting(d) {
		select {
		case waiting.slots <- struct{}{}:
			in.claimWithSlot(ctx, waiting, d, low)
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
func (in *Intake) claimWithSlot(ctx context.Context, waiting *claimQueue, d *taskBatch, low bool) {
	defer func() { <-waiting.slots }()
	if waiting.hasWaiting(d) { // no other goroutine has taken them meanwhile
		in.claimNext(ctx, waiting, low)
	}
}

// claimNext claims the next batch of queued tasks.
func (in *Intake) claimNext(ctx context.Context, waiting *claimQueue, low bool) {
	limit := store.MaxBatch
	if low {
		pause := in.throttle.delay()
		if limit = maxLowBatch; pause > 0 {
			limit = minLowBatch
		}
		clock.Pause(ctx, pause)
	}
	epoch, err := in.validEpoch(ctx)
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
	in.noteTaskAge(tasks, low)
	in.met.taskBatch.Observe(float64(len(tasks)))
	source := inflight.FromTask
	if low {
		source = inflight.FromLowTask
	}
	_, again, err := in.claim(ctx, epoch, arrivals, source)
	clear(errs)
	if err != nil {
		in.log.Debug().Err(err).Int("tasks", len(tasks)).Msg("tasks not claimed, messages nacked")
		errs = bus.SameError(len(tasks), err)
	}
	for _, i := range again {
		errs[i] = errUnconfirmed
	}
}

// validEpoch waits for a valid session. Until then no task is acknowledged, not even one whose fire
// is in flight. The session may have expired, and that task may be the one by which others recover
// the fire. Meanwhile Receive unsubscribes, and the queued tasks go to other executors.
func (in *Intake) validEpoch(ctx context.Context) (*session.Epoch, error) {
	for {
		epoch, err := in.opts.Heartbeater.Wait(ctx)
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

// noteTaskAge records the age of the oldest task of a claim, for the reported load. The
// low-priority topic has its own entry, because it may be far behind when the others are not.
func (in *Intake) noteTaskAge(tasks []*task, low bool) {
	oldest := tasks[0].published
	for _, t := range tasks {
		if t.published.Before(oldest) {
			oldest = t.published
		}
	}
	if oldest.IsZero() {
		return
	}
	age := max(0, in.opts.Clock.Now().Sub(oldest))
	if !low {
		in.met.taskAge.Set(age.Seconds())
	}
	a := &in.arrivalsOf(low).age
	a.ms.Store(age.Milliseconds())
	a.at.Set()
}
