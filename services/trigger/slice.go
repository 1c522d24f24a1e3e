package trigger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
	"github.com/carillon-timer/carillon/libs/window"
)

const (
	publishChunk   = 2000
	publishTimeout = 5 * time.Second
	retryAfter     = 200 * time.Millisecond
)

// slice is a slice that this trigger holds.
type slice struct {
	svc    *Service
	lease  *lease
	source *source
	unsent []timer.Fire // high and normal topics: not published, or not confirmed
	low    []timer.Fire // low-priority topic: not published, or not confirmed
	failed bool         // the last publish was not confirmed
	began  time.Time
	traced *tracing.Batch // nil: tracing is off
}

func newSlice(s *Service, l *lease) *slice {
	return &slice{
		svc:    s,
		lease:  l,
		source: newSource(s, window.Slice{Minute: l.claim.Minute, Bucket: l.claim.Bucket}),
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
	tick := clock.NewTicker(s.svc.opts.Poll)
	for {
		if err := s.waitForRenewal(ctx, tick); err != nil {
			return err
		}
		err := s.step(ctx)
		if err != nil {
			s.svc.log.Debug().Err(err).Int64("minute", s.source.slice.Minute).Msg("slice delayed")
		}
		switch {
		case s.pending() && err == nil && ctx.Err() == nil:
			continue // with the late fires, after those that became due meanwhile
		case s.source.givenMS >= s.source.endMS && !s.pending():
			return s.finish(ctx)
		}
		if !tick.Wait(ctx) {
			return context.Cause(ctx)
		}
	}
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

// step publishes the on-time fires and one chunk of late ones and bursts, so that catch-up delays
// no on-time fire. Unconfirmed fires stay and go first in the next step; published twice they are
// claimed once. Those claimed meanwhile are left out, because executors poll the store while no
// tasks come.
func (s *slice) step(ctx context.Context) error {
	if s.failed {
		s.unsent, s.low = s.source.stillUnclaimed(
			ctx,
			s.unsent,
		), s.source.stillUnclaimed(
			ctx,
			s.low,
		)
	}
	now := s.svc.opts.Now().UnixMilli()
	fires, err := s.source.next(ctx, now)
	onTime, low := s.svc.appShares.split(slices.Concat(s.unsent, fires), now)
	s.unsent, s.low = onTime, append(s.low, low...)
	for len(s.unsent) > 0 && s.lease.valid() {
		perr := s.publish(ctx, &s.unsent, s.svc.tasks.Publish)
		if perr != nil {
			return errors.Join(err, perr)
		}
	}
	if len(s.low) > 0 && s.lease.valid() {
		err = errors.Join(err, s.publish(ctx, &s.low, s.svc.tasks.PublishLow))
	}
	return err
}

// pending reports whether fires remain to be published.
func (s *slice) pending() bool { return len(s.unsent)+len(s.low) > 0 }

// publish publishes a chunk of fires and removes it once it is confirmed.
func (s *slice) publish(
	ctx context.Context,
	fires *[]timer.Fire,
	by func(context.Context, []timer.Fire) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	n := min(len(*fires), publishChunk)
	err := by(ctx, (*fires)[:n])
	if s.failed = err != nil; s.failed {
		return err //nolint:wrapcheck // the bus says what failed
	}
	s.traced.Add((*fires)[:n])
	*fires = (*fires)[n:]
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
		s.svc.log.Debug().Err(err).Int64("minute", s.source.slice.Minute).Msg("slice delayed")
		wait := time.NewTimer(retryAfter)
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
	}
}
