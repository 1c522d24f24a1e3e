package delivery

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// pauseTimers pauses timers whose receivers said that they are gone for good. If that fails, the
// next fire's receiver says it again. It pauses no timer that was edited meanwhile: a retry of an
// earlier version tells nothing of a new endpoint.
//
// An answer pauses nothing once its session is not valid. A process that was frozen may read it late.
// Another executor may have called the fire again meanwhile, and a person may have resumed the timer
// after a repair of the receiver, which makes no new version.
func (d *Deliverer) pauseTimers(ctx context.Context, gone []pauseQuestion) ([]struct{}, error) {
	changes := make([]store.StatusChange, 0, len(gone))
	at := make(map[timer.ID]int, len(gone))
	for _, q := range gone {
		if !q.epoch.Valid() {
			continue
		}
		if i, ok := at[q.key.Timer]; ok {
			changes[i].IfVersion = max(changes[i].IfVersion, q.key.Version)
			continue
		}
		at[q.key.Timer] = len(changes)
		changes = append(changes, store.StatusChange{
			App: q.app, ID: q.key.Timer, IfVersion: q.key.Version,
			Status: timer.StatusPaused, Reason: string(timer.ReasonGone),
			// A timer that was deactivated or paused meanwhile stays so.
			From: []timer.Status{timer.StatusActive},
			By:   &store.Actor{Kind: store.ActorSystem, ID: "executor"},
		})
	}
	if len(changes) == 0 {
		return make([]struct{}, len(gone)), nil
	}
	changed, err := d.opts.Store.SetStatus(ctx, changes, d.opts.Planner.Plan)
	var fires []timer.Fire
	for i := range changed {
		if err == nil && timer.CodeOf(changed[i].Err) != timer.CodeConflict {
			err = changed[i].Err
		}
		fires = append(fires, changed[i].Fires...)
	}
	d.opts.Committed(ctx, fires)
	if err != nil && timer.CodeOf(err) != timer.CodeConflict {
		d.opts.Logger.Warn().
			Err(err).
			Stringer("timer", changes[0].ID).
			Int("timers", len(changes)).
			Msg("timers with a gone receiver not paused")
	}
	return make([]struct{}, len(gone)), nil
}
