package executor

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	liftPage    = 500
	liftTimeout = 5 * time.Second
	liftPause   = 50 * time.Millisecond // between looks whether there is room
)

// raised tells whether an app may start more by the new limits than by the old ones.
func raised(old, now limit.Settings) bool {
	more := func(old, now float64) bool { return old > 0 && (now == 0 || now > old) }
	return more(old.Rate, now.Rate) || more(float64(old.Concurrent), float64(now.Concurrent))
}

// liftLimits lets fires that wait for the limits of their app ask anew when those were raised: else
// each would wait for the instant that it was given by the old ones, up to limit.MaxWait. It goes
// on until ctx ends.
//
// Executors divide what is parked by its buckets, and claim it; whose claim comes second, or after
// the trigger's task, gets nothing. Dying with it in hand is as with any other fire. What is not
// reached, as the store is away, comes at its instant.
func (s *Service) liftLimits(ctx context.Context) error {
	for {
		select {
		case t := <-s.tenants.changed:
			if now, err := s.tenants.of(
				ctx,
				t.id,
				t.name,
			); err != nil ||
				!raised(t.limits, now.limits) {
				continue // where it could not be read, its next fire reads it
			}
			s.wheel.hasten(
				s.opts.Clock.Now().UnixMilli(),
				func(e *held) bool { return e.asked && e.fire.AppID == t.id },
			)
			if err := s.lift(ctx, t.id); err != nil {
				s.log.Debug().
					Err(err).
					Str("app", t.name).
					Msg("fires that wait for limits were not hastened")
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// lift claims what is parked of an app in this executor's part of the buckets.
func (s *Service) lift(ctx context.Context, app int64) error {
	now := s.opts.Clock.Now()
	until := now.Add(limit.MaxWait).UnixMilli()
	l := &bypassLook{svc: s, term: s.keeper.Epoch()}
	if l.term == nil {
		return nil
	}
	if err := l.learn(ctx, timer.MinuteOf(now.UnixMilli()), timer.MinuteOf(until)); err != nil {
		return err
	}
	for minute := l.from; minute <= l.to; minute++ {
		for bucket := range max(1, l.buckets[minute]) {
			if !l.mine(bucket) {
				continue
			}
			if err := s.liftSlice(
				ctx,
				l.term,
				minute,
				bucket,
				app,
				store.After(now.UnixMilli()),
				until,
			); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Service) liftSlice(
	ctx context.Context,
	term *session.Epoch,
	minute int64,
	bucket int32,
	app int64,
	from store.Position,
	until int64,
) error {
	for {
		call, cancel := context.WithTimeout(ctx, liftTimeout)
		page, err := s.opts.Store.LoadSlice(call, minute, bucket, from, until, liftPage)
		cancel()
		if err != nil || len(page) == 0 {
			return err //nolint:wrapcheck // the store says what it was doing
		}
		last, full := page[len(page)-1], len(page) == liftPage
		from = store.Position{RunAtMS: last.RunAtMS, FireID: last.FireID}
		page = slices.DeleteFunc(
			page,
			func(f timer.Fire) bool { return f.AppID != app || f.State != timer.FireDeferred },
		)
		for s.hands.crowded() && ctx.Err() == nil && term.Valid() {
			clock.Pause(ctx, liftPause)
		}
		if len(page) > 0 {
			if _, err := s.claim(ctx, term, page, byLift); err != nil {
				return err
			}
		}
		if !full {
			return nil
		}
	}
}
