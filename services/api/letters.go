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
	ackFor     = 30 * time.Second // one look through the letters
	ackIdle    = 3 * time.Second  // no letter came that was not seen: it is over
	ackTimeout = 5 * time.Second  // of the store's answer about a batch
	ackSeen    = 100_000          // letters that stay and are remembered: a page
	ackBatch   = 500
)

// errStays gives a letter back.
var errStays = fmt.Errorf("its fire is not redriven: %w", bus.ErrKept)

// ackLater has the letters looked through, once for all who ask meanwhile.
func (s *Service) ackLater() {
	select {
	case s.redrives <- struct{}{}:
	default:
	}
}

// ackRedriven looks through the letters after redrives, until ctx ends.
func (s *Service) ackRedriven(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.redrives:
		}
		if s.opts.DeadLetters == nil {
			continue
		}
		if err := s.lookThrough(ctx); err != nil && ctx.Err() == nil {
			s.opts.Logger.Warn().
				Err(err).
				Msg("letters of redriven fires not acknowledged, which the next redrive does")
		}
	}
}

// lookThrough takes every letter that waits for the operators, acknowledges those whose fire is
// redriven, and gives the rest back. It ends when nothing new comes: what was given back comes
// again. Where more stay than are remembered it begins a new page, and what comes again is asked
// about again: then the end is that of its time.
func (s *Service) lookThrough(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ackFor)
	defer cancel()
	l := &letters{service: s, seen: make(map[timer.FireID]bool), fresh: make(chan struct{}, 1)}
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
	idle := time.NewTimer(ackIdle)
	defer idle.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			waiting = false
		case <-idle.C:
			waiting = false
		case <-l.fresh:
			idle.Reset(ackIdle)
		}
	}
	err = consumer.Close()
	s.opts.Logger.Info().
		Int(logging.Count, l.acked).
		Int("left", l.left).
		Msg("letters of redriven fires acknowledged")
	return err
}

// letters is one look through them.
type letters struct {
	service *Service
	fresh   chan struct{} // one came that was not seen before

	mu    sync.Mutex
	seen  map[timer.FireID]bool // those that stay
	acked int
	left  int // given back; those of earlier pages that came again count again
}

func (l *letters) handle(ctx context.Context, batch []bus.Message) []error {
	errs := make([]error, len(batch))
	ids := make([]timer.FireID, 0, len(batch))
	at := make(map[timer.FireID][]int, len(batch))
	for i := range batch {
		errs[i] = errStays // also what cannot be read: it is for people to look at
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
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	redriven, err := l.service.opts.Store.RedrivenAmong(ctx, ids)
	if err != nil {
		return errs
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen)+len(ids) > ackSeen {
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
	l.left += len(ids) - len(redriven)
	l.service.metrics.letters.WithLabelValues("acked").Add(float64(len(redriven)))
	l.service.metrics.letters.WithLabelValues("left").Add(float64(len(ids) - len(redriven)))
	select {
	case l.fresh <- struct{}{}:
	default:
	}
	return errs
}

// unseen returns those that this page has not seen.
func (l *letters) unseen(ids []timer.FireID) []timer.FireID {
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
