package fires

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// AddFires locks the timer's row. The fires therefore get the version and epoch that are present at
// the commit. Of two calls with the same fires, the second finds those of the first: among the open
// fires, which it reads first, or among the outcomes.
func (s *Fires) AddFires(
	ctx context.Context, app string, id timer.ID, fires []timer.Fire,
) (inserted []timer.Fire, err error) {
	fires = slices.Clone(fires)
	for i := range fires {
		if fires[i].Timer != id || fires[i].Series == 0 {
			return nil, timer.Invalid(
				"series",
				"a fire that is added is the timer's, of a series of its own",
			)
		}
	}
	slices.SortFunc(fires, timer.CompareFires)
	fires = slices.CompactFunc(fires, sameFire)
	err = s.db.Write(ctx, "adding fires", func(ctx context.Context, c sqldb.Runner) error {
		inserted = nil
		byID, _, err := s.timers.LockAll(ctx, c, []timer.ID{id}, nil)
		if err != nil {
			return err
		}
		t := byID[id]
		if t == nil || t.App != app || t.Status == timer.StatusDeleted {
			return timer.NotFound("timer", id)
		}
		there := map[timer.FireID]bool{}
		for part := range sqldb.Batches(sqldb.IDsOf(fires)) {
			open, err := s.fires.Open(ctx, c, part, "")
			if err != nil {
				return err
			}
			for i := range open {
				there[open[i].FireID] = true
			}
		}
		done, err := s.history.Finished(ctx, c, sqldb.IDsOf(fires))
		if err != nil {
			return err
		}
		var created []timer.Fire
		for _, f := range fires {
			if !there[f.FireID] && !done[f.FireID] {
				f.AppID, f.Version, f.Epoch, f.Rev, f.Owner = t.AppID, t.Version, t.ActiveEpoch, 0, 0
				f.PriorityLevel, f.TargetBits = t.Definition.Priority.PriorityLevel(), 0
				created = append(created, f)
			}
		}
		if err := s.refuseFrozen(ctx, c, app, len(created)); err != nil {
			return err
		}
		if err := s.fires.Insert(ctx, c, created); err != nil {
			return err
		}
		if err := s.timers.Keep(ctx, c, byID); err != nil {
			return err
		}
		inserted = created
		return s.auditFires(ctx, c, t, created)
	})
	return inserted, err
}

// auditFires adds fires that were added to the audit trail.
func (s *Fires) auditFires(
	ctx context.Context, c sqldb.Runner, t *timer.Timer, created []timer.Fire,
) error {
	if len(created) == 0 || store.ActorOf(ctx) == nil {
		return nil
	}
	nowMS, err := s.db.NowMS(ctx, c)
	if err != nil {
		return err
	}
	e, err := store.AuditFiresAdded(t, created)
	return s.audit.Add(ctx, c, t.AppID, nowMS, e, err)
}

// refuseFrozen returns a conflict for new fires if the app is frozen.
func (s *Fires) refuseFrozen(ctx context.Context, c sqldb.Runner, app string, fires int) error {
	if fires == 0 {
		return nil
	}
	return s.apps.RefuseFrozen(ctx, c, app)
}
