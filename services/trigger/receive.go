package trigger

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

const holdTimeout = 2 * time.Second

// errStopped returns a slice to the broker. Another trigger takes it with the same token. That is
// meant, and no warning.
var errStopped = fmt.Errorf("trigger stops: %w", bus.ErrPostponed)

// receive handles a slice message. It returns when the slice is done or belongs to another trigger.
// The message stays unacknowledged meanwhile, so that the broker redelivers it as soon as this
// process dies.
func (s *Service) receive(ctx context.Context, m bus.Message) error {
	var msg carillonv1.Slice
	if err := proto.Unmarshal(m.Payload, &msg); err != nil {
		return bus.Permanent(fmt.Errorf("reading a slice message: %w", err))
	}
	if msg.GetMinute() <= 0 || msg.GetBucket() < 0 || msg.GetToken() <= 0 {
		return bus.Permanent(
			fmt.Errorf("slice message is invalid: minute %d, bucket %d, token %d",
				msg.GetMinute(), msg.GetBucket(), msg.GetToken()),
		)
	}
	claim := store.SliceClaim{
		Minute: msg.GetMinute(),
		Bucket: msg.GetBucket(),
		Token:  msg.GetToken(),
	}
	asked := time.Now()
	call, cancel := context.WithTimeout(ctx, holdTimeout)
	held, err := s.opts.Store.AcquireSlice(
		call,
		claim,
		s.opts.Holder,
		s.opts.Lease,
		m.Properties[bus.PropCopy] != "",
	)
	cancel()
	if err != nil {
		return err //nolint:wrapcheck // the store says what failed
	}
	if !held {
		s.met.slices.WithLabelValues("stale").Inc()
		return nil
	}
	l := s.leases.add(ctx, claim, asked)
	if l == nil {
		return nil // already held: a redelivery
	}
	defer s.leases.remove(l)
	s.met.holding.Inc()
	defer s.met.holding.Dec()
	err = newSlice(s, l).run(l.ctx)
	switch {
	case err == nil:
		s.met.slices.WithLabelValues("done").Inc()
		return nil
	case ctx.Err() != nil:
		s.met.slices.WithLabelValues("given_back").Inc()
		return errStopped
	default:
		// The lease is lost: a scheduler reassigns the slice with the next token.
		s.met.slices.WithLabelValues("lost").Inc()
		s.log.Warn().
			Err(err).
			Int64("minute", claim.Minute).
			Int32("bucket", claim.Bucket).
			Int64("token", claim.Token).
			Msg("slice lease lost")
		return nil
	}
}
