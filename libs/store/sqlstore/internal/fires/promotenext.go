package fires

import (
	"context"
	"maps"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// promoteNext gives each free slot to the first fire in the queue, and releases that fire at once,
// in bucket 0, which every minute has. It does not change a fire that a session owns and that is
// about to request the slot.
func (r *linkedBatch) promoteNext(ctx context.Context) error {
	serial := map[timer.ID]bool{}
	for i := range r.recorded {
		o := &r.recorded[i]
		if slot := r.slots[o.Timer]; !o.Serial || slot == nil {
			continue
		}
		if serial[o.Timer] = true; r.rows[o.FireID].State == timer.FireWaiting {
			r.dequeued = append(r.dequeued, o.FireID)
		}
	}
	for id, slot := range r.slots {
		if !serial[id] || r.open(slot.running()) {
			continue
		}
		if err := r.promote(ctx, id, slot); err != nil {
			return err
		}
	}
	for i := range r.recordedBefore {
		if slot := r.slots[r.recordedBefore[i].Timer]; r.recordedBefore[i].Serial && slot != nil &&
			!serial[r.recordedBefore[i].Timer] {
			r.addIfUnclaimed(slot.running())
		}
	}
	return nil
}

// promote gives a timer's free slot to the first fire in its queue.
func (r *linkedBatch) promote(ctx context.Context, id timer.ID, slot *slotRow) error {
	head, err := r.head(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case head.Timer == 0:
		slot.free()
	case slot.running() != head:
		slot.give(head)
	}
	if f, open := r.rows[head]; open && f.Owner == 0 {
		f.RunAtMS, f.Bucket, f.State = r.nowMS, 0, timer.FireReady
		f.Rev++
		r.promoted = append(r.promoted, f)
	}
	return nil
}

// promoteAfter gives slots that were given up without an outcome to the first fires in their queues,
// and returns those fires, to save. The slots' rows are locked, and the caller saves them. Two at
// once lock the fires in another order than a claim may, and the one that is refused starts again.
func (s *Rows) promoteAfter(
	ctx context.Context, c sqldb.Runner, slots map[timer.ID]*slotRow, nowMS int64,
) ([]timer.Fire, error) {
	r := &linkedBatch{
		store: s, c: c, nowMS: nowMS,
		queueHeads: map[timer.ID][]timer.FireID{}, rows: map[timer.FireID]timer.Fire{},
	}
	queued, err := s.withQueue(ctx, c, slices.Sorted(maps.Keys(slots)))
	if err != nil {
		return nil, err
	}
	var heads []timer.FireID
	for _, id := range queued {
		queue, err := s.queueOf(ctx, c, id, headsPerPage)
		if err != nil {
			return nil, err
		}
		r.queueHeads[id] = queue
		heads = append(heads, queue...)
	}
	if err := r.lockFires(ctx, heads); err != nil {
		return nil, err
	}
	for _, id := range queued {
		if err := r.promote(ctx, id, slots[id]); err != nil {
			return nil, err
		}
	}
	return r.promoted, s.dequeue(ctx, c, r.dequeued)
}

// wakeRequested returns the first requested fire in the queue of each timer, to save, so that it
// asks for the slot again at once: SlotRequest.TakesFrom. One that a session owns is about to ask.
func (s *Rows) wakeRequested(
	ctx context.Context, c sqldb.Runner, ids []timer.ID, nowMS int64,
) (woken []timer.Fire, err error) {
	queued, err := s.withQueue(ctx, c, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range queued {
		queue, err := s.requestedInQueue(ctx, c, id, headsPerPage)
		if err != nil {
			return nil, err
		}
		if len(queue) == 0 {
			continue
		}
		rows, err := s.Open(ctx, c, queue, s.db.Dialect.ForUpdate)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			continue
		}
		first := slices.MinFunc(rows, timer.CompareFires)
		if first.Owner == 0 {
			first.RunAtMS, first.Bucket = nowMS, 0
			first.Rev++
			woken = append(woken, first)
		}
	}
	return woken, nil
}

// WakeRequested lets the first requested fire in the queue of each timer ask for the slot again at
// once: its timer is not active any more, so it may take the slot of a fire that waits between two
// attempts. The timers' rows are locked.
func (s *Rows) WakeRequested(
	ctx context.Context, c sqldb.Runner, ids []timer.ID, nowMS int64,
) error {
	woken, err := s.wakeRequested(ctx, c, ids, nowMS)
	if err != nil {
		return err
	}
	slices.SortFunc(woken, timer.CompareFires)
	return s.Save(ctx, c, woken, releaseColumns...)
}

// open reports whether a fire stays open after this transaction.
func (r *linkedBatch) open(id timer.FireID) bool {
	_, open := r.rows[id]
	return open && !r.ended[id]
}

// maxHeads bounds how many finished fires one transaction removes from a queue: as many as may wait
// of a schedule. Beyond that the slot stays free, and waiting fires request it again by themselves.
const maxHeads = timer.MaxMaxQueue

// head returns the first open fire of a timer's queue, in order of due, or zero. It removes that
// fire and those before it from the queue. A transaction that finishes a waiting fire also removes
// it, so there are few before it. More remain only if the timer stopped running one fire at a time.
// Each is read and removed once.
func (r *linkedBatch) head(ctx context.Context, id timer.ID) (timer.FireID, error) {
	queueHeads, step := r.queueHeads[id], headsPerPage
	for looked := 0; ; {
		for i, head := range queueHeads {
			if r.open(head) {
				r.dequeued = append(r.dequeued, queueHeads[:i+1]...)
				return head, nil
			}
		}
		r.dequeued = append(r.dequeued, queueHeads...)
		if looked += len(queueHeads); len(queueHeads) < step || looked >= maxHeads {
			return timer.FireID{}, nil
		}
		// None of them is open. Read the next ones, after those have been removed.
		err := r.store.dequeue(ctx, r.c, r.dequeued)
		if r.dequeued, step = nil, store.MaxBatch; err == nil {
			queueHeads, err = r.store.queueOf(ctx, r.c, id, step)
		}
		if err == nil {
			err = r.lockFires(ctx, queueHeads)
		}
		if err != nil {
			return timer.FireID{}, err
		}
	}
}
