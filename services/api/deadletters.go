package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// Acknowledging the letters of redriven fires. It is best effort, and never the other way round:
// the store says what is redriven, and the topic follows. What stays behind, because the bus or
// this process went away, is acknowledged after the next redrive.
const (
	ackPassTimeout  = 30 * time.Second // one look through the letters
	ackIdleTimeout  = 3 * time.Second  // no letter came that was not seen: it is over
	ackStoreTimeout = 5 * time.Second  // of the store's answer about a batch
	maxAckSeen      = 100_000          // letters that stay and are remembered: a page
	ackBatch        = 500
)

// errNotRedriven gives a letter back.
var errNotRedriven = fmt.Errorf("its fire is not redriven: %w", bus.ErrPostponed)

// requestAck has the letters looked through, once for all who ask meanwhile.
func (s *Service) requestAck() {
	select {
	case s.redriveRequested <- struct{}{}:
	default:
	}
}

// ackAfterRedrives looks through the letters after redrives, until ctx ends.
func (s *Service) ackAfterRedrives(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.redriveRequested:
		}
		if s.opts.DeadLetters == nil {
			continue
		}
		if err := s.ackDeadLetters(ctx); err != nil && ctx.Err() == nil {
			s.opts.Logger.Warn().
				Err(err).
				Msg("letters of redriven fires not acknowledged, which the next redrive does")
		}
	}
}

// ackDeadLetters takes every letter that waits for the operators, acknowledges those whose fire is
// redriven, and gives the rest back. It ends when nothing new comes: what was given back comes
// again. Where more stay than are remembered it begins a new page, and what comes again is asked
// about again: then the end is that of its time.
func (s *Service) ackDeadLetters(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ackPassTimeout)
	defer cancel()
	l := &ackPass{service: s, seen: make(map[timer.FireID]bool), progress: make(chan struct{}, 1)}
	consumer, err := s.opts.DeadLetters.Subscribe(ctx, bus.Subscription{
		Topic:       bus.TasksDead,
		Name:        bus.SubOperators,
		Concurrency: 1,
		MaxBatch:    ackBatch,
		MaxWait:     10 * time.Millisecond,
		Prefetch:    ackBatch,
	}, l.handle)
	if err != nil {
		return err
	}
	idle := time.NewTimer(ackIdleTimeout)
	defer idle.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			waiting = false
		case <-idle.C:
			waiting = false
		case <-l.progress:
			idle.Reset(ackIdleTimeout)
		}
	}
	err = consumer.Close()
	s.opts.Logger.Info().
		Int(logging.Count, l.acked).
		Int("left", l.kept).
		Msg("letters of redriven fires acknowledged")
	return err
}

// ackPass is one look through them.
type ackPass struct {
	service  *Service
	progress chan struct{} // one came that was not seen before

	mu    sync.Mutex
	seen  map[timer.FireID]bool // those that stay
	acked int
	kept  int // given back; those of earlier pages that came again count again
}

func (l *ackPass) handle(ctx context.Context, batch []bus.Message) []error {
	errs := make([]error, len(batch))
	ids := make([]timer.FireID, 0, len(batch))
	at := make(map[timer.FireID][]int, len(batch))
	for i := range batch {
		errs[i] = errNotRedriven // also what cannot be read: it is for people to look at
		d := new(carillonv1.DeadTask)
		if proto.Unmarshal(batch[i].Payload, d) != nil || d.GetTask() == nil {
			continue
		}
		t := d.GetTask()
		id := timer.FireID{
			Timer:  timer.ID(t.GetTimerId()),
			DueMS:  t.GetDueMs(),
			Series: t.GetSeries(),
		}
		ids = append(ids, id)
		at[id] = append(at[id], i)
	}
	ids = l.unseen(ids)
	if len(ids) == 0 {
		return errs
	}
	ctx, cancel := context.WithTimeout(ctx, ackStoreTimeout)
	defer cancel()
	redriven, err := l.service.opts.Store.RedrivenAmong(ctx, ids)
	if err != nil {
		return errs
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen)+len(ids) > maxAckSeen {
		clear(l.seen) // those behind are looked at, too
	}
	for _, id := range ids {
		l.seen[id] = true
	}
	for _, id := range redriven {
		delete(l.seen, id)
		for _, i := range at[id] {
			errs[i] = nil
			l.acked++
		}
	}
	l.kept += len(ids) - len(redriven)
	l.service.metrics.deadLetters.WithLabelValues("acked").Add(float64(len(redriven)))
	l.service.metrics.deadLetters.WithLabelValues("left").Add(float64(len(ids) - len(redriven)))
	select {
	case l.progress <- struct{}{}:
	default:
	}
	return errs
}

// unseen returns those that this page has not seen.
func (l *ackPass) unseen(ids []timer.FireID) []timer.FireID {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := ids[:0]
	for _, id := range ids {
		if !l.seen[id] {
			out = append(out, id)
		}
	}
	return out
}
