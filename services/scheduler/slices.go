package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

const (
	dispatchTimeout = 5 * time.Second
	publishTimeout  = 3 * time.Second
	// frozenFor is how long the bucket count of a frozen minute is cached. It changes only when the
	// store is restored to an earlier state.
	frozenFor = 10 * time.Second
)

// frozenMinute is the bucket count of a frozen minute.
type frozenMinute struct {
	buckets int32
	at      time.Time // when it was read
}

// freeze ends the growth of a minute and returns its bucket count.
func (s *Service) freeze(ctx context.Context, minute int64) (int32, error) {
	if f, ok := s.frozenMinutes[minute]; ok && time.Since(f.at) < frozenFor {
		return f.buckets, nil
	}
	at := time.Now()
	buckets, err := s.opts.Store.FreezeMinute(ctx, minute)
	if err != nil {
		return 0, fmt.Errorf("freezing minute %d: %w", minute, err)
	}
	maps.DeleteFunc(
		s.frozenMinutes,
		func(_ int64, f frozenMinute) bool { return at.Sub(f.at) >= frozenFor },
	)
	s.frozenMinutes[minute] = frozenMinute{buckets: buckets, at: at}
	return buckets, nil
}

// tick dispatches the current minute, the next one shortly before it starts, and then the backlog
// from the cursor on. The backlog is oldest first and bounded, so that it never delays the current
// minute.
func (s *Service) tick(ctx context.Context) error {
	now := s.opts.Now()
	current := timer.MinuteOf(now.UnixMilli())
	err := s.dispatchMinute(ctx, current)
	if coming := timer.MinuteOf(now.Add(s.opts.Ahead).UnixMilli()); coming != current {
		err = firstOf(err, s.dispatchMinute(ctx, coming))
	}
	if err != nil {
		return err
	}
	return s.catchUp(ctx, current)
}

func (s *Service) catchUp(ctx context.Context, current int64) error {
	if s.cursor >= current {
		return nil
	}
	began := time.Now()
	call, cancel := context.WithTimeout(ctx, dispatchTimeout)
	cursor, err := s.opts.Store.Cursor(call, current)
	cancel()
	if err != nil {
		return fmt.Errorf("reading the cursor: %w", err)
	}
	s.setCursor(cursor, current)
	// A slow store gets fewer minutes per tick, not longer ticks. The next tick begins with the
	// current minute again.
	for m := cursor; m < min(current, cursor+int64(s.opts.CatchUp)) && time.Since(began) < s.opts.Tick; m++ {
		if err := s.dispatchMinute(ctx, m); err != nil {
			return err
		}
	}
	if cursor < current {
		call, cancel := context.WithTimeout(ctx, dispatchTimeout)
		defer cancel()
		if cursor, err = s.opts.Store.AdvanceCursor(call, current); err != nil {
			return fmt.Errorf("advancing the cursor: %w", err)
		}
	}
	s.setCursor(cursor, current)
	return nil
}

// setCursor sets what is known of the cursor, also while no slice can be dispatched.
func (s *Service) setCursor(cursor, current int64) {
	s.cursor = cursor
	s.met.cursorLag.Set(float64((current - cursor) * int64(time.Minute/time.Second)))
}

// dispatchMinute claims and publishes the slices of a minute that no trigger holds. Two schedulers
// at once: each slice's row goes to one. After a crash before the publication, or a lost message,
// the lease expires. Then a later tick claims the slice with the next token.
func (s *Service) dispatchMinute(ctx context.Context, minute int64) error {
	call, cancel := context.WithTimeout(ctx, dispatchTimeout)
	defer cancel()
	buckets, err := s.freeze(call, minute)
	if err != nil {
		return err
	}
	claims, err := s.opts.Store.ClaimSlices(
		call,
		minute,
		buckets,
		s.opts.Lease,
		int(slicing.MaxBuckets),
	)
	if err != nil {
		return fmt.Errorf("claiming slices of minute %d: %w", minute, err)
	}
	if len(claims) == 0 {
		return nil
	}
	if err := s.publish(ctx, messages(claims)); err != nil {
		return err
	}
	s.met.slices.Add(float64(len(claims)))
	reassigned := messages(
		slices.DeleteFunc(claims, func(c store.SliceClaim) bool { return c.Token == 1 }),
	)
	for i := range reassigned {
		reassigned[i].Properties[bus.PropCopy] = "1"
	}
	s.met.reassigned.Add(float64(len(reassigned)))
	return s.publish(ctx, reassigned)
}

// errUnpublished means that the bus did not take slices. Their leases expire.
var errUnpublished = errors.New("not published")

// publish sends slice messages to the triggers. A slice whose lease has expired is sent twice, the
// copy after the first is confirmed. The broker then gives them to two triggers, because a hung
// trigger would let the lease expire again. The copy takes effect only while nobody holds the
// slice.
func (s *Service) publish(ctx context.Context, m []bus.Message) error {
	if len(m) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := s.opts.Bus.Publish(ctx, bus.Slices, m...); err != nil {
		return fmt.Errorf(
			"%d slices starting at %s %w: %w",
			len(m),
			m[0].Properties[bus.PropSlice],
			errUnpublished,
			err,
		)
	}
	return nil
}

func messages(claims []store.SliceClaim) []bus.Message {
	out := make([]bus.Message, len(claims))
	for i, c := range claims {
		// Numbers only: cannot fail.
		payload, _ := proto.Marshal(
			&carillonv1.Slice{Minute: c.Minute, Bucket: c.Bucket, Token: c.Token},
		)
		out[i] = bus.Message{
			Key:     fmt.Sprintf("%d:%d", c.Minute, c.Bucket),
			Payload: payload,
			Properties: map[string]string{
				bus.PropSlice: fmt.Sprintf("%d:%d:%d", c.Minute, c.Bucket, c.Token),
			},
		}
	}
	return out
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
