package fires

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// AcquireSlots locks the timers' rows in order of id, then those of the fires, and decides the
// requests one by one. Of two fires of one timer that request the slot at once, one therefore sees
// that the other has it.
//
// A call that dies halfway has changed nothing. Repeated after an unknown result, it grants the
// slot again to the fire that has it. A fire that was queued is no longer owned by the session, so
// its answer is SlotNotOwned.
func (s *Fires) AcquireSlots(
	ctx context.Context,
	session timer.ID,
	requests []store.SlotRequest,
) (out []store.SlotResult, err error) {
	if len(requests) == 0 {
		return nil, nil
	}
	for i := range requests {
		if p := requests[i].Concurrency.Policy; !p.Known() {
			return nil, timer.Invalid("concurrency.policy", fmt.Sprintf("unknown: %q", p))
		}
	}
	err = s.db.Write(ctx, "acquiring slots", func(ctx context.Context, c sqldb.Runner) error {
		e := &slotBatch{
			store:    s,
			c:        c,
			session:  session,
			requests: requests,
			out:      make([]store.SlotResult, len(requests)),
			given:    map[timer.ID]*slotRow{},
		}
		out = nil
		if err := e.run(ctx); err != nil {
			return err
		}
		out = e.out
		return nil
	})
	return out, err
}

// slotBatch is one transaction of AcquireSlots.
type slotBatch struct {
	store    *Fires
	c        sqldb.Runner
	session  timer.ID
	requests []store.SlotRequest
	out      []store.SlotResult

	slots    map[timer.ID]*slotRow
	owned    map[timer.FireID]timer.Fire
	open     map[timer.FireID]timer.Fire        // open fires that have a slot
	queues   map[timer.ID]map[timer.FireID]bool // of the schedules' fires
	queued   []timer.FireID                     // to add to the queues
	dequeued []timer.FireID                     // to remove from the queues
	waits    []timer.Fire                       // to release
	given    map[timer.ID]*slotRow              // slots that were given up, perhaps to be given
	logged   []timer.ID
}

func (e *slotBatch) run(ctx context.Context) error {
	ids := make([]timer.ID, len(e.requests))
	fires := make([]timer.Fire, len(e.requests))
	for i := range e.requests {
		ids[i], fires[i] = e.requests[i].Fire.Timer, e.requests[i].Fire
	}
	var err error
	if e.slots, err = e.store.fires.lockSlots(ctx, e.c, ids); err != nil {
		return err
	}
	owned, _, err := e.store.ownedOf(ctx, e.c, e.session, fires)
	if err != nil {
		return err
	}
	e.owned = make(map[timer.FireID]timer.Fire, len(owned))
	for _, f := range owned {
		e.owned[f.FireID] = f
	}
	if err := e.load(ctx); err != nil {
		return err
	}
	for i := range e.requests {
		if err := e.decide(ctx, i); err != nil {
			return err
		}
	}
	return e.write(ctx)
}

// load reads which of the fires that have slots are open.
func (e *slotBatch) load(ctx context.Context) (err error) {
	var running []timer.FireID
	for _, r := range e.slots {
		if id := r.running(); id.Timer != 0 {
			running = append(running, id)
		}
	}
	e.open, err = e.store.stillOpen(ctx, e.c, running)
	e.queues = map[timer.ID]map[timer.FireID]bool{}
	return err
}

// queue returns the fires of a timer's schedule that wait for its slot. It reads them once.
func (e *slotBatch) queue(ctx context.Context, id timer.ID) (map[timer.FireID]bool, error) {
	if q, known := e.queues[id]; known {
		return q, nil
	}
	ids, err := e.store.fires.scheduledInQueue(ctx, e.c, id)
	if err != nil {
		return nil, err
	}
	q := make(map[timer.FireID]bool, len(ids))
	for _, id := range ids {
		q[id] = true
	}
	e.queues[id] = q
	return q, nil
}

func (e *slotBatch) decide(ctx context.Context, i int) error {
	request, out := &e.requests[i], &e.out[i]
	id := request.Fire.FireID
	r := e.slots[id.Timer]
	mine, is := e.owned[id]
	if !is || r == nil {
		out.SlotVerdict = store.SlotNotOwned
		return nil
	}
	running := r.running()
	holder, taken := e.open[running]
	taken = taken && (running == id || !request.TakesFrom(&holder, r.activeAt(request.NowMS)))
	policy := request.Concurrency.Resolved()
	if request.ReplacedBy(r.last()) {
		out.SlotVerdict = store.SlotReplaced
		return nil
	}
	free := !taken || running == id
	if at := request.NotBeforeMS(r.EndedMS); free && at > request.NowMS {
		e.deferUntil(r, mine, out, at)
		return nil
	}
	switch {
	case policy.Policy == timer.ConcurrencyAllow, taken && running == id:
		return nil
	case !taken:
		e.assign(r, mine)
		return nil
	}
	if request.WaitsBehind(running) {
		e.queued = append(e.queued, id)
		if q, known := e.queues[id.Timer]; known && id.Series == 0 {
			q[id] = true
		}
		e.wait(mine, out)
		return nil
	}
	switch policy.Policy {
	case timer.ConcurrencyQueueOne, timer.ConcurrencyQueueAll:
		limit := policy.MaxQueue
		if policy.Policy == timer.ConcurrencyQueueOne {
			limit = 1
		}
		return e.waitInRoom(ctx, mine, out, limit)
	case timer.ConcurrencyCancelPrevious:
		if out.SlotVerdict = store.SlotReplaced; timer.CompareFireIDs(id, running) > 0 {
			out.SlotVerdict = store.SlotGranted
			e.assign(r, mine)
			e.logged = append(e.logged, id.Timer)
		}
	case timer.ConcurrencyAllow, timer.ConcurrencySkip: // allow is granted above
		out.SlotVerdict = store.SlotSkipped
	}
	return nil
}

