package executor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/delivery"
	"github.com/carillon-timer/carillon/services/executor/internal/events"
	"github.com/carillon-timer/carillon/services/executor/internal/firetrace"
	"github.com/carillon-timer/carillon/services/executor/internal/hold"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/intake"
	"github.com/carillon-timer/carillon/services/executor/internal/order"
	"github.com/carillon-timer/carillon/services/executor/internal/record"
)

// Service is an executor.
type Service struct {
	opts        Options
	log         zerolog.Logger
	newerValues zerolog.Logger // rate-limited, for fires of a newer release
	heartbeater *session.Heartbeater
	inflight    *inflight.Set
	intake      *intake.Intake
	wheel       *hold.Wheel
	queue       *hold.Ready[*candidate]
	cache       *cache.Cache
	recorder    *record.Recorder
	events      *events.Publisher
	lookups     *lookups
	deliverer   *delivery.Deliverer
	order       *order.Sequencer
	traces      *firetrace.Traces // nil: tracing is off
	met         *metrics

	workers     sync.WaitGroup
	workersMu   sync.Mutex
	workerCount int
	draining    bool
}

// New returns an executor that does nothing until Run.
func New(opts Options) (*Service, error) {
	opts.defaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Service{
		opts:        opts,
		log:         opts.Logger,
		newerValues: opts.Logger.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Second}),
		wheel:       hold.NewWheel(),
		traces:      firetrace.New(opts.Tracer, opts.Clock.Now),
	}
	s.inflight = inflight.New(opts.MaxInflight, func() bool { return s.recorder.Full() })
	s.events = events.New(events.Options{
		Store:      opts.Store,
		Bus:        opts.Bus,
		Clock:      opts.Clock,
		Epoch:      func() *session.Epoch { return s.heartbeater.Epoch() },
		Logger:     opts.Logger,
		Registerer: opts.Registerer,
	})
	s.recorder = record.New(record.Options{
		Store:       opts.Store,
		Dispatch:    opts.Dispatch,
		Inflight:    s.inflight,
		Events:      s.events,
		Ended:       s.ended,
		Held:        s.wheel.Add,
		Room:        func() { s.queue.Wake(); s.inflight.Wake() },
		Unconfirmed: func(f timer.Fire) { s.intake.Unconfirmed(f) },
		Traces:      s.traces,
		Current:     func(id timer.ID, v int32) bool { return s.cache.Timers.Current(id, v) },
		Logger:      opts.Logger,
		Registerer:  opts.Registerer,
	})
	active := delivery.NewActive()
	s.cache = cache.New(cache.Options{
		Store:        opts.Store,
		Clock:        opts.Clock,
		SetLimits:    opts.Limits.Set,
		Egress:       opts.Egress,
		Opener:       opts.Opener,
		Written:      func() time.Time { return s.heartbeater.Written() },
		PollInterval: opts.ChangePollInterval,
		MaxInflight:  opts.MaxInflight,
		Changed:      active.CancelSuperseded,
		Logged:       s.recorder.TimerChanged,
		Missed:       s.recorder.ChangesMissed,
		Logger:       opts.Logger,
	})
	s.queue = hold.NewReady[*candidate](s.recorder.Full)
	var err error
	s.heartbeater, err = session.NewHeartbeater(session.Options{
		Store:  opts.Store,
		Clock:  opts.Clock,
		IDs:    opts.IDs,
		Kind:   store.ExecutorSession,
		Name:   opts.Name,
		Load:   s.load,
		Logger: opts.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("executor: %w", err)
	}
	s.intake, err = intake.New(intake.Options{
		Store:        opts.Store,
		Bus:          opts.Bus,
		Clock:        opts.Clock,
		Counts:       opts.Counts,
		Heartbeater:  s.heartbeater,
		Inflight:     s.inflight,
		Wheel:        s.wheel,
		Traces:       s.traces,
		Load:         s.cache.Timers.Load,
		TimerChanged: s.timerChanged,
		Prefetch:     opts.Prefetch,
		PollAhead:    opts.PollAhead,
		Logger:       opts.Logger,
		Registerer:   opts.Registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("executor: %w", err)
	}
	s.order = order.New(order.Options{
		Store:      opts.Store,
		Planner:    opts.Planner,
		Clock:      opts.Clock,
		Inflight:   s.inflight,
		Wheel:      s.wheel,
		Claim:      s.intake.ClaimEarlier,
		Room:       s.intake.LateRoom,
		Alive:      s.intake.Alive,
		Logger:     opts.Logger,
		Registerer: opts.Registerer,
	})
	s.lookups = newLookups(s)
	s.deliverer = s.newDeliverer(active)
	s.met = newMetrics(s, opts.Registerer)
	return s, nil
}

func (s *Service) newDeliverer(active *delivery.Active) *delivery.Deliverer {
	opts := &s.opts
	return delivery.New(delivery.Options{
		Store:         opts.Store,
		Planner:       opts.Planner,
		Committed:     opts.Dispatch.Committed,
		Caller:        opts.Caller,
		Tokens:        opts.Tokens,
		Limits:        opts.Limits,
		Breakers:      opts.Breakers,
		Clock:         opts.Clock,
		Counts:        opts.Counts,
		Inflight:      s.inflight,
		Wheel:         s.wheel,
		Recorder:      s.recorder,
		Order:         s.order,
		Traces:        s.traces,
		Active:        active,
		Lookups:       &s.lookups.Set,
		Calendars:     s.cache.Calendars,
		ReadCalendars: s.lookups.calendars,
		Permitted: func(e *inflight.Entry) {
			s.startWorkers(s.queue.PushPermitted(hold.Due[*candidate]{Entry: e}))
		},
		Callable:   s.stillCallable,
		Recheck:    s.recheckLater,
		Starts:     s.intake.ObserveStart,
		Logger:     opts.Logger,
		Registerer: opts.Registerer,
	})
}

// timerChanged handles a message of the topic of change notifications.
func (s *Service) timerChanged(ctx context.Context, m bus.Message) {
	if s.opts.PeerNotice == nil || !s.opts.PeerNotice(m) {
		s.cache.TimerChanged(ctx, m)
	}
}

// readClock returns the time, and whether calls may start by it. After a jump of the host's clock
// they may once the clock is measured, the session renewed and the change log read again: the host
// may have been suspended, for a time that no clock of this process tells.
func (s *Service) readClock() (now time.Time, steady bool) {
	now, steady = s.opts.Clock.Read()
	at := s.opts.Clock.JumpedAt()
	if at.IsZero() {
		return now, steady
	}
	epoch := s.heartbeater.Epoch()
	return now, steady && s.cache.Timers.PolledSince(at) && (epoch == nil || epoch.RenewedSince(at))
}

// Ready returns nil while the executor receives tasks and may start calls.
func (s *Service) Ready() error {
	if err := s.intake.Ready(); err != nil {
		return err //nolint:wrapcheck // it says what is missing
	}
	return s.heartbeater.Ready()
}

// Run calls fires until ctx ends. Then it takes no more tasks, releases the fires not started, and
// waits for calls in flight, at most DrainTimeout. It records their results, for which it takes at
// most RecordTimeout more, and closes its session.
func (s *Service) Run(ctx context.Context) error {
	// There are three lifetimes. ctx bounds the intake. Recording ends after the drain. The session
	// outlives both.
	drainCtx, endDrain := context.WithCancel(context.WithoutCancel(ctx))
	defer endDrain()
	writeCtx, endWrite := context.WithCancel(drainCtx)
	defer endWrite()
	defer s.lookups.Close()

	stopped := make(chan time.Time, 1)
	defer context.AfterFunc(ctx, func() { stopped <- time.Now() })()
	var sessionLoops, writers sync.WaitGroup
	sessionCtx, endSession := context.WithCancel(drainCtx)
	defer endSession()
	sessionLoops.Go(func() { _ = s.heartbeater.Run(sessionCtx) })
	sessionLoops.Go(func() { s.intake.DropClaims(sessionCtx) })
	writers.Go(func() { s.recorder.Run(writeCtx) })
	writers.Go(func() { s.events.Run(writeCtx) })

	g, runCtx := errgroup.WithContext(ctx)
	g.Go(func() error { s.cache.Run(runCtx); return nil })
	sessionLoops.Go(func() { _ = s.opts.Limits.Run(sessionCtx) })
	g.Go(func() error { s.intake.Poll(runCtx); return nil })
	g.Go(func() error { return s.readmitOnLimitChange(runCtx) })
	g.Go(func() error { return s.reviseWaits(runCtx) })
	// In-flight fires are called on time until receiving has ended. Unsubscribing from a busy broker
	// may take seconds, and only then does the drain release the rest.
	wheelCtx, endWheel := context.WithCancel(drainCtx)
	defer endWheel()
	g.Go(func() error { s.wheel.Run(wheelCtx, s.readClock, s.enqueueDue); return nil })
	g.Go(func() error { s.order.Run(wheelCtx); return nil })
	g.Go(func() error { defer endWheel(); return s.intake.Receive(runCtx) })
	err := g.Wait()

	left := s.opts.DrainTimeout
	select {
	case at := <-stopped: // unsubscribing has taken some of it
		left -= time.Since(at)
	default:
	}
	s.drain(drainCtx, left)
	endWrite()
	writers.Wait()
	endSession()
	sessionLoops.Wait()
	return err //nolint:wrapcheck // each component wraps its errors
}

// drainCheckEvery is the time between looks for fires to release, and for results that the drain
// waits for.
const drainCheckEvery = 4 * time.Millisecond

// drain releases the fires that wait, at once, and waits for calls in flight until timeout. Then it
// cancels these. It records what ended by then, for at most RecordTimeout more. What that leaves
// undone, other executors recover after the session has ended.
func (s *Service) drain(ctx context.Context, timeout time.Duration) {
	recordCtx, cancel := context.WithTimeout(ctx, max(timeout, 0)+s.opts.RecordTimeout)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, timeout)
	defer cancel()
	idle := s.deliverer.Close() // first: it pushes nothing to the queue any more
	idle = slices.Concat(idle, s.order.Close())
	for _, d := range s.queue.Close() {
		if d.Known != nil {
			d.Known.granted.Release()
		}
		idle = append(idle, d.Entry)
	}
	s.workersMu.Lock()
	s.draining = true
	s.workersMu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.workers.Wait()
	}()
	for _, e := range idle {
		s.deliverer.Release(e)
	}
	tick := time.NewTicker(drainCheckEvery)
	defer tick.Stop()
	for busy := true; busy; {
		s.releaseHeld()
		select {
		case <-done:
			busy = false
		case <-ctx.Done():
			s.log.Warn().Msg("drain timeout, calls in flight cancelled")
			if t := s.heartbeater.Epoch(); t != nil {
				t.Fence()
			}
			<-done
			busy = false
		case <-tick.C:
		}
	}
	// Lookups pass results to the recorder. So check for unanswered questions first, then for
	// unwritten results, and clear the wheel after that.
	for recordCtx.Err() == nil {
		busy := s.deliverer.Waiting()+s.lookups.Pending() > 0
		busy = s.recorder.Waiting() > 0 || busy
		if released := s.releaseHeld(); released == 0 && !busy {
			return
		}
		<-tick.C
	}
}

// releaseHeld releases the fires on the wheel. While calls are in flight, the recorder puts retries
// there, and lookups put fires there that they could not decide.
func (s *Service) releaseHeld() (released int) {
	held := s.wheel.Clear()
	for _, e := range held {
		s.deliverer.Release(e)
	}
	return len(held)
}

// load returns the load that the session's heartbeat reports.
func (s *Service) load() store.Load {
	return store.Load{InflightFull: s.inflight.Full(), OldestTaskMS: s.intake.OldestTaskMS()}
}
