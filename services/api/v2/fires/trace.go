package fires

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

// trace makes the root span of a fire that its receiver completed, because no executor ends it. If
// its record cannot be read, the trace has none.
func (s *Resource) trace(ctx context.Context, state *timer.State, id timer.FireID) {
	t := s.Tracer
	keep := t.Keep()
	perhaps := t.SamplesFire(traceid.Of(id), state.Origin, true) || keep.Late || keep.Retried
	if !perhaps { // nearly always: it is not worth a read
		return
	}
	found, err := s.Store.Fire(ctx, state.App, id)
	if err != nil || found.Outcome == nil {
		return
	}
	o := found.Outcome
	if !t.SamplesFire(traceid.Of(id), state.Origin, s.isOneShot(ctx, o)) &&
		!keep.Keeps(o.Attempts, o.LatenessMS, o.Kind) {
		return
	}
	t.End(&tracing.EndedFire{
		Outcome: o,
		App:     state.App,
		Name:    state.Name,
		Origin:  state.Origin,
		Start:   time.UnixMilli(o.DueMS),
		End:     time.UnixMilli(o.FinishedMS),
	})
}

func (s *Resource) isOneShot(ctx context.Context, o *timer.Outcome) bool {
	key := store.VersionKey{Timer: o.Timer, Version: o.Version}
	defs, err := s.Store.Definitions(ctx, []store.VersionKey{key})
	d, ok := defs[key]
	return err == nil && ok && d.Schedule.Kind.OneShot()
}
