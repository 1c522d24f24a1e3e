package scheduling

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// SetStatus locks the timers' rows in order of id. Two calls about one timer run one after the
// other, so each sees the result of the other, and epochs are counted exactly. Repeating a call
// changes nothing more.
func (s *Scheduling) SetStatus(
	ctx context.Context, items []store.StatusChange, plan store.Planner,
) (out []store.StatusResult, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	err = s.db.Write(
		ctx,
		"setting the status of timers",
		func(ctx context.Context, c sqldb.Runner) error {
			out = nil
			now := make([]store.StatusResult, len(items))
			if err := s.setStatus(ctx, c, items, plan, now); err != nil {
				return err
			}
			out = now
			return nil
		},
	)
	// With an error, out is what the last commit would have done: nobody knows whether it did.
	return out, err
}

func (s *Scheduling) setStatus(
	ctx context.Context,
	c sqldb.Runner,
	items []store.StatusChange,
	plan store.Planner,
	out []store.StatusResult,
) error {
	ids := make([]timer.ID, len(items))
	for i, it := range items {
		ids[i] = it.ID
	}
	byID, calendar, err := s.timers.LockAll(ctx, c, ids, nil)
	if err != nil {
		return err
	}
	// The clock is read after the locks are taken: an activation must not be earlier than the
	// change that it waited for.
	nowMS, err := s.db.NowMS(ctx, c)
	if err != nil {
		return err
	}
	ending := s.newExpansion(c, plan, nowMS)
	ending.calendar = calendar
	if err := ending.findReplansByID(ctx, byID); err != nil {
		return err
	}
	ended, err := ending.endPauses(ctx, byID)
	if err != nil {
		return err
	}
	x := s.newExpansion(c, plan, nowMS)
	x.calendar, x.replans = calendar, ending.replans
	var changed []int // indexes of items
	var trail audit.Entries
	for i := range items {
		t := byID[items[i].ID]
		if t == nil || t.App != items[i].App ||
			t.Status == timer.StatusDeleted && items[i].Status != timer.StatusDeleted {
			out[i].Err = timer.NotFound("timer", items[i].ID)
			continue
		}
		if out[i].Err = refused(t, &items[i]); out[i].Err != nil {
			out[i].Timer = *t
			continue
		}
		if !sameStatus(t, &items[i]) {
			if out[i].Fires, err = x.setAudited(ctx, t, &items[i], &trail); err != nil {
				return err
			}
			changed = append(changed, i)
		}
		out[i].Timer = *t
	}
	if len(changed) == 0 {
		out[0].Fires = ended
		return nil
	}
	if err := x.flush(ctx); err != nil {
		return err
	}
	moved, err := s.saveStatus(ctx, x, byID, items, changed, out)
	if err != nil {
		return err
	}
	if err := s.audit.Save(ctx, c, &trail, nowMS); err != nil {
		return err
	}
	seqs, err := s.timers.LogChanges(ctx, c, moved)
	if err != nil {
		return err
	}
	for n, i := range changed {
		out[i].Seq = seqs[n]
	}
	out[0].Fires = append(out[0].Fires, ended...)
	return nil
}

// saveStatus writes the changed timers, which it returns, and what follows from their new status.
func (s *Scheduling) saveStatus(
	ctx context.Context,
	x *expansion,
	byID map[timer.ID]*timer.Timer,
	items []store.StatusChange,
	changed []int,
	out []store.StatusResult,
) (moved []timer.ID, err error) {
	var stopped []timer.ID
	var deleted []*timer.Timer
	for _, i := range changed {
		id := items[i].ID
		out[i].Fires = x.marked(out[i].Fires)
		out[i].Timer.FiresCreated -= x.alreadyCounted[id]
		moved = append(moved, id)
		switch items[i].Status {
		case timer.StatusDeleted:
			deleted = append(deleted, byID[id])
		case timer.StatusPaused, timer.StatusInactive:
			stopped = append(stopped, id)
		case timer.StatusActive:
		}
	}
	if err := s.deleteReferences(ctx, x.c, deleted); err != nil {
		return nil, err
	}
	if err := x.saveEach(ctx, byID, moved); err != nil {
		return nil, err
	}
	if err := s.fires.WakeRequested(ctx, x.c, stopped, x.nowMS); err != nil {
		return nil, err
	}
	return moved, nil
}

