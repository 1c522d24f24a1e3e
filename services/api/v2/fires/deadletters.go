package fires

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

// Acknowledging the dead letters of redriven fires is best effort. The store decides which fires
// are redriven, and the topic follows. Dead letters that remain, because the bus or this process
// failed, are acknowledged after the next redrive.
const (
	ackPassTimeout  = 30 * time.Second // one pass over the dead letters
	ackIdleTimeout  = 3 * time.Second  // without a new dead letter: the pass ends
	ackStoreTimeout = 5 * time.Second  // for the store's answer about a batch
	maxAckSeen      = 100_000          // dead letters remembered in one page
	ackBatch        = 500
)

// errNotRedriven returns a dead letter to the topic.
var errNotRedriven = fmt.Errorf("its fire is not redriven: %w", bus.ErrPostponed)

// requestAck requests a pass. Requests made before the pass starts share it.
func (s *Resource) requestAck() {
	select {
	case s.redriveRequested <- struct{}{}:
	default:
	}
}

// AckAfterRedrives runs a pass after each request, until ctx ends.
func (s *Resource) AckAfterRedrives(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.redriveRequested:
		}
		if s.DeadLetters == nil {
			continue
		}
		if err := s.ackDeadLetters(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn().
				Err(err).
				Msg("dead letters of redriven fires not acknowledged; the next redrive retries")
		}
	}
}

// ackDeadLetters acknowledges the dead letters whose fire is redriven, and returns the others to
// the topic. It ends when only known dead letters arrive, because returned ones are redelivered.
// Where more remain than are remembered, it begins a new page and asks the store again; then only
// its timeout ends it.
func (s *Resource) ackDeadLetters(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ackPassTimeout)
	defer cancel()
	l := &ackPass{service: s, seen: make(map[timer.FireID]bool), progress: make(chan struct{}, 1)}
	consumer, err := s.DeadLetters.Subscribe(ctx, bus.Subscription{
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
	s.Logger.Info().
		Int(logging.Count, l.acked).
		Int("left", l.kept).
		Msg("dead letters of redriven fires acknowledged")
	return err
}

// ackPass is one pass over the dead letters.
type ackPass struct {
	service  *Resource
	progress chan struct{} // a new dead letter arrived

	mu    sync.Mutex
	seen  map[timer.FireID]bool // those not redriven
	acked int
	kept  int // returned to the topic; redelivered ones of earlier pages count again
}

func (l *ackPass) handle(ctx context.Context, batch []bus.Message) []error {
	errs := make([]error, len(batch))
	ids := make([]timer.FireID, 0, len(batch))
	at := make(map[timer.FireID][]int, len(batch))
	for i := range batch {
		errs[i] = errNotRedriven // also those that cannot be decoded: operators look at them
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
	redriven, err := l.service.Store.RedrivenAmong(ctx, ids)
	if err != nil {
		return errs
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen)+len(ids) > maxAckSeen {
		clear(l.seen) // so that later ones are also looked at
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

// unseen returns the ids that this page has not seen.
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
