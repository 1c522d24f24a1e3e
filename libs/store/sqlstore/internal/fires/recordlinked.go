package fires

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// recordLinked records outcomes that start other fires, in one transaction. It locks the timers
// whose slot may become free, in order of id, then all fires that it may change, in order of their
// keys. Of two outcomes of one timer at once, the second sees to which fire the first gave the
// slot. AcquireSlots sees one of these states.
//
// Repeated after an unknown result, it finds the outcomes under its own session and records nothing
// again. It returns the started fires again if nobody has claimed them: a fire is claimed once,
// however often it is dispatched.
func (s *Rows) recordLinked(
	ctx context.Context, session timer.ID, outcomes []timer.Outcome, attempts []timer.Attempt,
) (lost []timer.FireID, started []timer.Fire, err error) {
	err = s.db.Write(ctx, "recording outcomes", func(ctx context.Context, c sqldb.Runner) error {
		r := &linkedBatch{store: s, c: c, session: session, outcomes: outcomes}
		lost, started = nil, nil
		if err := r.run(ctx, attempts); err != nil {
			return err
		}
		lost, started = r.lost, r.started
		return nil
	})
	// With an error, started is what the last commit would have created: nobody knows whether it
	// did.
	return lost, started, err
}

// linkedBatch is one transaction of recordLinked.
type linkedBatch struct {
	store    *Rows
	c        sqldb.Runner
	session  timer.ID
	anyOwner bool // finish fires of any owner
	outcomes []timer.Outcome

	nowMS          int64
	slots          map[timer.ID]*slotRow
	queueHeads     map[timer.ID][]timer.FireID // first fires of the queues
	rows           map[timer.FireID]timer.Fire // open fires, locked
	recorded       []timer.Outcome             // recorded by this transaction
	recordedBefore []timer.Outcome             // recorded by this session earlier
	ended          map[timer.FireID]bool       // fires of recorded
	promoted       []timer.Fire
	continued      []timer.Fire   // of earlier chains, now of the present one
	withdrawn      []timer.FireID // next fires that may be superseded
	dequeued       []timer.FireID // to remove from their queues
	lost           []timer.FireID
	started        []timer.Fire
}

func (r *linkedBatch) run(ctx context.Context, attempts []timer.Attempt) error {
	if err := r.lock(ctx); err != nil {
		return err
	}
	return r.finish(ctx, attempts)
}

// finish records the session's outcomes. It is called after lock.
func (r *linkedBatch) finish(ctx context.Context, attempts []timer.Attempt) error {
	s := r.store
	if err := r.sort(ctx); err != nil {
		return err
	}
	if err := s.DeleteLocked(ctx, r.c, r.recorded); err != nil {
		return err
	}
	r.noteEnds()
	if err := r.uncount(ctx); err != nil {
		return err
	}
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
	if err := s.Save(ctx, r.c, r.promoted, releaseColumns...); err != nil {
		return err
	}
	if err := s.Save(ctx, r.c, r.continued, continuedColumns...); err != nil {
		return err
	}
	if err := s.history.Withdraw(ctx, r.c, r.withdrawn); err != nil {
		return err
	}
	if err := s.Insert(ctx, r.c, next); err != nil {
		return err
	}
	r.started = append(r.started, append(r.promoted, next...)...)
	return s.history.InsertOutcomes(
		ctx,
		r.c,
		r.recorded,
		history.AttemptsOf(attempts, history.FiresOf(r.recorded)),
	)
}

// uncount takes uncounted fires off fires_created, and makes their timers due for expansion. A fire
// that an edit took back is off already.
func (r *linkedBatch) uncount(ctx context.Context) error {
	var uncounted, replanned []timer.Fire
	for i := range r.recorded {
		o := &r.recorded[i]
		slot, row := r.slots[o.Timer], r.rows[o.FireID]
		if !o.Uncounted || slot == nil {
			continue
		}
		if uncounted = append(uncounted, row); row.Version < slot.PlanVersion {
			replanned = append(replanned, row)
		}
	}
	until, err := r.chainsBefore(ctx, replanned)
	if err != nil {
		return err
	}
	takenBack, err := r.store.timers.TakenBack(ctx, r.c, replanned, until)
	if err != nil {
		return err
	}
	for i := range uncounted {
		if takenBack[uncounted[i].FireID] {
			continue
		}
		slot := r.slots[uncounted[i].Timer]
		slot.FiresCreated, slot.changed = max(0, slot.FiresCreated-1), true
		if slot.Status == timers.RowActive {
			slot.ExpandAtMS = min(slot.ExpandAtMS, r.nowMS)
		}
	}
	return nil
}

