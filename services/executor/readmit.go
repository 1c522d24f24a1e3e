package executor

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/pickup"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const (
	readmitPage    = 500
	readmitTimeout = 5 * time.Second
	readmitPause   = 50 * time.Millisecond // between checks for room
)

// raised reports whether new limits allow an app more than the old ones.
func raised(old, now limit.Settings) bool {
	more := func(old, now float64) bool { return old > 0 && (now == 0 || now > old) }
	return more(old.Rate, now.Rate) || more(float64(old.Concurrent), float64(now.Concurrent))
}

// readmitOnLimitChange advances fires that wait for the limits of their app once those are raised,
// until ctx ends. Otherwise each would wait for its retry-after time under the old limits, up to
// limit.MaxWait.
//
// Executors divide the deferred fires by bucket and claim them. If two claim one fire, or a task
// arrives too, one claim wins. After a crash the session expires, as for any fire. Fires not
// reached while the store is unavailable run at their retry-after time.
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
				continue // if the read failed, the app's next fire reads it
			}
			s.wheel.Advance(
				s.opts.Clock.Now().UnixMilli(),
				func(e *inflight.Entry) bool { return e.WaitedForLimit && e.Fire.AppID == t.id },
			)
			if err := s.readmit(ctx, t.id); err != nil {
				s.log.Debug().
					Err(err).
					Str("app", t.name).
					Msg("deferred fires not advanced after a limit change")
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// readmit claims the deferred fires of an app in this executor's share of the buckets.
func (s *Service) readmit(ctx context.Context, app int64) error {
	now := s.opts.Clock.Now()
	until := now.Add(limit.MaxWait).UnixMilli()
	epoch := s.heartbeater.Epoch()
	if epoch == nil {
		return nil
	}
	keys, err := pickup.Slices(
		ctx,
		s.opts.Store,
		pickup.ShardOf(s.storePoller.Alive(), epoch.ID, 0),
		timer.MinuteOf(now.UnixMilli()),
		timer.MinuteOf(until),
	)
	if err != nil {
		return err //nolint:wrapcheck // already wrapped
	}
	for _, k := range keys {
		if err := s.readmitSlice(
			ctx,
			epoch,
			k.Minute,
			k.Bucket,
			app,
			store.After(now.UnixMilli()),
			until,
		); err != nil {
			return err
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
			return err //nolint:wrapcheck // the store says what failed
		}
		last, full := page[len(page)-1], len(page) == readmitPage
		from = store.Position{RunAtMS: last.RunAtMS, FireID: last.FireID}
		page = slices.DeleteFunc(
			page,
			func(f timer.Fire) bool { return f.AppID != app || f.State != timer.FireDeferred },
		)
		for s.inflight.Crowded() && ctx.Err() == nil && epoch.Valid() {
			clock.Pause(ctx, readmitPause)
		}
		if len(page) > 0 {
			waiting := inflight.Arrivals(page, timer.PathReadmit)
			if _, err := s.claim(ctx, epoch, waiting, inflight.FromReadmit); err != nil {
				return err
			}
		}
		if !full {
			return nil
		}
	}
}
