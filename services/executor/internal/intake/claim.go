package intake

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// claim adds fires to the in-flight set and claims them in the store.
//
// Two batches with the same fire: the second finds it in the in-flight set and leaves it. Crash
// after the commit: the session expires, and other executors claim its fires. Lost answer: the
// fires leave the set, their tasks are redelivered, and the repeated claim finds that this session
// owns them.
//
// It returns how many this call has claimed, and the indexes of the fires whose task must be
// redelivered.
func (in *Intake) claim(
	ctx context.Context,
	epoch *session.Epoch,
	arrivals []inflight.Arrival,
	source inflight.Source,
) (claimed int, again []int, err error) {
	es, again, err := in.opts.Inflight.Reserve(
		ctx,
		epoch,
		arrivals,
		source,
		in.opts.Clock.Now().UnixMilli(),
	)
	if err != nil || len(es) == 0 {
		return 0, again, err
	}
	in.opts.Traces.Asked(es)
	ask := make([]timer.Fire, len(es))
	for i, e := range es {
		ask[i] = e.Fire
	}
	// A closing consumer waits for this call. If ctx cancelled it, the claim might commit unknown
	// to this process, under a session that stays valid until the stop is over.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	kept := false
	defer func() {
		// The claim panicked, and the bus recovers the panic. Fires left in flight would be
		// acknowledged on redelivery, and never called.
		if !kept {
			in.opts.Inflight.Remove(es...)
		}
	}()
	won, err := in.opts.Store.Claim(call, epoch.ID, ask)
	if err != nil {
		in.opts.Inflight.Remove(es...)
		in.unconfirmed.add(ask) // it may have committed, with its answer lost
		return 0, again, err    //nolint:wrapcheck // the store says what failed
	}
	mine := in.keepClaimed(es, won)
	in.opts.Traces.Claimed(mine)
	if source == inflight.FromReadmit {
		in.runNow(call, epoch, mine)
	}
	in.met.claimsLost.Add(float64(len(es) - len(mine)))
	if err := in.opts.Load(call, mine); err != nil {
		// Not fatal: each call reads what is missing.
		in.log.Debug().Err(err).Msg("timers of claimed fires not loaded")
	}
	in.opts.Inflight.Loaded(mine...)
	kept = true
	in.opts.Wheel.Add(mine...)
	if len(mine) < len(es) && !epoch.Valid() {
		return len(mine), again, errSessionExpired
	}
	return len(mine), again, nil
}

// keepClaimed updates the fires that were won to their stored rows, and drops the others.
func (in *Intake) keepClaimed(es []*inflight.Entry, won []timer.Fire) []*inflight.Entry {
	byID := make(map[timer.FireID]*timer.Fire, len(won))
	for i := range won {
		byID[won[i].FireID] = &won[i]
	}
	var mine, lost []*inflight.Entry
	for _, e := range es {
		if f := byID[e.Fire.FireID]; f != nil {
			e.Fire = *f
			mine = append(mine, e)
		} else {
			lost = append(lost, e)
		}
	}
	in.opts.Inflight.Confirmed(mine, in.opts.Clock.Now().UnixMilli())
	in.opts.Inflight.Remove(lost...)
	return mine
}

// ClaimEarlier claims fires that late ones wait for, without waiting for room.
func (in *Intake) ClaimEarlier(ctx context.Context, fires []timer.Fire) error {
	epoch := in.opts.Heartbeater.Epoch()
	if epoch == nil || !epoch.Valid() {
		return nil
	}
	return in.claimPolled(
		ctx,
		epoch,
		inflight.Arrivals(fires, timer.PathOrder),
		inflight.FromOrder,
	)
}

// claimPolled claims fires that no task brought.
func (in *Intake) claimPolled(
	ctx context.Context,
	epoch *session.Epoch,
	arrivals []inflight.Arrival,
	source inflight.Source,
) error {
	for part := range slices.Chunk(arrivals, store.MaxBatch) {
		if _, _, err := in.claim(ctx, epoch, part, source); err != nil {
			return err
		}
	}
	return nil
}
