package sim

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func (s *gatedStore) TimerByName(ctx context.Context, app, name string) (timer.Timer, error) {
	return gatedCall(
		s,
		ctx,
		"TimerNamed",
		false,
		func(ctx context.Context) (timer.Timer, error) { return s.Store.TimerByName(ctx, app, name) },
	)
}

func (s *gatedStore) Edit(
	ctx context.Context,
	items []store.Edit,
	plan store.Planner,
) ([]store.EditResult, error) {
	return gatedCall(s, ctx, "Edit", true, func(ctx context.Context) ([]store.EditResult, error) {
		defer s.p.env.observer.lockEffects()()
		out, err := s.Store.Edit(ctx, items, plan)
		if err == nil {
			s.p.env.observer.edited(out)
		}
		return out, err
	})
}

func (s *gatedStore) Inactivities(
	ctx context.Context,
	ids []timer.ID,
) (map[timer.ID][]timer.Inactivity, error) {
	return gatedCall(
		s,
		ctx,
		"Inactivities",
		false,
		func(ctx context.Context) (map[timer.ID][]timer.Inactivity, error) {
			return s.Store.Inactivities(ctx, ids)
		},
	)
}

func (s *gatedStore) Defer(
	ctx context.Context,
	session timer.ID,
	fires []store.Deferral,
) ([]timer.FireID, error) {
	return gatedCall(s, ctx, "Defer", true, func(ctx context.Context) ([]timer.FireID, error) {
		active, err := s.Store.Defer(ctx, session, fires)
		if err == nil {
			still := setOf(active)
			for i := range fires {
				f := &fires[i].Fire
				s.p.env.log.printf(
					"%s defers %s: its timer is active %t",
					s.p,
					f.FireID,
					still[f.FireID],
				)
				if !still[f.FireID] {
					s.p.env.recorder.markRecorded(s.p, f.FireID, f.Attempt)
				}
			}
		}
		return active, err
	})
}

func (s *gatedStore) AddFires(
	ctx context.Context,
	app string,
	id timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	return gatedCall(
		s,
		ctx,
		"AddFires",
		true,
		func(ctx context.Context) ([]timer.Fire, error) { return s.Store.AddFires(ctx, app, id, fires) },
	)
}

func (s *gatedStore) App(ctx context.Context, name string) (store.App, error) {
	return gatedCall(
		s,
		ctx,
		"App",
		false,
		func(ctx context.Context) (store.App, error) { return s.Store.App(ctx, name) },
	)
}

func (s *gatedStore) SetFrozen(
	ctx context.Context,
	name string,
	frozen bool,
	reason string,
) (store.App, error) {
	return gatedCall(s, ctx, "SetFrozen", true, func(ctx context.Context) (store.App, error) {
		return s.Store.SetFrozen(ctx, name, frozen, reason)
	})
}

func (s *gatedStore) PutCalendar(
	ctx context.Context,
	app string,
	c timer.Calendar,
	ifVersion int64,
) (int64, error) {
	return gatedCall(
		s,
		ctx,
		"PutCalendar",
		true,
		func(ctx context.Context) (int64, error) { return s.Store.PutCalendar(ctx, app, c, ifVersion) },
	)
}

func (s *gatedStore) Calendar(
	ctx context.Context,
	app, name string,
) (store.CalendarVersion, error) {
	return gatedCall(
		s,
		ctx,
		"Calendar",
		false,
		func(ctx context.Context) (store.CalendarVersion, error) { return s.Store.Calendar(ctx, app, name) },
	)
}

func (s *gatedStore) Calendars(
	ctx context.Context,
	app, behind string,
	limit int,
) ([]store.CalendarVersion, error) {
	return gatedCall(
		s,
		ctx,
		"Calendars",
		false,
		func(ctx context.Context) ([]store.CalendarVersion, error) {
			return s.Store.Calendars(ctx, app, behind, limit)
		},
	)
}

func (s *gatedStore) DeleteCalendar(ctx context.Context, app, name string) error {
	_, err := gatedCall(
		s,
		ctx,
		"DeleteCalendar",
		true,
		func(ctx context.Context) (noResult, error) {
			return noResult{}, s.Store.DeleteCalendar(ctx, app, name)
		},
	)
	return err
}

func (s *gatedStore) StartBackfill(ctx context.Context, b store.Backfill) (store.Backfill, error) {
	return gatedCall(
		s,
		ctx,
		"StartBackfill",
		true,
		func(ctx context.Context) (store.Backfill, error) { return s.Store.StartBackfill(ctx, b) },
	)
}

func (s *gatedStore) Backfill(
	ctx context.Context,
	app string,
	id timer.ID,
) (store.Backfill, error) {
	return gatedCall(
		s,
		ctx,
		"Backfill",
		false,
		func(ctx context.Context) (store.Backfill, error) { return s.Store.Backfill(ctx, app, id) },
	)
}

func (s *gatedStore) CancelBackfill(
	ctx context.Context,
	app string,
	id timer.ID,
) (store.Backfill, error) {
	return gatedCall(
		s,
		ctx,
		"CancelBackfill",
		true,
		func(ctx context.Context) (store.Backfill, error) { return s.Store.CancelBackfill(ctx, app, id) },
	)
}

func (s *gatedStore) ExpandBackfills(
	ctx context.Context,
	limit int,
	plan store.BackfillPlanner,
) (fires []timer.Fire, n int, err error) {
	fires, err = gatedCall(
		s,
		ctx,
		"ExpandBackfills",
		true,
		func(ctx context.Context) (fs []timer.Fire, err error) {
			fs, n, err = s.Store.ExpandBackfills(ctx, limit, plan)
			return fs, err
		},
	)
	return fires, n, err
}

func (s *gatedStore) AcquireSlots(
	ctx context.Context,
	session timer.ID,
	asks []store.SlotRequest,
) ([]store.SlotResult, error) {
	return gatedCall(
		s,
		ctx,
		"AcquireSlots",
		true,
		func(ctx context.Context) ([]store.SlotResult, error) {
			out, err := s.Store.AcquireSlots(ctx, session, asks)
			for i := range out {
				s.p.env.log.printf(
					"%s acquires a slot for %s: %d",
					s.p,
					asks[i].Fire.FireID,
					out[i].SlotVerdict,
				)
			}
			return out, err
		},
	)
}

func (s *gatedStore) CatchUp(ctx context.Context, asks []store.CatchUpRequest) ([]bool, error) {
	return gatedCall(s, ctx, "CatchUp", true, func(ctx context.Context) ([]bool, error) {
		out, err := s.Store.CatchUp(ctx, asks)
		for i := range out {
			s.p.env.log.printf(
				"%s lets %s catch up until %s: %t",
				s.p,
				asks[i].FireID,
				stamp(asks[i].ToMS),
				out[i],
			)
		}
		return out, err
	})
}
