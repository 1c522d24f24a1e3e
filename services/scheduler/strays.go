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
	// straysFor is how long after an executor's end its strays are looked for: as long as a broker
	// may take a frozen consumer for a living one, and hand it tasks.
	straysFor = time.Minute
	// strayBefore is how long before its run an unclaimed fire is taken for a stray: its task went
	// out a lead before, and is claimed within milliseconds where somebody is there. What is found
	// then is not even late.
	strayBefore = time.Second
	// strayAgain is when a stray that was published is published again, in case it went to the
	// frozen one as well.
	strayAgain   = time.Second
	strayLimit   = 5000
	strayFlood   = 2000 // of an app
	strayTimeout = 5 * time.Second
)

// strays are fires whose task is with an executor that is gone but not yet noticed by the bus:
// frozen, or cut off. Nobody claimed them; or the executor had, and the task by which the end of
// its session dispatched them went to it as well. The sweep would find them after 10 s.
type strays struct {
	gone clock.Stamp                // an executor was seen to be gone
	seen map[timer.FireID]time.Time // when each was published last; the search's alone
}

// lookForStrays publishes strays for a while after an executor's end. Like the sweep it stands back
// while executors have more than they can do: then what is unclaimed is merely late. What it
// publishes beside others is claimed once.
func (s *Service) lookForStrays(ctx context.Context) error {
	if !s.strays.gone.Within(straysFor) {
		s.strays.seen = nil
		return nil
	}
	live, ok := s.sessions()
	if !ok || busy(live) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, strayTimeout)
	defer cancel()
	until := s.opts.Now().Add(strayBefore).UnixMilli()
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
				strayLimit,
			)
			if err != nil {
				return fmt.Errorf("looking for strays: %w", err)
			}
			found = append(found, s.strays.fresh(fires)...)
		}
	}
	owned, err := s.ownedByEnded(ctx, until)
	if err != nil {
		return fmt.Errorf("looking for claims of ended sessions: %w", err)
	}
	found = append(found, s.strays.fresh(owned)...)
	if len(found) == 0 {
		return nil
	}
	s.met.strays.Add(float64(len(found)))
	some, floods := apart(found)
	if len(some) > 0 {
		err = s.opts.Dispatch.Publish(ctx, some)
	}
	if len(floods) > 0 {
		err = errors.Join(err, s.opts.Dispatch.PublishLow(ctx, floods))
	}
	if err != nil {
		return fmt.Errorf("publishing %d strays: %w", len(found), err)
	}
	return nil
}

// apart tells what an app has much of from all else: most of it is no stray, but on the
// low-priority topic, and repeated elsewhere it would stand before other apps' fires.
func apart(fires []timer.Fire) (some, floods []timer.Fire) {
	of := make(map[int64]int)
	for i := range fires {
		of[fires[i].AppID]++
	}
	for _, f := range fires {
		if of[f.AppID] > strayFlood {
			floods = append(floods, f)
		} else {
			some = append(some, f)
		}
	}
	return some, floods
}

// ownedByEnded returns the fires with a run up to untilMS that executors still own whose sessions
// ended lately. Who ended them has just dispatched these.
func (s *Service) ownedByEnded(ctx context.Context, untilMS int64) ([]timer.Fire, error) {
	if s.strays.gone.Within(strayAgain) {
		return nil, nil
	}
	//nolint:wrapcheck // the caller says what for
	return session.OrphanedClaims(ctx, s.opts.Store, straysFor, untilMS, strayLimit)
}

// fresh returns the fires that were not published lately, and notes them.
func (s *strays) fresh(fires []timer.Fire) []timer.Fire {
	if s.seen == nil {
		s.seen = make(map[timer.FireID]time.Time)
	}
	var out []timer.Fire
	for i := range fires {
		if time.Since(s.seen[fires[i].FireID]) >= strayAgain {
			s.seen[fires[i].FireID] = time.Now()
			out = append(out, fires[i])
		}
	}
	return out
}
