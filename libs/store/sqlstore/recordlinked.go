package sqlstore

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// recordLinked records outcomes on which more depends, in one transaction: it locks the rows of the
// timers whose turn may pass on, in order of id, and then those of all fires that it may touch, in
// order of their keys. So of two outcomes of one timer at once the second sees to whom the first
// handed the turn, and Enter sees either. Repeated after an unknown result it finds the outcomes
// under its own session, records nothing again, and tells again of the fires that it set off, if
// nobody has claimed them: claimed once, whoever dispatched them.
func (s *Store) recordLinked(
	ctx context.Context, session timer.ID, outcomes []timer.Outcome, attempts []timer.Attempt,
) (lost []timer.FireID, started []timer.Fire, err error) {
	err = s.write(ctx, "recording outcomes", func(ctx context.Context, c runner) error {
		r := &linkedBatch{store: s, c: c, session: session, outcomes: outcomes}
		lost, started = nil, nil
		if err := r.run(ctx, attempts); err != nil {
			return err
		}
		lost, started = r.lost, r.started
		return nil
	})
	// with an error: what the last commit would have made, of which nobody knows whether it did.
	return lost, started, err
}

// linkedBatch is one transaction of recordLinked.
type linkedBatch struct {
	store    *Store
	c        runner
	session  timer.ID
	anyOwner bool // owns the fires: they are ended all the same
	outcomes []timer.Outcome

	nowMS      int64
	slots      map[timer.ID]*slotRow
	queueHeads map[timer.ID][]timer.FireID // of the queues
	rows       map[timer.FireID]timer.Fire // open, locked
	mine       []timer.Outcome             // recorded now
	before     []timer.Outcome             // recorded by this session before
	ended      map[timer.FireID]bool       // mine
	promoted   []timer.Fire
	dequeued   []timer.FireID // to leave their queues
	lost       []timer.FireID
	started    []timer.Fire
}

func (r *linkedBatch) run(ctx context.Context, attempts []timer.Attempt) error {
	if err := r.lock(ctx); err != nil {
		return err
	}
	return r.finish(ctx, attempts)
}

// finish ends what is the session's, behind lock.
func (r *linkedBatch) finish(ctx context.Context, attempts []timer.Attempt) error {
	s := r.store
	if err := r.sort(ctx); err != nil {
		return err
	}
	if err := s.deleteLocked(ctx, r.c, r.mine); err != nil {
		return err
	}
	r.noteEnds()
	r.uncount()
	next, err := r.successors(ctx)
	if err != nil {
		return err
	}
	if err := r.promoteNext(ctx); err != nil {
		return err
	}
	if err := s.dequeue(ctx, r.c, r.dequeued); err != nil {
		return err
	}
	if err := s.saveSlots(ctx, r.c, r.slots); err != nil {
		return err
	}
	if err := s.saveFires(ctx, r.c, r.promoted, releaseColumns...); err != nil {
		return err
	}
	if err := s.insertFires(ctx, r.c, next); err != nil {
		return err
	}
	r.started = append(r.started, append(r.promoted, next...)...)
	return s.insertOutcomes(ctx, r.c, r.mine, attemptsOf(attempts, firesOf(r.mine)))
}

// uncount gives back what skipped fires took of max_fires, and has their timers expanded again.
func (r *linkedBatch) uncount() {
	for i := range r.mine {
		slot := r.slots[r.mine[i].Timer]
		if !r.mine[i].Uncounted || slot == nil {
			continue
		}
		slot.FiresCreated, slot.changed = max(0, slot.FiresCreated-1), true
		if slot.Status == rowActive {
			slot.ExpandAtMS = min(slot.ExpandAtMS, r.nowMS)
		}
	}
}

// noteEnds notes when calls of schedules ended: a delay counts from that, also over an edit or an
// activation.
func (r *linkedBatch) noteEnds() {
	for i := range r.mine {
		o := &r.mine[i]
		if slot := r.slots[o.Timer]; slot != nil && o.Series == 0 && o.Attempts > 0 &&
			o.FinishedMS > slot.EndedMS {
			slot.EndedMS, slot.changed = o.FinishedMS, true
		}
	}
}

// headsPerPage is how many fires that wait are looked at first. But for those that ended without a
// turn, the first of them is the one.
const headsPerPage = 4