// chainsBefore returns, for fires of a fixed delay's chain before its present activation, when that
// began. An edit after it found the new chain only, and took back nothing else.
func (r *linkedBatch) chainsBefore(
	ctx context.Context,
	fires []timer.Fire,
) (untilMS map[timer.FireID]int64, err error) {
	var keys []store.VersionKey
	for i := range fires {
		if f := &fires[i]; f.Epoch < r.slots[f.Timer].ActiveEpoch {
			keys = append(keys, store.VersionKey{Timer: f.Timer, Version: f.Version})
		}
	}
	versions, err := r.store.timers.Versions(ctx, r.c, keys)
	untilMS = map[timer.FireID]int64{}
	for i := range fires {
		f, slot := &fires[i], r.slots[fires[i].Timer]
		v := versions[store.VersionKey{Timer: f.Timer, Version: f.Version}]
		if f.Epoch < slot.ActiveEpoch && v != nil &&
			v.Definition.Schedule.Kind == timer.KindFixedDelay {
			untilMS[f.FireID] = slot.ActiveSinceMS
		}
	}
	return untilMS, err
}

// noteEnds stores when calls of schedules ended. A fixed delay counts from that, also across an
// edit or an activation.
func (r *linkedBatch) noteEnds() {
	for i := range r.recorded {
		o := &r.recorded[i]
		if slot := r.slots[o.Timer]; slot != nil && o.Series == 0 && o.Attempts > 0 &&
			o.FinishedMS > slot.EndedMS {
			slot.EndedMS, slot.changed = o.FinishedMS, true
		}
	}
}

// headsPerPage is how many fires of a queue are read first. The first one is the next to run,
// unless fires finished without a slot.
const headsPerPage = 4

// lock locks the timers, then all fires in order of their keys: those of the outcomes, those that
// have a slot, those that may get it, and those to insert.
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
	if r.nowMS, err = s.db.NowMS(ctx, r.c); err != nil {
		return err
	}
	fires := sqldb.IDsOf(history.FiresOf(r.outcomes))
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
	for part := range sqldb.Batches(sqldb.SortedIDs(ids)) {
		rows, err := r.store.Open(ctx, r.c, part, r.store.db.Dialect.ForUpdate)
		if err != nil {
			return err
		}
		for _, f := range rows {
			r.rows[f.FireID] = f
		}
	}
	return nil
}

// sort separates the outcomes to record now, those that this session recorded before, and the lost
// ones. A fire to be superseded is lost if a chain comes to it in the same batch: the chain may go on
// with it.
func (r *linkedBatch) sort(ctx context.Context) error {
	r.ended = map[timer.FireID]bool{}
	undecided, err := r.undecided(ctx)
	if err != nil {
		return err
	}
	next := map[timer.FireID]bool{}
	for i := range r.outcomes {
		if o := &r.outcomes[i]; o.Next != nil && o.Reason != timer.ReasonSuperseded && r.owns(o) {
			next[o.Next.FireID] = true
		}
	}
	var rest []timer.FireID
	for i := range r.outcomes {
		o := &r.outcomes[i]
		if superseded := o.Reason == timer.ReasonSuperseded; r.owns(o) && (!superseded ||
			!r.replanned(o) && !undecided[o.FireID] && !next[o.FireID]) {
			r.recorded = append(r.recorded, *o)
			r.ended[o.FireID] = true
		} else {
			rest = append(rest, o.FireID)
		}
	}
	done, err := r.store.history.FinishedBy(ctx, r.c, rest, r.session)
	if err != nil {
		return err
	}
	for i := range r.outcomes {
		switch o := &r.outcomes[i]; {
		case r.ended[o.FireID]:
		case done[o.FireID]:
			r.recordedBefore = append(r.recordedBefore, *o)
		default:
			r.lost = append(r.lost, o.FireID)
		}
	}
	return nil
}

// undecided returns the fires to be superseded that the present version may have: S33.
func (r *linkedBatch) undecided(ctx context.Context) (map[timer.FireID]bool, error) {
	var ids []timer.FireID
	for i := range r.outcomes {
		if r.outcomes[i].Reason == timer.ReasonSuperseded {
			ids = append(ids, r.outcomes[i].FireID)
		}
	}
	if len(ids) == 0 {
		return nil, nil //nolint:nilnil // a nil map is an empty one
	}
	found, err := r.store.timers.Replanning(ctx, r.c, ids)
	undecided := make(map[timer.FireID]bool, len(found))
	for _, id := range found {
		undecided[id] = true
	}
	return undecided, err
}

// owns reports whether the fire of an outcome is open, and this batch may finish it.
func (r *linkedBatch) owns(o *timer.Outcome) bool {
	row, open := r.rows[o.FireID]
	return open && (r.anyOwner || row.Owner == r.session)
}

// replanned reports whether a fire to be superseded was moved to another version or activation
// before: S20.
func (r *linkedBatch) replanned(o *timer.Outcome) bool {
	row := r.rows[o.FireID]
	return row.Version != o.Version || row.Epoch != o.Epoch
}

