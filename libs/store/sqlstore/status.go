package sqlstore

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// SetStatus locks the timers' rows in order of id, so two calls about one timer come one after the other, each sees what the other
// left, and the epochs are counted exactly. Repeating a call changes nothing more.
func (s *Store) SetStatus(
	ctx context.Context, items []store.StatusChange, plan store.Planner,
) (out []store.StatusChanged, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	err = s.write(ctx, "setting the status of timers", func(ctx context.Context, c runner) error {
		out = nil
		now := make([]store.StatusChanged, len(items))
		if err := s.setStatus(ctx, c, items, plan, now); err != nil {
			return err
		}
		out = now
		return nil
	})
	return out, err // with an error: what the last commit would have done, of which nobody knows whether it did
}

func (s *Store) setStatus(
	ctx context.Context, c runner, items []store.StatusChange, plan store.Planner, out []store.StatusChanged,
) error {
	ids := make([]timer.ID, len(items))
	for i, it := range items {
		ids[i] = it.ID
	}
	byID, err := s.lockTimers(ctx, c, ids)
	if err != nil {
		return err
	}
	// The clock is read when the locks are held: an activation is not older than the change that it waited for.
	nowMS, err := s.nowMS(ctx, c)
	if err != nil {
		return err
	}
	var changed []int // indexes of items
	var fires []timer.Fire
	for i, it := range items {
		t := byID[it.ID]
		gone := t == nil || t.App != it.App
		switch {
		case gone, t.Status == timer.StatusDeleted && it.Status != timer.StatusDeleted:
			out[i].Err = timer.NotFound("timer", it.ID)
			continue
		case t.Status == it.Status:
		case it.Status == timer.StatusActive:
			out[i].Fires = s.activate(t, plan, nowMS)
			fires = append(fires, out[i].Fires...)
			changed = append(changed, i)
		default:
			if t.Status == timer.StatusActive {
				out[i].Fires = s.catchUp(t, plan, nowMS)
				fires = append(fires, out[i].Fires...)
			}
			t.Status, t.UpdatedMS = it.Status, nowMS
			changed = append(changed, i)
		}
		out[i].Timer = *t
	}
	if len(changed) == 0 {
		return nil
	}
	if err := s.saveStatus(ctx, c, byID, items, changed); err != nil {
		return err
	}
	if err := s.insertFires(ctx, c, fires); err != nil {
		return err
	}
	return s.logChanges(ctx, c, changed, out)
}

func (s *Store) lockTimers(ctx context.Context, c runner, ids []timer.ID) (map[timer.ID]*timer.Timer, error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	byID := make(map[timer.ID]*timer.Timer, len(ids))
	for part := range batches(slices.Compact(ids)) {
		var rows []timerRow
		q := stmt("SELECT " + timerColumns + " FROM timers WHERE id").idList(part).add(" ORDER BY id" + s.dialect.forUpdate)
		if err := s.selectAll(ctx, c, &rows, q); err != nil {
			return nil, err
		}
		ts, err := s.timers(ctx, c, rows, nil)
		if err != nil {
			return nil, err
		}
		for i := range ts {
			byID[ts[i].ID] = &ts[i]
		}
	}
	return byID, nil
}

// saveStatus writes the rows that changed, each once, as the last item about it left it.
func (s *Store) saveStatus(
	ctx context.Context, c runner, byID map[timer.ID]*timer.Timer, items []store.StatusChange, changed []int,
) error {
	var ts []timer.Timer
	seen := map[timer.ID]bool{}
	for _, i := range changed {
		if id := items[i].ID; !seen[id] {
			seen[id] = true
			ts = append(ts, *byID[id])
		}
	}
	return s.saveTimers(ctx, c, ts, "status", "active_since_ms", "active_epoch", "next_due_ms", "expand_at_ms", "fires_made",
		"updated_ms")
}

// logChanges adds to the change log, as the last step before the commit: a sequence is taken here and seen by others from the commit on,
// and the time between is what readers overlap by.
//
// Which sequences the rows got is read back: behind the latest one before, with the timers whose locks are held, there is
// nothing but this call's. That holds whatever way the database hands out numbers.
func (s *Store) logChanges(ctx context.Context, c runner, changed []int, out []store.StatusChanged) error {
	var before int64
	if err := s.selectOne(ctx, c, &before, stmt("SELECT COALESCE(MAX(seq),0) FROM timer_changes")); err != nil {
		return err
	}
	nowMS, err := s.nowMS(ctx, c)
	if err != nil {
		return err
	}
	ids := make([]timer.ID, 0, len(changed))
	for part := range batches(changed) {
		q := stmt("INSERT INTO timer_changes (timer_id,at_ms) VALUES ")
		for n, i := range part {
			q.row(n == 0, int64(out[i].Timer.ID), nowMS)
			ids = append(ids, out[i].Timer.ID)
		}
		if _, err := s.exec(ctx, c, q); err != nil {
			return err
		}
	}
	slices.Sort(ids)
	seqs := map[timer.ID][]int64{}
	for part := range batches(slices.Compact(ids)) {
		var rows []struct {
			Seq   int64 `db:"seq"`
			Timer int64 `db:"timer_id"`
		}
		q := stmt("SELECT seq,timer_id FROM timer_changes WHERE seq>").int(before).add(" AND timer_id").idList(part)
		if err := s.selectAll(ctx, c, &rows, q.add(" ORDER BY seq")); err != nil {
			return err
		}
		for _, r := range rows {
			seqs[timer.ID(r.Timer)] = append(seqs[timer.ID(r.Timer)], r.Seq)
		}
	}
	for _, i := range changed {
		id := out[i].Timer.ID
		if len(seqs[id]) > 0 {
			out[i].Seq, seqs[id] = seqs[id][0], seqs[id][1:]
		}
	}
	return nil
}
