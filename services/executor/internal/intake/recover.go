package intake

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const (
	recoverTimeout  = 5 * time.Second
	confirmEvery    = time.Second
	ownedCheckEvery = 10 * time.Second // between routine checks
	ownedCheckShare = 50               // routine checks use at most 1/50 of the time
	// ownedOverdueAfter is how long past its run time a claimed fire must be before the routine
	// check considers it. It leaves out the fires that wait in flight for a moment.
	ownedOverdueAfter = 2 * inflight.MaxWait
	ownedLimit        = 10_000
)

// monitorSessions expires sessions that no longer renew. The store poll finds their claims.
func (in *Intake) monitorSessions(ctx context.Context) {
	session.NewMonitor(in.opts.Store, in.opts.Heartbeater, in.log).
		Watch(ctx, func(_ context.Context, live, _ []store.Session, err error) {
			if err != nil {
				in.log.Debug().Err(err).Msg("sessions not monitored")
				return
			}
			in.poller.SetAlive(live)
		})
}

// DropClaims empties the in-flight set whenever a session epoch ends, until ctx ends.
func (in *Intake) DropClaims(ctx context.Context) {
	for {
		epoch, err := in.opts.Heartbeater.Wait(ctx)
		if err != nil {
			return
		}
		select {
		case <-epoch.Done():
		case <-ctx.Done():
			return
		}
		if n := in.opts.Inflight.RemoveEpoch(epoch); n > 0 {
			in.log.Warn().
				Int64("session", int64(epoch.ID)).
				Int("fires", n).
				Msg("session expired, in-flight fires dropped")
		}
		for in.opts.Heartbeater.Epoch() == epoch && ctx.Err() == nil { // fenced, and not yet closed
			clock.Pause(ctx, validityPollEvery)
		}
	}
}

// Unconfirmed tells that this session may own a fire that is not in flight. Its claim is repeated
// soon.
func (in *Intake) Unconfirmed(f timer.Fire) { in.unconfirmed.add([]timer.Fire{f}) }

// unconfirmedClaims are the fires of unanswered claims, which this session may own.
type unconfirmedClaims struct {
	most  int
	mu    sync.Mutex
	fires []timer.Fire
}

func (d *unconfirmedClaims) add(fires []timer.Fire) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.fires) < d.most {
		d.fires = append(d.fires, fires...)
	}
}

func (d *unconfirmedClaims) take() []timer.Fire {
	d.mu.Lock()
	defer d.mu.Unlock()
	fires := d.fires
	d.fires = nil
	return fires
}

// confirmClaims repeats claims whose answer was lost, because this session may own fires that are
// not in flight. It repeats them soon: the fire's task may reach another executor, which finds the
// fire taken.
//
// At times it also claims every overdue fire that the session owns, less often the longer that
// takes. A fire that has just left the in-flight set is finished or has another revision, so the
// claim does not win it.
func (in *Intake) confirmClaims(ctx context.Context) {
	tick := time.NewTicker(confirmEvery)
	defer tick.Stop()
	next := time.Now().Add(ownedCheckEvery)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		epoch := in.opts.Heartbeater.Epoch()
		if epoch == nil {
			continue
		}
		if err := in.confirm(ctx, epoch, in.unconfirmed.take()); err != nil {
			in.log.Debug().Err(err).Msg("claims not confirmed")
			continue
		}
		if time.Now().Before(next) {
			continue
		}
		began := time.Now()
		if err := in.confirmOverdue(ctx, epoch); err != nil {
			in.log.Debug().Err(err).Msg("overdue own claims not checked")
		}
		next = time.Now().Add(max(ownedCheckEvery, ownedCheckShare*time.Since(began)))
	}
}

// confirm claims the fires again. After an error the remaining ones are unconfirmed again.
func (in *Intake) confirm(ctx context.Context, epoch *session.Epoch, fires []timer.Fire) error {
	for len(fires) > 0 {
		n := min(len(fires), store.MaxBatch)
		again := inflight.Arrivals(fires[:n], timer.PathOwnClaim)
		_, _, err := in.claim(ctx, epoch, again, inflight.FromUnconfirmed)
		if fires = fires[n:]; err != nil {
			in.unconfirmed.add(fires)
			return err
		}
	}
	return nil
}

func (in *Intake) confirmOverdue(ctx context.Context, epoch *session.Epoch) error {
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	fires, err := in.opts.Store.Owned(
		ctx,
		[]timer.ID{epoch.ID},
		0,
		in.opts.Clock.Now().Add(-ownedOverdueAfter).UnixMilli(),
		ownedLimit,
	)
	if err != nil {
		return err //nolint:wrapcheck // the store says what failed
	}
	// Those that wait in flight were answered.
	return in.confirm(ctx, epoch, slices.DeleteFunc(fires, func(f timer.Fire) bool {
		return in.opts.Inflight.Has(f.FireID)
	}))
}
