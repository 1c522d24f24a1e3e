package intake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/pickup"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/firetrace"
	"github.com/carillon-timer/carillon/services/executor/internal/hold"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// Store is the part of the store that an intake uses.
type Store interface {
	pickup.Store
	store.Sessions
	Claim(ctx context.Context, session timer.ID, fires []timer.Fire) (won []timer.Fire, err error)
	RecordAttempts(
		ctx context.Context, session timer.ID, fires []timer.Fire, attempts []timer.Attempt,
	) (lost []timer.FireID, err error)
}

// Options of an intake.
type Options struct {
	Store       Store
	Bus         bus.Subscriber
	Clock       *clock.Clock
	Counts      *slicing.Counts
	Heartbeater *session.Heartbeater
	Inflight    *inflight.Set
	Wheel       *hold.Wheel       // claimed fires go there
	Traces      *firetrace.Traces // nil: tracing is off
	// Load reads what is known of the timers of claimed fires. After an error each call reads it.
	Load func(ctx context.Context, es []*inflight.Entry) error
	// TimerChanged handles change notifications, which come by a subscription of their own.
	TimerChanged func(ctx context.Context, m bus.Message)

	Prefetch int // tasks waiting in the consumer per partition
	// PollAhead is how long before its run time a fire without a task is polled; 0: never.
	PollAhead time.Duration

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Intake claims fires: those that tasks name, and those that it finds in the store without a task.
// Claimed fires are in flight, and go to the wheel.
type Intake struct {
	opts       Options
	log        zerolog.Logger
	met        *metrics
	subscribed atomic.Bool

	onTime, low arrivals // of the topics but the low-priority one, and of that
	throttle    catchUpThrottle
	poller      *pickup.Poller
	unconfirmed unconfirmedClaims
	// readmissions counts calls of ReadmitSome.
	readmissions atomic.Int64
}

// New returns an intake that does nothing until Receive and Poll.
func New(o Options) (*Intake, error) {
	in := &Intake{
		opts: o,
		log:  o.Logger,
		met:  newMetrics(o.Registerer),
		// as many as may be in flight; the routine check finds any others
		unconfirmed: unconfirmedClaims{most: o.Inflight.Max()},
	}
	var err error
	if in.poller, err = newPoller(in); err != nil {
		return nil, err
	}
	return in, nil
}

// Ready returns nil once tasks have been received, until Receive ends. With a new session, tasks may
// have to wait for the bus; meanwhile the polls find fires.
func (in *Intake) Ready() error {
	if !in.subscribed.Load() {
		return errors.New("not subscribed to the task topics")
	}
	return nil
}

// OldestTaskMS returns the age of the oldest task at its claim, in milliseconds, for the reported
// load. Of each topic the last claim counts, for a while, and how long tasks have waited here for
// theirs.
func (in *Intake) OldestTaskMS() (ms int64) {
	for _, l := range []*arrivals{&in.onTime, &in.low} {
		if l.age.at.Within(taskAgeValidFor) {
			ms = max(ms, l.age.ms.Load())
		}
		waits, _ := l.oldestWait()
		ms = max(ms, waits.Milliseconds())
	}
	return ms
}

// Receive receives tasks while the session is valid, until ctx ends. An executor that reaches the
// bus but not the store unsubscribes, so that others get the tasks.
func (in *Intake) Receive(ctx context.Context) error {
	defer in.subscribed.Store(false)
	for ctx.Err() == nil {
		epoch, err := in.validEpoch(ctx)
		if err != nil {
			return nil // stopped before there was a session
		}
		if err := in.receiveDuring(ctx, epoch); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// receiveDuring receives tasks until the session is no longer valid, or ctx ends. It then gives up
// the topics that it still waits for, too.
func (in *Intake) receiveDuring(ctx context.Context, epoch *session.Epoch) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var expiry sync.WaitGroup
	expiry.Go(func() { defer end(); epoch.AwaitExpiry(ctx) })
	consumers, err := in.subscribe(ctx)
	switch {
	case err == nil:
		in.subscribed.Store(true)
		<-ctx.Done()
	case ctx.Err() != nil:
		err = nil
	}
	end()
	expiry.Wait()
	return errors.Join(err, closeAll(consumers))
}

// closeAll closes the consumers concurrently, because each may wait for a broker that does not
// answer.
func closeAll(consumers []bus.Consumer) error {
	var g errgroup.Group
	for _, c := range consumers {
		g.Go(func() error {
			if err := c.Close(); err != nil {
				return fmt.Errorf("closing a consumer: %w", err)
			}
			return nil
		})
	}
	return g.Wait() //nolint:wrapcheck // already wrapped
}

// Poll claims fires without a task, until ctx ends: those that the store polls find, and those of
// this session that are not in flight. It also expires the sessions that no longer renew.
func (in *Intake) Poll(ctx context.Context) {
	var g sync.WaitGroup
	g.Go(func() { in.monitorSessions(ctx) })
	g.Go(func() { in.confirmClaims(ctx) })
	g.Go(func() { in.pollStore(ctx) })
	g.Wait()
}

// ObserveStart records how late after its run time the first attempt of an on-time fire starts.
// Catch-up yields while such fires start late.
func (in *Intake) ObserveStart(late time.Duration) { in.throttle.observe(late) }
