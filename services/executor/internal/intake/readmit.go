package intake

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

// Readmit claims the deferred fires of an app in this executor's share of the buckets, after the
// limits of the app were raised. Their run time is now.
//
// Executors divide the deferred fires by bucket. If two claim one fire, or a task arrives too, one
// claim wins. After a crash the session expires, as for any fire. Fires not reached while the store
// is unavailable run at their retry-after time.
func (in *Intake) Readmit(ctx context.Context, app int64) error {
	now := in.opts.Clock.Now()
	until := now.Add(limit.MaxWait).UnixMilli()
	epoch := in.opts.Heartbeater.Epoch()
	if epoch == nil {
		return nil
	}
	keys, err := pickup.Slices(
		ctx,
		in.opts.Store,
		pickup.ShardOf(in.Alive(), epoch.ID, 0),
		timer.MinuteOf(now.UnixMilli()),
		timer.MinuteOf(until),
	)
	if err != nil {
		return err //nolint:wrapcheck // already wrapped
	}
	for _, k := range keys {
		if err := in.readmitSlice(
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

func (in *Intake) readmitSlice(
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
		page, err := in.opts.Store.LoadSlice(call, minute, bucket, from, until, readmitPage)
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
		for in.opts.Inflight.Crowded() && ctx.Err() == nil && epoch.Valid() {
			clock.Pause(ctx, readmitPause)
		}
		if len(page) > 0 {
			waiting := inflight.Arrivals(page, timer.PathReadmit)
			if _, err := in.claim(ctx, epoch, waiting, inflight.FromReadmit); err != nil {
				return err
			}
		}
		if !full {
			return nil
		}
	}
}
