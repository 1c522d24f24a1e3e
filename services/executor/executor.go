package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Service is an executor.
type Service struct {
	opts      Options
	log       zerolog.Logger
	keeper    *session.Heartbeater
	hands     *hands
	wheel     *wheel
	queue     *queue
	book      *book
	recorder  *recorder
	events    *announcer
	ask       *batch.Group[timer.ID, timer.State]
	turns     *batch.Group[turnAsk, store.SlotResult]
	catchUps  *batch.Group[store.Late, bool]
	deferrals *batch.Group[deferral, bool]
	past      inactivities
	calls     *calls
	dates     *calendars
	fills     *backfills
	tenants   *tenants
	nudges    chan timer.ID
	met       *metrics

	workers  sync.WaitGroup
	nWorkers atomic.Int64
	ages     [2]taskAge // of the task received last by the low-priority topic, and by another
	joined   atomic.Bool

	doubts doubts
	pace   pace
	bypass bypass
}

// New returns an executor that does nothing until Run.
func New(opts Options) (*Service, error) {
	opts.defaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	b, err := newBook(opts.Store)
	if err != nil {
		return nil, err
	}
	s := &Service{
		opts: opts, log: opts.Logger, hands: newHands(opts.MaxInflight), wheel: newWheel(), book: b,
		nudges: make(chan timer.ID, nudgesMax), calls: newCalls(),
	}
	if s.dates, err = newCalendars(opts.Store); err != nil {
		return nil, err
	}
	if s.fills, err = newBackfills(opts.Store); err != nil {
		return nil, err
	}
	if s.past.kept, err = lru.New[pastKey, []timer.Inactivity](pastKept); err != nil {
		return nil, fmt.Errorf("making the cache of inactivities: %w", err)
	}
	s.tenants = newTenants(&opts)
	s.recorder, s.events = newRecorder(s), newAnnouncer(s)
	s.queue = newQueue(s.recorder.full)
	s.met = newMetrics(s, opts.Registerer)
	s.keeper, err = session.NewHeartbeater(session.Options{
		Store:  opts.Store,
		IDs:    opts.IDs,
		Kind:   store.ExecutorSession,
		Name:   opts.Name,
		Load:   s.load,
		Logger: opts.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("executor: %w", err)
	}
	return s, nil
}

// Ready tells whether fires that come are called.
func (s *Service) Ready() error {
	if !s.joined.Load() {
		return errors.New("not subscribed to the tasks topics")
	}
	return s.keeper.Ready()
}

// Run calls fires until ctx ends. Then it takes no more, lets calls in flight end (DrainTimeout at
// most), records what they came to, gives back what has not started, and closes its session.
func (s *Service) Run(ctx context.Context) error {
	// Three lives: ctx is the intake's; recording goes on until the drain is over; the session
	// outlives both.
	hard, endHard := context.WithCancel(context.WithoutCancel(ctx))
	defer endHard()
	write, endWrite := context.WithCancel(hard)
	defer endWrite()
	s.ask = batch.New(
		batch.Options{
			Max:     store.MaxBatch,
			Wait:    time.Millisecond,
			AtOnce:  2,
			Timeout: changesTimeout,
		},
		s.book.read,
	)
	defer s.ask.Close()
	s.turns = batch.New(
		batch.Options{Max: store.MaxBatch, Wait: gateWait, AtOnce: 2, Timeout: gateTimeout},
		s.enter,
	)
	defer s.turns.Close()
	s.catchUps = batch.New(
		batch.Options{Max: store.MaxBatch, Wait: gateWait, AtOnce: 1, Timeout: gateTimeout},
		s.opts.Store.CatchUp,
	)
	defer s.catchUps.Close()
	s.deferrals = batch.New(
		batch.Options{Max: store.MaxBatch, Wait: gateWait, AtOnce: 1, Timeout: gateTimeout},
		s.deferAll,
	)
	defer s.deferrals.Close()
	s.past.ask = batch.New(
		batch.Options{Max: store.MaxBatch, Wait: gateWait, AtOnce: 1, Timeout: gateTimeout},
		s.readInactivities,
	)
	defer s.past.ask.Close()

	var keep, written sync.WaitGroup
	keepCtx, endKeep := context.WithCancel(hard)
	defer endKeep()
	keep.Go(func() { _ = s.keeper.Run(keepCtx) })
	keep.Go(func() { s.mourn(keepCtx) })
	written.Go(func() { s.recorder.run(write) })
	written.Go(func() { s.events.run(write) })

	g, run := errgroup.WithContext(ctx)
	g.Go(func() error { return s.readChanges(run) })
	g.Go(func() error { return s.readNudged(run) })
	keep.Go(func() { _ = s.opts.Limits.Run(keepCtx) })
	g.Go(func() error { return s.watch(run) })
	g.Go(func() error { return s.reclaim(run) })
	g.Go(func() error { return s.goAround(run) })
	g.Go(func() error { return s.liftLimits(run) })
	// What is in hand is called on time until no more comes: to leave the topics may take a busy
	// broker seconds, and only then is the rest given back.
	turning, endTurning := context.WithCancel(hard)
	defer endTurning()
	g.Go(func() error { s.wheel.run(turning, s.opts.Clock.Look, s.due); return nil })
	g.Go(func() error { defer endTurning(); return s.intake(run) })
	err := g.Wait()

	s.drain(hard)
	endWrite()
	written.Wait()
	last := s.keeper.Epoch()
	endKeep()
	keep.Wait()
	s.bequeath(hard, last)
	return err //nolint:wrapcheck // each part says what it was doing
}

// intake receives while the session is trusted, until ctx ends. An executor that is cut off from
// the store but not from the bus would else keep tasks that others could claim.
func (s *Service) intake(ctx context.Context) error {
	for ctx.Err() == nil {
		term, err := s.trusted(ctx)
		if err != nil {
			return nil //nolint:nilerr // stopped before there was a session
		}
		consumers, err := s.subscribe(ctx)
		if err == nil {
			s.joined.Store(true)
			term.AwaitExpiry(ctx)
		}
		s.joined.Store(false)
		err = errors.Join(err, leave(consumers))
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// leave closes consumers, all at once: each may wait for a broker that does not answer.
func leave(consumers []bus.Consumer) error {
	var g errgroup.Group
	for _, c := range consumers {
		g.Go(func() error {
			if err := c.Close(); err != nil {
				return fmt.Errorf("leaving a topic: %w", err)
			}
			return nil
		})
	}
	return g.Wait() //nolint:wrapcheck // wrapped above
}

// bequeath dispatches what the closed session still owned: nobody else is told of its end. Most
// often that is nothing.
func (s *Service) bequeath(ctx context.Context, last *session.Epoch) {
	if last == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if err := s.inherit(
		ctx,
		[]store.Session{{ID: last.ID, Kind: store.ExecutorSession}},
	); err != nil {
		s.log.Warn().Err(err).Msg("claims of the closed session left to the sweep")
	}
}

// mourn empties the hands of each term that ends.
func (s *Service) mourn(ctx context.Context) {
	for {
		term, err := s.keeper.Wait(ctx)
		if err != nil {
			return
		}
		select {
		case <-term.Done():
		case <-ctx.Done():
			return
		}
		if n := s.hands.dropTerm(term); n > 0 {
			s.log.Warn().
				Int64("session", int64(term.ID)).
				Int("fires", n).
				Msg("hands emptied after the session's end")
		}
		for s.keeper.Epoch() == term && ctx.Err() == nil { // it was cut, and is still to be closed
			clock.Pause(ctx, trustEvery)
		}
	}
}

// drain waits for what is in flight and gives back the rest. What it does not get done within
// DrainTimeout, the session's end leaves to others.
func (s *Service) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.DrainTimeout)
	defer cancel()
	waiting := s.opts.Limits.Close() // first: what waits there comes to the queue no more
	idle := append(s.wheel.clear(), s.queue.close()...)
	for _, w := range waiting {
		idle = append(idle, w.(*waiter).entry) //nolint:forcetypeassert // only allow has any wait
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.workers.Wait()
	}()
	for _, e := range idle {
		s.giveBack(e)
	}
	select {
	case <-done:
	case <-ctx.Done():
		s.log.Warn().Msg("calls in flight cut off by the drain timeout")
		if t := s.keeper.Epoch(); t != nil {
			t.Fence()
		}
		<-done
	}
	// Workers may have put retries and questions back onto the wheel, and what is being recorded
	// may put more there: so first see whether anything is, then what the wheel holds.
	tick := time.NewTicker(recordWait)
	defer tick.Stop()
	for ctx.Err() == nil {
		busy := s.recorder.waiting() > 0
		left := s.wheel.clear()
		for _, e := range left {
			s.giveBack(e)
		}
		if !busy && len(left) == 0 {
			return
		}
		<-tick.C
	}
}

// giveBack releases a fire that was not begun. Whoever gets it shall know where it waited for a
// limit or a breaker, and is late for that.
func (s *Service) giveBack(e *held) {
	e.granted.unused()
	if now := s.opts.Clock.Now(); e.fire.State == timer.FireReady && e.putOff() &&
		now.UnixMilli() > e.fire.RunAtMS {
		e.fire.State = timer.FireDeferred
		s.moveTo(e, now)
	}
	s.recorder.release(e)
}

// load is what the session's renewal reports.
func (s *Service) load() store.Load {
	l := store.Load{InflightFull: s.hands.full()}
	for i := range s.ages {
		if a := &s.ages[i]; a.at.Within(behindFor) {
			l.OldestTaskMS = max(l.OldestTaskMS, a.ms.Load())
		}
	}
	return l
}
