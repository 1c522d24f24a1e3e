package sqlstore

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// promoteNext hands the turns on that have become free, each to the first fire that waits: it is
// given back for dispatch at once, in bucket 0, which every minute has. One that an executor holds,
// which is about to ask, is left to it.
func (r *linkedBatch) promoteNext(ctx context.Context) error {
	serial := map[timer.ID]bool{}
	for i := range r.mine {
		o := &r.mine[i]
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
		if slot.running() != head {
			slot.give(head)
		}
		if f, open := r.rows[head]; open && f.Owner == 0 {
			f.RunAtMS, f.Bucket, f.State, f.Sweeps = r.nowMS, 0, timer.FireReady, 0
			f.Rev++
			r.promoted = append(r.promoted, f)
		}
	}
	for i := range r.before {
		if slot := r.slots[r.before[i].Timer]; r.before[i].Serial && slot != nil &&
			!serial[r.before[i].Timer] {
			r.again(slot.running())
		}
	}
	return nil
}

// open tells whether a fire is open still when this is done.
func (r *linkedBatch) open(id timer.FireID) bool {
	_, open := r.rows[id]
	return open && !r.ended[id]
}

// maxHeads bounds how many ended fires one transaction takes off a queue: as many as may wait.
// Beyond that the turn is free, and who waits looks again by itself.
const maxHeads = timer.MaxMaxQueue

// head takes the first fire of a timer that waits, in order of due, and is open, off its queue, and
// those before it; zero: there is none. Who ends a fire that waits takes it off the queue, so there
// are few before it, but what a timer leaves behind whose fires no longer wait for each other. Each
// is looked at and taken off once.
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
		// None of them is open: the next ones, behind those that have left by then.
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
