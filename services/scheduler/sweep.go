package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	sweepTimeout = 10 * time.Second
	// maxSweepThrottle is how long sweeping stands back at the most while executors have more than they
	// can do: what they have is what would be swept, and publishing it again would only add to it.
	maxSweepThrottle = 5 * time.Minute
	oldTaskMS        = 2000
	// busRecoveryPause is how long sweeping stands back when the bus is back after it was away: what is
	// overdue then is with those who could not publish it, and they do so now. Swept as well, every
	// second claim would be in vain, while there is most to do.
	busRecoveryPause = 5 * time.Second
)

// sweep publishes open fires that are past their run and nobody's: the proof that none is lost
// (P2), whatever lost their mark, message or slice. Schedulers divide the buckets among the living;
// while they disagree about who lives, some are swept twice and claimed once.
func (s *Service) sweep(ctx context.Context) error {
	live, ok := s.sessions()
	if !ok {
		return nil // who lives is not known yet
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if s.busUnavailable {
		// one asks whether the bus is back.
		return s.publishSwept(ctx, s.unpublished[:1], s.unpublished[1:])
	}
	if s.busRecovered.Within(busRecoveryPause) ||
		overloaded(live) && time.Since(s.swept) < maxSweepThrottle {
		s.met.throttled.Inc()
		return nil
	}
	shard, of := s.shard(live)
	// A sweep is counted before it is published. While the bus is away nothing more is swept, so
	// that nothing waits for its next sweep long after the bus is back.
	if err := s.publishSwept(ctx, s.unpublished, nil); err != nil {
		return err
	}
	q := store.OverdueQuery{Shard: shard, Shards: of, Limit: s.opts.SweepLimit}
	for _, l := range live {
		if l.Kind == store.ExecutorSession {
			q.Live = append(q.Live, l.ID)
		}
	}
	fires, err := s.opts.Store.Overdue(ctx, q)
	if err != nil {
		return fmt.Errorf("looking for overdue fires: %w", err)
	}
	s.swept = time.Now()
	if len(fires) == 0 {
		return nil
	}
	s.met.swept.Add(float64(len(fires)))
	return s.publishSwept(ctx, fires, nil)
}

// publishSwept publishes swept fires and keeps others for the next try, or all of them when the bus
// is away.
func (s *Service) publishSwept(ctx context.Context, fires, others []timer.Fire) error {
	if len(fires) == 0 {
		return nil
	}
	if err := s.opts.Dispatch.Publish(ctx, fires); err != nil {
		s.unpublished, s.busUnavailable = slices.Concat(fires, others), true
		return fmt.Errorf("publishing %d overdue fires: %w", len(fires), err)
	}
	s.unpublished = others
	if s.busUnavailable {
		s.busUnavailable = false
		s.busRecovered.Set()
	}
	return nil
}

func overloaded(live []store.Session) bool {
	for _, l := range live {
		if l.Kind == store.ExecutorSession &&
			(l.Load.InflightFull || l.Load.OldestTaskMS > oldTaskMS) {
			return true
		}
	}
	return false
}

// shard returns this scheduler's place among the living ones.
func (s *Service) shard(live []store.Session) (place, of int32) {
	epoch := s.heartbeater.Epoch()
	if epoch == nil {
		return 0, 1
	}
	return session.Shard(live, store.SchedulerSession, epoch.ID)
}