// assign gives a fire the slot.
func (e *slotBatch) assign(r *slotRow, f timer.Fire) {
	r.give(f.FireID)
	e.open[f.FireID] = f
	if f.State == timer.FireWaiting || e.queues[f.Timer][f.FireID] {
		e.dequeued = append(e.dequeued, f.FireID)
		delete(e.queues[f.Timer], f.FireID)
	}
}

// deferUntil releases a fire that came too early after the last one. It requests the slot again at
// runMS, and has no slot until then. The first in the queue gets it meanwhile.
func (e *slotBatch) deferUntil(r *slotRow, f timer.Fire, out *store.SlotResult, runMS int64) {
	if r.running() == f.FireID {
		r.give(timer.FireID{})
		delete(e.open, f.FireID)
		e.given[f.Timer] = r
	}
	if f.State == timer.FireWaiting || e.queues[f.Timer][f.FireID] {
		e.dequeued = append(e.dequeued, f.FireID)
		delete(e.queues[f.Timer], f.FireID)
	}
	f.RunAtMS, f.Bucket, f.State, f.Owner = runMS, 0, timer.FireReady, 0
	f.Rev++
	e.waits = append(e.waits, f)
	delete(e.owned, f.FireID)
	out.SlotVerdict, out.Fire = store.SlotQueued, f
}

// waitInRoom releases a fire of the schedule into the queue, if there is room. If the queue seems
// full, it first removes fires that are no longer open.
func (e *slotBatch) waitInRoom(
	ctx context.Context,
	f timer.Fire,
	out *store.SlotResult,
	limit int,
) error {
	q, err := e.queue(ctx, f.Timer)
	if err != nil {
		return err
	}
	if !q[f.FireID] && len(q) >= limit {
		if err := e.prune(ctx, q); err != nil {
			return err
		}
	}
	switch {
	case q[f.FireID]:
	case len(q) >= limit:
		out.SlotVerdict = store.SlotQueueFull
		return nil
	default:
		q[f.FireID] = true
		e.queued = append(e.queued, f.FireID)
	}
	e.wait(f, out)
	return nil
}

// wait releases a fire that is in the queue, or will be.
func (e *slotBatch) wait(f timer.Fire, out *store.SlotResult) {
	f.State, f.Owner = timer.FireWaiting, 0
	f.Rev++
	e.waits = append(e.waits, f)
	delete(e.owned, f.FireID)
	out.SlotVerdict, out.Fire = store.SlotQueued, f
}

func (e *slotBatch) prune(ctx context.Context, q map[timer.FireID]bool) error {
	var ids []timer.FireID
	for id := range q {
		if !slices.Contains(e.queued, id) {
			ids = append(ids, id)
		}
	}
	open, err := e.store.stillOpen(ctx, e.c, ids)
	for _, id := range ids {
		if _, is := open[id]; err == nil && !is {
			delete(q, id)
			e.dequeued = append(e.dequeued, id)
		}
	}
	return err
}

func (e *slotBatch) write(ctx context.Context) error {
	s := e.store
	if err := s.fires.dequeue(ctx, e.c, e.dequeued); err != nil {
		return err
	}
	if err := s.enqueue(ctx, e.c, e.queued); err != nil {
		return err
	}
	slices.SortFunc(e.waits, timer.CompareFires)
	if err := s.fires.Save(ctx, e.c, e.waits, releaseColumns...); err != nil {
		return err
	}
	if err := e.promote(ctx); err != nil {
		return err
	}
	if err := s.fires.saveSlots(ctx, e.c, e.slots); err != nil {
		return err
	}
	return s.timers.AddChanges(ctx, e.c, e.logged)
}

// promote gives slots that were given up, and that no request of this call got, to the first fires in
// their queues.
func (e *slotBatch) promote(ctx context.Context) error {
	maps.DeleteFunc(e.given, func(_ timer.ID, r *slotRow) bool { return r.running().Timer != 0 })
	if len(e.given) == 0 {
		return nil
	}
	nowMS, err := e.store.db.NowMS(ctx, e.c)
	if err != nil {
		return err
	}
	promoted, err := e.store.fires.promoteAfter(ctx, e.c, e.given, nowMS)
	if err != nil {
		return err
	}
	slices.SortFunc(promoted, timer.CompareFires)
	return e.store.fires.Save(ctx, e.c, promoted, releaseColumns...)
}
