package trigger

import (
	"context"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
	"github.com/carillon-timer/carillon/libs/window"
)

const retryAfter = 200 * time.Millisecond

// slice is a slice that this trigger holds. One goroutine runs it; those that it starts for its
// queues and for a reload share nothing with it but what they are given.
type slice struct {
	svc    *Service
	lease  *lease
	source *source
	high   queue
	normal queue
	low    queue
	ended  chan ended     // of calls; each queue has one at most
	calls  sync.WaitGroup // under way
	began  time.Time
	traced *tracing.Batch // nil: tracing is off
}

func newSlice(s *Service, l *lease) *slice {
	return &slice{
		svc:    s,
		lease:  l,
		source: newSource(s, window.Slice{Minute: l.claim.Minute, Bucket: l.claim.Bucket}),
		high:   queue{topic: bus.TasksHigh},
		normal: queue{topic: bus.TasksNormal},
		low:    queue{topic: bus.TasksLow},
		ended:  make(chan ended, maxCalls),
		began:  s.opts.Now(),
		traced: s.opts.Tracer.Batch(),
	}
}

// run publishes the slice until the end of its minute and marks it done. It ends early when the
// lease is lost. The next holder loads the open fires, and a fire published by both is claimed
// once.
//
// A lease that expired without a renewal is not lost yet. Nothing is published under it, and run
// continues with the next successful renewal. Giving it up would strand the slice, because a
// renewal still under way may extend the abandoned lease.
func (s *slice) run(ctx context.Context) error {
	defer s.trace()
	if err := s.retryUntil(ctx, s.source.load); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer s.calls.Wait() // they end with ctx, if they have not ended before
	defer s.source.reloads.Wait()
	defer cancel()
	tick := clock.NewTicker(s.svc.opts.Poll)
	for ticked := true; ; ticked = s.wait(ctx, tick) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.waitForRenewal(ctx, tick); err != nil {
			return err
		}
		if ticked {
			s.poll(ctx)
		}
		s.send(ctx, ticked)
		if s.source.givenMS >= s.source.endMS && !s.pending() {
			return s.finish(ctx)
		}
	}
}

// wait waits for the next tick, or until a call of a queue has ended. It returns whether it was a
// tick.
func (s *slice) wait(ctx context.Context, tick *clock.Ticker) (ticked bool) {
	next := time.NewTimer(tick.Until())
	defer next.Stop()
	select {
	case <-next.C:
		tick.Ticked()
		return true
	case e := <-s.ended:
		s.end(&e)
	case <-ctx.Done():
	}
	return false
}

// poll puts the fires that are to be published now into the queues of their topics.
func (s *slice) poll(ctx context.Context) {
	now := s.svc.opts.Now()
	fires, err := s.source.next(ctx, now.UnixMilli())
	if err != nil {
		s.delayed(err)
	}
	s.assign(fires, now)
}

func (s *slice) delayed(err error) {
	s.svc.log.Debug().Err(err).Int64("minute", s.source.slice.Minute).Msg("slice delayed")
}

// waitForRenewal waits until the lease is valid again. It returns an error once the lease is lost
// or the trigger stops.
func (s *slice) waitForRenewal(ctx context.Context, tick *clock.Ticker) error {
	if s.lease.valid() {
		return nil
	}
	s.svc.log.Warn().
		Int64("minute", s.lease.claim.Minute).
		Int32("bucket", s.lease.claim.Bucket).
		Msg("slice paused: lease expired")
	for !s.lease.valid() {
		if !tick.Wait(ctx) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// trace makes the span of the slice. If a slice has two holders in turn, both make one, with their
// tokens.
func (s *slice) trace() {
	c := &s.lease.claim
	id := tracing.SliceID(c.Minute, c.Bucket)
	s.traced.End(&tracing.Span{
		Trace: id,
		ID:    traceid.RootOf(id),
		Name:  "slice",
		Start: s.began,
		End:   s.svc.opts.Now(),
		Attrs: []tracing.Attr{
			tracing.Int("carillon.minute", c.Minute),
			tracing.Int("carillon.bucket", int64(c.Bucket)),
			tracing.Int("carillon.token", c.Token),
		},
	})
}

func (s *slice) finish(ctx context.Context) error {
	return s.retryUntil(ctx, func(ctx context.Context) error {
		call, cancel := context.WithTimeout(ctx, holdTimeout)
		defer cancel()
		done, err := s.svc.opts.Store.FinishSlice(call, s.lease.claim)
		if err == nil && !done {
			s.lease.cancel(errLeaseLost)
			return errLeaseLost
		}
		return err //nolint:wrapcheck // the store says what failed
	})
}

// retryUntil repeats do until it succeeds or the lease is lost.
func (s *slice) retryUntil(ctx context.Context, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.delayed(err)
		wait := time.NewTimer(retryAfter)
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
	}
}
