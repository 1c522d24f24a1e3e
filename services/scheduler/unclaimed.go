package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// recoverUnclaimedFor is how long after the loss of an executor its unclaimed fires are
	// recovered. A broker may deliver tasks to a frozen consumer for that long.
	recoverUnclaimedFor = time.Minute
	// unclaimedBefore is how long before its run time a fire without claim is recovered. Its task
	// was published a dispatch lead ahead and is normally claimed within milliseconds. The fire is
	// not even late then.
	unclaimedBefore = time.Second
	// republishAfter is when a recovered fire is published again, in case its task went to the
	// frozen executor too.
	republishAfter   = time.Second
	unclaimedLimit   = 5000
	burstSize        = 2000 // unclaimed fires of an app
	unclaimedTimeout = 5 * time.Second
)

// unclaimedFires tracks fires whose task is with a lost executor (frozen or cut off) that the bus
// still delivers to. Either nobody claimed the fire, or the task that recovers its orphaned claim
// went there too. The sweep would find these fires after 10 s.
type unclaimedFires struct {
	executorLost clock.Stamp                // when an executor was last seen to be lost
	published    map[timer.FireID]time.Time // last publication; belongs to recoverUnclaimed
}

// recoverUnclaimed publishes unclaimed and orphaned fires for a while after an executor was lost.
// Like the sweep it pauses while executors are overloaded: then unclaimed fires are merely late. A
// fire published twice is claimed once.
func (s *Service) recoverUnclaimed(ctx context.Context) error {
	if !s.unclaimed.executorLost.Within(recoverUnclaimedFor) {
		s.unclaimed.published = nil
		return nil
	}
	live, ok := s.sessions()
	if !ok || overloaded(live) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, unclaimedTimeout)
	defer cancel()
	until := s.opts.Now().Add(unclaimedBefore).UnixMilli()
	var found []timer.Fire
	for _, minute := range []int64{timer.MinuteOf(until) - 1, timer.MinuteOf(until)} {
		buckets, err := s.opts.Store.FreezeMinute(ctx, minute)
		if err != nil {
			return fmt.Errorf("reading the buckets of minute %d: %w", minute, err)
		}
		for b := range buckets {
			fires, err := s.opts.Store.LoadSlice(
				ctx,
				minute,
				b,
				store.Position{},
				until,
				unclaimedLimit,
			)
			if err != nil {
				return fmt.Errorf("reading unclaimed fires: %w", err)
			}
			found = append(found, s.unclaimed.notRecentlyPublished(fires)...)
		}
	}
	owned, err := s.orphanedClaims(ctx, until)
	if err != nil {
		return fmt.Errorf("reading claims of expired sessions: %w", err)
	}
	unclaimed := len(found)
	found = append(found, s.unclaimed.notRecentlyPublished(owned)...)
	if len(found) == 0 {
		return nil
	}
	s.met.recovered.WithLabelValues(session.CauseUnclaimed).Add(float64(unclaimed))
	s.met.recovered.WithLabelValues(session.CauseExpiredSession).
		Add(float64(len(found) - unclaimed))
	rest, bursts := splitBursts(found)
	if len(rest) > 0 {
		err = s.opts.Dispatch.Publish(ctx, rest)
	}
	if len(bursts) > 0 {
		err = errors.Join(err, s.opts.Dispatch.PublishLow(ctx, bursts))
	}
	if err != nil {
		return fmt.Errorf("publishing %d unclaimed fires: %w", len(found), err)
	}
	return nil
}

// splitBursts separates the fires of apps with more than burstSize of them. Most of those are on
// the low-priority topic, and repeated elsewhere they would delay other apps' fires.
func splitBursts(fires []timer.Fire) (rest, bursts []timer.Fire) {
	counts := make(map[int64]int)
	for i := range fires {
		counts[fires[i].AppID]++
	}
	for _, f := range fires {
		if counts[f.AppID] > burstSize {
			bursts = append(bursts, f)
		} else {
			rest = append(rest, f)
		}
	}
	return rest, bursts
}

// orphanedClaims returns fires with a run time up to untilMS that recently expired sessions still
// own. Right after a loss it returns none, because the process that expired the session has just
// dispatched them.
func (s *Service) orphanedClaims(ctx context.Context, untilMS int64) ([]timer.Fire, error) {
	if s.unclaimed.executorLost.Within(republishAfter) {
		return nil, nil
	}
	//nolint:wrapcheck // the caller wraps it
	return session.OrphanedClaims(ctx, s.opts.Store, recoverUnclaimedFor, untilMS, unclaimedLimit)
}

// notRecentlyPublished returns the fires not published within republishAfter, and records their
// publication.
func (s *unclaimedFires) notRecentlyPublished(fires []timer.Fire) []timer.Fire {
	if s.published == nil {
		s.published = make(map[timer.FireID]time.Time)
	}
	var out []timer.Fire
	for i := range fires {
		if time.Since(s.published[fires[i].FireID]) >= republishAfter {
			s.published[fires[i].FireID] = time.Now()
			out = append(out, fires[i])
		}
	}
	return out
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

const oldTaskMS = 2000
