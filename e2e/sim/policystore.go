package sim

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func (s *gatedStore) Edit(ctx context.Context, items []store.Edit, plan store.Planner) ([]store.Edited, error) {
	return ask(s, ctx, "Edit", true, func(ctx context.Context) ([]store.Edited, error) {
		defer s.p.world.seen.inOrder()()
		out, err := s.Store.Edit(ctx, items, plan)
		if err == nil {
			s.p.world.seen.edited(out)
		}
		return out, err
	})
}

func (s *gatedStore) TimerNamed(ctx context.Context, app, name string) (timer.Timer, error) {
	return ask(s, ctx, "TimerNamed", false, func(ctx context.Context) (timer.Timer, error) { return s.Store.TimerNamed(ctx, app, name) })
}

func (s *gatedStore) ExpandBackfills(ctx context.Context, limit int, plan store.BackfillPlanner) (fires []timer.Fire, n int, err error) {
	fires, err = ask(s, ctx, "ExpandBackfills", true, func(ctx context.Context) (fs []timer.Fire, err error) {
		fs, n, err = s.Store.ExpandBackfills(ctx, limit, plan)
		return fs, err
	})
	return fires, n, err
}

func (s *gatedStore) Enter(ctx context.Context, session timer.ID, asks []store.Entry) ([]store.Entered, error) {
	return ask(s, ctx, "Enter", true, func(ctx context.Context) ([]store.Entered, error) {
		out, err := s.Store.Enter(ctx, session, asks)
		for i := range out {
			s.p.world.log.printf("%s asks for the turn of %s: %d", s.p, asks[i].Fire.FireID, out[i].Turn)
		}
		return out, err
	})
}

func (s *gatedStore) CatchUp(ctx context.Context, asks []store.Late) ([]bool, error) {
	return ask(s, ctx, "CatchUp", true, func(ctx context.Context) ([]bool, error) {
		out, err := s.Store.CatchUp(ctx, asks)
		for i := range out {
			s.p.world.log.printf("%s asks whether %s catches up until %s: %t", s.p, asks[i].FireID, stamp(asks[i].ToMS), out[i])
		}
		return out, err
	})
}

func (s *gatedStore) Calendar(ctx context.Context, app, name string) (store.CalendarVersion, error) {
	return ask(s, ctx, "Calendar", false, func(ctx context.Context) (store.CalendarVersion, error) { return s.Store.Calendar(ctx, app, name) })
}
