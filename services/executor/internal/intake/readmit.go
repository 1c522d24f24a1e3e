package intake

import (
	"context"
	"math"
	"slices"
	"time"

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
	// somePages is how many pages ReadmitSome reads, empty ones included.
	somePages = 100
	// rowAhead is how long before the run time in its row a readmitted fire may be called.
	rowAhead = time.Second
)

// Readmit claims all deferred fires of an app in this executor's share of the buckets, after the
// limits of the app were raised. Their run time is now. It ends where there is no room: of the others
// the limiter asks for as many as may start, and they do not keep other apps from their readmission.
//
// Executors divide the deferred fires by bucket. If two claim one fire, or a task arrives too, one
// claim wins. After a crash the session expires, as for any fire. Fires not reached while the store
// is unavailable run at their retry-after time.
func (in *Intake) Readmit(ctx context.Context, app int64, name string) error {
	_, err := in.readmit(ctx, &readmission{
		app:   name,
		wants: func(f *timer.Fire) bool { return f.AppID == app && f.State == timer.FireDeferred },
		fires: math.MaxInt,
		pages: math.MaxInt,
	})
	return err
}

// ReadmitSome is Readmit for some fires of those that wait for a call of their app, and returns how
// many. Sooner minutes go first. If there are fewer in this executor's share of the buckets, it takes
// others, since executors do not defer alike. It searches a bounded part of the fires, and begins
// with another bucket each time.
func (in *Intake) ReadmitSome(ctx context.Context, app int64, s limit.Spare) (int, error) {
	return in.readmit(ctx, &readmission{
		wants: func(f *timer.Fire) bool {
			return f.AppID == app && f.State == timer.FireDeferred && f.WaitsForCall()
		},
		app:   s.App,
		fires: s.Calls,
		pages: somePages,
		some:  true,
	})
}

// readmission is which fires to claim, and how much is left to do.
type readmission struct {
	app   string
	wants func(f *timer.Fire) bool
	fires int  // to claim
	pages int  // to read
	some  bool // not all: also of the buckets of other executors
}

func (r *readmission) done() bool { return r.fires <= 0 || r.pages <= 0 }

func (in *Intake) readmit(ctx context.Context, r *readmission) (claimed int, err error) {
	now := in.opts.Clock.Now()
	until := now.Add(limit.MaxWait).UnixMilli()
	epoch := in.opts.Heartbeater.Epoch()
	if epoch == nil {
		return 0, nil
	}
	keys, err := pickup.Slices(
		ctx,
		in.opts.Store,
		pickup.Shard{Count: 1},
		timer.MinuteOf(now.UnixMilli()),
		timer.MinuteOf(until),
	)
	if err != nil {
		return 0, err //nolint:wrapcheck // already wrapped
	}
	shard := pickup.ShardOf(in.Alive(), epoch.ID, 0)
	own := slices.DeleteFunc(
		slices.Clone(keys),
		func(k pickup.Slice) bool { return !shard.Has(k.Bucket) },
	)
	others := slices.DeleteFunc(keys, func(k pickup.Slice) bool { return shard.Has(k.Bucket) })
	if keys = own; r.some {
		turn := int(in.readmissions.Add(1))
		keys = slices.Concat(rotated(own, turn), rotated(others, turn))
	}
	wanted := r.fires
	for _, k := range keys {
		if r.done() {
			break
		}
		if err := in.readmitSlice(ctx, epoch, k, r, now.UnixMilli(), until); err != nil {
			return wanted - r.fires, err
		}
	}
	return wanted - r.fires, nil
}

// rotated returns slices in the order of their minutes, those of a minute beginning with another one
// each turn.
func rotated(keys []pickup.Slice, turn int) (out []pickup.Slice) {
	for len(keys) > 0 {
		n := 1
		for n < len(keys) && keys[n].Minute == keys[0].Minute {
			n++
		}
		out = append(append(out, keys[turn%n:n]...), keys[:turn%n]...)
		keys = keys[n:]
	}
	return out
}

func (in *Intake) readmitSlice(
	ctx context.Context,
	epoch *session.Epoch,
	k pickup.Slice,
	r *readmission,
	nowMS, until int64,
) error {
	from := store.After(nowMS)
	for !r.done() {
		call, cancel := context.WithTimeout(ctx, readmitTimeout)
		page, err := in.opts.Store.LoadSlice(call, k.Minute, k.Bucket, from, until, readmitPage)
		cancel()
		r.pages--
		if err != nil || len(page) == 0 {
			return err //nolint:wrapcheck // the store says what failed
		}
		last, full := page[len(page)-1], len(page) == readmitPage
		from = store.Position{RunAtMS: last.RunAtMS, FireID: last.FireID}
		page = slices.DeleteFunc(page, func(f timer.Fire) bool { return !r.wants(&f) })
		page = page[:min(len(page), r.fires)]
		if len(page) > 0 {
			if in.opts.Inflight.Room() == 0 {
				r.pages = 0 // the limiter soon asks again
				return nil
			}
			waiting := inflight.Arrivals(page, timer.PathReadmit)
			for i := range waiting {
				waiting[i].AskedFor = r.app
			}
			claimed, _, err := in.claim(ctx, epoch, waiting, inflight.FromReadmit)
			r.fires -= claimed
			if err != nil {
				return err
			}
		}
		if !full {
			return nil
		}
	}
	return nil
}

// runNow makes claimed fires that were deferred due now, in their rows too: after a crash, others look
// among the claims due about now. After a crash before that, or if the store does not take it, a fire
// is found at its retry-after time.
func (in *Intake) runNow(ctx context.Context, epoch *session.Epoch, es []*inflight.Entry) {
	now := in.opts.Clock.Now()
	var moved []timer.Fire
	for _, e := range es {
		if e.Fire.State != timer.FireDeferred { // it may wait for a retry since it was read
			continue
		}
		ahead := e.Fire.RunAtMS - now.UnixMilli()
		if e.MoveTo(now, in.opts.Counts); ahead > rowAhead.Milliseconds() {
			moved = append(moved, e.Fire)
		}
	}
	if len(moved) == 0 {
		return
	}
	if _, err := in.opts.Store.RecordAttempts(ctx, epoch.ID, moved, nil); err != nil {
		in.log.Debug().
			Err(err).
			Int("fires", len(moved)).
			Msg("run times of readmitted fires not written")
	}
}
