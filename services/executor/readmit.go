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
	readmitPage    = 500
	readmitTimeout = 5 * time.Second
	readmitPause   = 50 * time.Millisecond // between looks whether there is room
)

// raised tells whether an app may start more by the new limits than by the old ones.
func raised(old, now limit.Settings) bool {
	more := func(old, now float64) bool { return old > 0 && (now == 0 || now > old) }
	return more(old.Rate, now.Rate) || more(float64(old.Concurrent), float64(now.Concurrent))
}

// readmitOnLimitChange lets fires that wait for the limits of their app ask anew when those were raised: else
// each would wait for the instant that it was given by the old ones, up to limit.MaxWait. It goes
// on until ctx ends.
//
// Executors divide what is parked by its buckets, and claim it; whose claim comes second, or after
// the trigger's task, gets nothing. Dying with it in hand is as with any other fire. What is not
// reached, as the store is away, comes at its instant.
func (s *Service) readmitOnLimitChange(ctx context.Context) error {
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
			s.wheel.advance(
				s.opts.Clock.Now().UnixMilli(),
				func(e *claimedFire) bool { return e.waitedForLimit && e.fire.AppID == t.id },
			)
			if err := s.readmit(ctx, t.id); err != nil {
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

// readmit claims what is parked of an app in this executor's part of the buckets.
func (s *Service) readmit(ctx context.Context, app int64) error {
	now := s.opts.Clock.Now()
	until := now.Add(limit.MaxWait).UnixMilli()
	l := &storePoll{svc: s, epoch: s.heartbeater.Epoch()}
	if l.epoch == nil {
		return nil
	}
	if err := l.loadBuckets(
		ctx,
		timer.MinuteOf(now.UnixMilli()),
		timer.MinuteOf(until),
	); err != nil {
		return err
	}
	for minute := l.from; minute <= l.to; minute++ {
		for bucket := range max(1, l.buckets[minute]) {
			if !l.inShard(bucket) {
				continue
			}
			if err := s.readmitSlice(
				ctx,
				l.epoch,
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

func (s *Service) readmitSlice(
	ctx context.Context,
	epoch *session.Epoch,
	minute int64,
	bucket int32,
	app int64,
	from store.Position,
	until int64,
) error {
	for {
		call, cancel := context.WithTimeout(ctx, readmitTimeout)
		page, err := s.opts.Store.LoadSlice(call, minute, bucket, from, until, readmitPage)
		cancel()
		if err != nil || len(page) == 0 {
			return err //nolint:wrapcheck // the store says what it was doing
		}
		last, full := page[len(page)-1], len(page) == readmitPage
		from = store.Position{RunAtMS: last.RunAtMS, FireID: last.FireID}
		page = slices.DeleteFunc(
			page,
			func(f timer.Fire) bool { return f.AppID != app || f.State != timer.FireDeferred },
		)
		for s.inflight.crowded() && ctx.Err() == nil && epoch.Valid() {
			clock.Pause(ctx, readmitPause)
		}
		if len(page) > 0 {
			if _, err := s.claim(ctx, epoch, page, sourceReadmit); err != nil {
				return err
			}
		}
		if !full {
			return nil
		}
	}
}
