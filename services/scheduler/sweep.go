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
	// maxSweepThrottle is how long sweeps are skipped at most while executors are overloaded. Then
	// their backlog is what a sweep would publish again, which adds to the load.
	maxSweepThrottle = 5 * time.Minute
	oldTaskMS        = 2000
	// busRecoveryPause is how long sweeps are skipped after the bus has recovered. Overdue fires
	// are then being published by the processes that kept them. Sweeping them too would double the
	// claims under the highest load.
	busRecoveryPause = 5 * time.Second
)

// sweep publishes open fires that are overdue and unowned. It guarantees that no fire is lost (P2),
// whatever lost its window entry, message or slice. Schedulers divide the buckets by the sessions
// they see alive; where they disagree, a fire is swept twice and claimed once.
func (s *Service) sweep(ctx context.Context) error {
	live, ok := s.sessions()
	if !ok {
		return nil // alive sessions are not known yet
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if s.busUnavailable {
		// One fire probes whether the bus has recovered.
		return s.publishSwept(ctx, s.unpublished[:1], s.unpublished[1:])
	}
	if s.busRecovered.Within(busRecoveryPause) ||
		overloaded(live) && time.Since(s.swept) < maxSweepThrottle {
		s.met.throttled.Inc()
		return nil
	}
	shard, of := s.shard(live)
	// A sweep counts before it is published and delays the fire's next sweep. So nothing more is
	// swept while the bus is unavailable.
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
		return fmt.Errorf("reading overdue fires: %w", err)
	}
	s.swept = time.Now()
	if len(fires) == 0 {
		return nil
	}
	s.met.swept.Add(float64(len(fires)))
	return s.publishSwept(ctx, fires, nil)
}

// publishSwept publishes swept fires and keeps others for the next try, or all of them if the bus
// is unavailable.
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

// shard returns this scheduler's shard among the alive ones.
func (s *Service) shard(live []store.Session) (place, of int32) {
	epoch := s.heartbeater.Epoch()
	if epoch == nil {
		return 0, 1
	}
	return session.Shard(live, store.SchedulerSession, epoch.ID)
}