// versionOf returns the version whose chain an outcome goes on: that of the call, or the one to which
// an edit has moved the fire.
func (r *linkedBatch) versionOf(o *timer.Outcome) store.VersionKey {
	return store.VersionKey{
		Timer: o.Next.Timer, Version: max(o.Next.Version, r.rows[o.FireID].Version),
	}
}

// successors returns the next fires of fixed delays: S24. After an edit that kept the schedule, the
// chain continues in the present version. An edit that changed the schedule has begun a chain of
// its own. If that begins with this very fire, its row says so, and an executor may have called it by
// the version before.
func (r *linkedBatch) successors(ctx context.Context) (next []timer.Fire, err error) {
	var keys []store.VersionKey
	for i := range r.recorded {
		if n := r.recorded[i].Next; n != nil {
			keys = append(keys, r.versionOf(&r.recorded[i]))
		}
	}
	versions, err := r.store.timers.Versions(ctx, r.c, keys)
	if err != nil {
		return nil, err
	}
	seen := map[timer.FireID]bool{}
	for i := range r.recorded {
		n := r.recorded[i].Next
		if n == nil || n.Timer != r.recorded[i].Timer || seen[n.FireID] {
			continue
		}
		slot := r.slots[n.Timer]
		row := r.rows[r.recorded[i].FireID]
		if slot == nil || slot.Status != timers.RowActive ||
			slot.ActiveEpoch != max(n.Epoch, row.Epoch) ||
			r.versionOf(&r.recorded[i]).Version < slot.PlanVersion {
			continue
		}
		// If this release cannot read the version, the chain goes on, perhaps by one fire beyond
		// max_fires: a chain that ends here would never be due again.
		var limit int64
		if v := versions[r.versionOf(&r.recorded[i])]; v != nil {
			limit = v.Definition.Schedule.MaxFires
		}
		there, open := r.rows[n.FireID]
		ofThisPlan := open && there.Version >= slot.PlanVersion // only an edit takes a count back
		ofThisChain := ofThisPlan && there.Epoch >= slot.ActiveEpoch
		if ofThisChain || open && r.ended[n.FireID] ||
			!ofThisPlan && limit > 0 && slot.FiresCreated >= limit {
			continue
		}
		f := *n
		f.AppID, f.Version, f.Epoch = r.recorded[i].AppID, slot.Version, slot.ActiveEpoch
		f.Rev, f.Owner, f.TargetBits = 0, 0, 0
		if !ofThisPlan {
			slot.FiresCreated++
		}
		slot.LastDueMS = f.DueMS
		slot.changed, seen[f.FireID] = true, true
		if open {
			r.continueWith(there, &f)
			continue
		}
		// Only after an edit or an activation is a fire superseded. Other timers need no statement.
		if slot.PlanVersion > 1 || slot.ActiveEpoch > 1 {
			r.withdrawn = append(r.withdrawn, f.FireID)
		}
		next = append(next, f)
	}
	for i := range r.recordedBefore {
		if n := r.recordedBefore[i].Next; n != nil {
			r.addIfUnclaimed(n.FireID)
		}
	}
	return next, nil
}

// continuedColumns are the columns that continueWith changes.
var continuedColumns = append([]string{"version", "epoch", "priority"}, releaseColumns...)

// continueWith gives an open fire that an edit or an activation has left to the present chain,
// which comes to the same instant: a calendar moves many instants to one. Without it the chain
// would end there. A fire with an owner keeps its run_at. The owner finds it moved when it wants to
// skip it.
func (r *linkedBatch) continueWith(row timer.Fire, planned *timer.Fire) {
	row.Version, row.Epoch, row.PriorityLevel = planned.Version, planned.Epoch, planned.PriorityLevel
	if row.Owner == 0 && row.State == timer.FireReady && row.RunAtMS != planned.RunAtMS {
		row.RunAtMS, row.Bucket = planned.RunAtMS, planned.Bucket
		row.Rev++
		r.started = append(r.started, row)
	}
	r.continued = append(r.continued, row)
}

// addIfUnclaimed adds a fire that an earlier try of this call may have started.
func (r *linkedBatch) addIfUnclaimed(id timer.FireID) {
	if f, open := r.rows[id]; open && !r.ended[id] && f.Owner == 0 && f.Attempt == 0 &&
		f.State == timer.FireReady {
		r.started = append(r.started, f)
	}
}

// DeleteLocked deletes fires whose rows the caller has locked, with any owner.
func (s *Rows) DeleteLocked(ctx context.Context, c sqldb.Runner, outcomes []timer.Outcome) error {
	for part := range sqldb.Batches(outcomes) {
		if _, err := s.db.Exec(
			ctx,
			c,
			sqldb.Stmt(
				s.db.Dialect.DeleteFrom("fires", "PRIMARY")+" WHERE ",
			).Fires(s.db.Dialect, sqldb.IDsOf(history.FiresOf(part))),
		); err != nil {
			return err
		}
	}
	return nil
}
