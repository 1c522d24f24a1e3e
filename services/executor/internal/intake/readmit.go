package intake

import (
	"context"
	"math"
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
	// sparePages is how many pages are read to find some of the fires that wait for calls.
	sparePages = 10
)

// Readmission says which deferred fires of an app to claim.
type Readmission struct {
	App int64
	// ForCalls is how many fires to claim of those that wait for a call of their app, the soonest
	// first. They may be fewer, because not all later fires are searched. 0: all deferred fires.
	ForCalls int
}

// wants reports whether to claim a fire.
func (r *Readmission) wants(f *timer.Fire) bool {
	return f.AppID == r.App && f.State == timer.FireDeferred &&
		(r.ForCalls == 0 || f.WaitsForCall())
}

// Readmit claims deferred fires of an app in this executor's share of the buckets. Their run time is
// now.
//
// Executors divide the deferred fires by bucket. If two claim one fire, or a task arrives too, one
// claim wins. After a crash the session expires, as for any fire. Fires not reached while the store
// is unavailable run at their retry-after time.
func (in *Intake) Readmit(ctx context.Context, r Readmission) error {
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
	left := readmissionLeft{fires: math.MaxInt, pages: math.MaxInt}
	if r.ForCalls > 0 {
		left = readmissionLeft{fires: r.ForCalls, pages: sparePages}
	}
	for _, k := range keys {
		if left.fires <= 0 || left.pages <= 0 {
			return nil
		}
		if err := in.readmitSlice(ctx, epoch, k, &r, &left, now.UnixMilli(), until); err != nil {
			return err
		}
	}
	return nil
}

// readmissionLeft is how much of a readmission is left to do.
type readmissionLeft struct{ fires, pages int }

func (in *Intake) readmitSlice(
	ctx context.Context,
	epoch *session.Epoch,
	k pickup.Slice,
	r *Readmission,
	left *readmissionLeft,
	nowMS, until int64,
) error {
	from := store.After(nowMS)
	for left.fires > 0 && left.pages > 0 {
		call, cancel := context.WithTimeout(ctx, readmitTimeout)
		page, err := in.opts.Store.LoadSlice(call, k.Minute, k.Bucket, from, until, readmitPage)
		cancel()
		if err != nil || len(page) == 0 {
			return err //nolint:wrapcheck // the store says what failed
		}
		left.pages--
		last, full := page[len(page)-1], len(page) == readmitPage
		from = store.Position{RunAtMS: last.RunAtMS, FireID: last.FireID}
		page = slices.DeleteFunc(page, func(f timer.Fire) bool { return !r.wants(&f) })
		page = page[:min(len(page), left.fires)]
		left.fires -= len(page)
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
	return nil
}