// deleteReferences deletes what leads to deleted timers: uses of calendars, and attributes.
func (s *Scheduling) deleteReferences(
	ctx context.Context,
	c sqldb.Runner,
	deleted []*timer.Timer,
) error {
	var uses []timers.CalendarUse
	var attributes []timers.Attribute
	for _, t := range deleted {
		used, had, err := s.timers.References(ctx, c, t)
		if err != nil {
			return err
		}
		uses, attributes = append(uses, used...), append(attributes, had...)
	}
	if err := s.timers.DeleteUses(ctx, c, uses); err != nil {
		return err
	}
	return s.timers.DeleteAttributes(ctx, c, attributes)
}

// refused returns why a timer does not get a status, or nil. An activation needs to read the
// definition: S44.
func refused(t *timer.Timer, it *store.StatusChange) error {
	if err := it.Refused(t); err != nil {
		return err //nolint:wrapcheck // it says what is wrong
	}
	if why := t.Definition.Unreadable; why != "" && it.Status == timer.StatusActive &&
		t.Status != timer.StatusActive {
		return store.Unreadable(why)
	}
	return nil
}

func sameStatus(t *timer.Timer, it *store.StatusChange) bool {
	return t.Status == it.Status &&
		(it.Status != timer.StatusPaused || t.PauseReason == it.Reason && t.PausedUntilMS == it.UntilMS)
}

// setAudited applies one item and adds it to the trail.
func (x *expansion) setAudited(
	ctx context.Context,
	t *timer.Timer,
	it *store.StatusChange,
	trail *audit.Entries,
) ([]timer.Fire, error) {
	was := *t
	fires, err := x.setStatus(ctx, t, it)
	if err != nil {
		return nil, err
	}
	entry, err := store.AuditStatusSet(&was, t)
	if err != nil {
		return nil, err
	}
	trail.Add(audit.ActorOf(ctx, it.By), t.AppID, entry)
	return fires, nil
}

// setStatus applies one item. A paused timer is due for expansion at the end of its pause, when
// Expand activates it.
func (x *expansion) setStatus(
	ctx context.Context,
	t *timer.Timer,
	it *store.StatusChange,
) (fires []timer.Fire, err error) {
	if it.Status == timer.StatusActive {
		return x.activate(ctx, t)
	}
	if t.Status == timer.StatusActive {
		fires = x.expandPast(t)
	}
	t.Status, t.UpdatedMS = it.Status, x.nowMS
	t.PauseReason, t.PausedUntilMS = "", 0
	if it.Status == timer.StatusPaused {
		t.PauseReason, t.PausedUntilMS, t.ExpandAtMS = sqldb.Clip(
			it.Reason,
			timer.MaxReasonLen,
		), it.UntilMS, it.UntilMS
		if it.UntilMS == 0 {
			t.ExpandAtMS = timer.NeverMS
		}
	}
	if it.Status == timer.StatusDeleted {
		// Its deferred fires are released, for executors to skip. PurgeTimers finds it by the instant.
		t.ExpandAtMS = x.nowMS
		x.reactivated = append(x.reactivated, t.ID)
	}
	x.beginInactivity(t)
	return fires, nil
}

// saveEach writes each changed row once, in the state that the last item left, and its replan.
func (x *expansion) saveEach(
	ctx context.Context,
	byID map[timer.ID]*timer.Timer,
	ids []timer.ID,
) error {
	if err := x.saveReplans(ctx); err != nil {
		return err
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	var ts []timer.Timer
	for _, id := range slices.Compact(ids) {
		byID[id].FiresCreated -= x.alreadyCounted[id]
		ts = append(ts, *byID[id])
	}
	return x.save(ctx, ts, changeColumns)
}
