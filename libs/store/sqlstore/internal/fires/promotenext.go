package fires

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
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
	}
	for i := range r.recordedBefore {
		if slot := r.slots[r.recordedBefore[i].Timer]; r.recordedBefore[i].Serial && slot != nil &&
			!serial[r.recordedBefore[i].Timer] {
			r.addIfUnclaimed(slot.running())
		}
	}
	return nil
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
