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
	// recoverUnclaimedFor is how long after an executor's end its strays are looked for: as long as a broker
	// may take a frozen consumer for a living one, and hand it tasks.
	recoverUnclaimedFor = time.Minute
	// unclaimedBefore is how long before its run an unclaimed fire is taken for a stray: its task went
	// out a lead before, and is claimed within milliseconds where somebody is there. What is found
	// then is not even late.
	unclaimedBefore = time.Second
	// republishAfter is when a stray that was published is published again, in case it went to the
	// frozen one as well.
	republishAfter   = time.Second
	unclaimedLimit   = 5000
	burstSize        = 2000 // of an app
	unclaimedTimeout = 5 * time.Second
)

// unclaimedFires are fires whose task is with an executor that is gone but not yet noticed by the bus:
// frozen, or cut off. Nobody claimed them; or the executor had, and the task by which the end of
// its session dispatched them went to it as well. The sweep would find them after 10 s.
type unclaimedFires struct {
	executorLost clock.Stamp                // an executor was seen to be gone
	published    map[timer.FireID]time.Time // when each was published last; the search's alone
}

// recoverUnclaimed publishes strays for a while after an executor's end. Like the sweep it stands back
// while executors have more than they can do: then what is unclaimed is merely late. What it
// publishes beside others is claimed once.
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
				return fmt.Errorf("looking for strays: %w", err)
			}
			found = append(found, s.unclaimed.notRecentlyPublished(fires)...)
		}
	}
	owned, err := s.orphanedClaims(ctx, until)
	if err != nil {
		return fmt.Errorf("looking for claims of ended sessions: %w", err)
	}
	found = append(found, s.unclaimed.notRecentlyPublished(owned)...)
	if len(found) == 0 {
		return nil
	}
	s.met.unclaimed.Add(float64(len(found)))
	rest, bursts := splitBursts(found)
	if len(rest) > 0 {
		err = s.opts.Dispatch.Publish(ctx, rest)
	}
	if len(bursts) > 0 {
		err = errors.Join(err, s.opts.Dispatch.PublishLow(ctx, bursts))
	}
	if err != nil {
		return fmt.Errorf("publishing %d strays: %w", len(found), err)
	}
	return nil
}

// splitBursts tells what an app has much of from all else: most of it is no stray, but on the
// low-priority topic, and repeated elsewhere it would stand before other apps' fires.
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

// orphanedClaims returns the fires with a run up to untilMS that executors still own whose sessions
// ended lately. Who ended them has just dispatched these.
func (s *Service) orphanedClaims(ctx context.Context, untilMS int64) ([]timer.Fire, error) {
	if s.unclaimed.executorLost.Within(republishAfter) {
		return nil, nil
	}
	//nolint:wrapcheck // the caller says what for
	return session.OrphanedClaims(ctx, s.opts.Store, recoverUnclaimedFor, untilMS, unclaimedLimit)
}

// notRecentlyPublished returns the fires that were not published lately, and notes them.
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