// lock locks the timers and then, all in order of their keys, the fires: those of the outcomes,
// those that have a turn, those that may get it, and those that are to be inserted.
func (r *linkedBatch) lock(ctx context.Context) (err error) {
	s := r.store
	var ids []timer.ID
	for i := range r.outcomes {
		if o := &r.outcomes[i]; o.Serial || o.Next != nil || o.Uncounted {
			ids = append(ids, r.outcomes[i].Timer)
		}
	}
	if r.slots, err = s.lockSlots(ctx, r.c, ids); err != nil {
		return err
	}
	if r.nowMS, err = s.nowMS(ctx, r.c); err != nil {
		return err
	}
	fires := idsOf(firesOf(r.outcomes))
	r.queueHeads = map[timer.ID][]timer.FireID{}
	for i := range r.outcomes {
		o := &r.outcomes[i]
		if o.Next != nil {
			fires = append(fires, o.Next.FireID)
		}
		slot := r.slots[o.Timer]
		if _, known := r.queueHeads[o.Timer]; !o.Serial || known || slot == nil {
			continue
		}
		if r.queueHeads[o.Timer], err = s.queueOf(ctx, r.c, o.Timer, headsPerPage); err != nil {
			return err
		}
		fires = append(fires, r.queueHeads[o.Timer]...)
		if id := slot.running(); id.Timer != 0 {
			fires = append(fires, id)
		}
	}
	r.rows = map[timer.FireID]timer.Fire{}
	return r.lockFires(ctx, fires)
}

func (r *linkedBatch) lockFires(ctx context.Context, ids []timer.FireID) error {
	for part := range batches(sortedIDs(ids)) {
		rows, err := r.store.openFires(ctx, r.c, part, r.store.dialect.forUpdate)
		if err != nil {
			return err
		}
		for _, f := range rows {
			r.rows[f.FireID] = f
		}
	}
	return nil
}

// sort tells apart what is the session's to record, what it has recorded before, and the rest.
func (r *linkedBatch) sort(ctx context.Context) error {
	r.ended = map[timer.FireID]bool{}
	var rest []timer.FireID
	for i := range r.outcomes {
		o := &r.outcomes[i]
		row, open := r.rows[o.FireID]
		if open && (r.anyOwner || row.Owner == r.session) && !movedOn(o, &row) {
			r.mine = append(r.mine, *o)
			r.ended[o.FireID] = true
		} else {
			rest = append(rest, o.FireID)
		}
	}
	done, err := r.store.finishedBy(ctx, r.c, rest, r.session)
	if err != nil {
		return err
	}
	for i := range r.outcomes {
		switch o := &r.outcomes[i]; {
		case r.ended[o.FireID]:
		case done[o.FireID]:
			r.before = append(r.before, *o)
		default:
			r.lost = append(r.lost, o.FireID)
		}
	}
	return nil
}

// movedOn tells whether a fire that is to be superseded was moved to another version, or
// activation, before: S20.
func movedOn(o *timer.Outcome, row *timer.Fire) bool {
	return o.Reason == timer.ReasonSuperseded && (row.Version != o.Version || row.Epoch != o.Epoch)
}

// successors returns the fires of fixed delays that follow: S24. An edit that left the schedule as it
// was left the chain as it was too: it goes on in the present version. One that did not has begun a
// chain of its own.
func (r *linkedBatch) successors(ctx context.Context) (next []timer.Fire, err error) {
	var keys []store.VersionKey
	for i := range r.mine {
		if n := r.mine[i].Next; n != nil {
			keys = append(keys, store.VersionKey{Timer: n.Timer, Version: n.Version})
		}
	}
	versions, err := r.store.readVersions(ctx, r.c, keys)
	if err != nil {
		return nil, err
	}
	seen := map[timer.FireID]bool{}
	for i := range r.mine {
		n := r.mine[i].Next
		if n == nil || n.Timer != r.mine[i].Timer || seen[n.FireID] {
			continue
		}
		slot := r.slots[n.Timer]
		if slot == nil || slot.Status != rowActive || slot.ActiveEpoch != n.Epoch ||
			n.Version < slot.PlanVersion {
			continue
		}
		limit := versions[store.VersionKey{Timer: n.Timer, Version: n.Version}].definition.Schedule.MaxFires
		if _, open := r.rows[n.FireID]; open || limit > 0 && slot.FiresCreated >= limit {
			continue
		}
		f := *n
		f.AppID, f.Version, f.Rev, f.Owner, f.Sweeps, f.TargetBits = r.mine[i].AppID, slot.Version, 0, 0, 0, 0
		slot.FiresCreated, slot.LastSerialDueMS = slot.FiresCreated+1, f.DueMS
		slot.changed, seen[f.FireID] = true, true
		next = append(next, f)
	}
	for i := range r.before {
		if n := r.before[i].Next; n != nil {
			r.again(n.FireID)
		}
	}
	return next, nil
}

// again tells of a fire that an earlier try of this call may have set off.
func (r *linkedBatch) again(id timer.FireID) {
	if f, open := r.rows[id]; open && !r.ended[id] && f.Owner == 0 && f.Attempt == 0 &&
		f.State == timer.FireReady {
		r.started = append(r.started, f)
	}
}

// deleteLocked deletes fires whose rows the caller has locked, whoever owns them.
func (s *Store) deleteLocked(ctx context.Context, c runner, outcomes []timer.Outcome) error {
	for part := range batches(outcomes) {
		if _, err := s.exec(
			ctx,
			c,
			stmt(
				s.dialect.deleteFrom("fires", "PRIMARY")+" WHERE ",
			).fires(s.dialect, idsOf(firesOf(part))),
		); err != nil {
			return err
		}
	}
	return nil
}
