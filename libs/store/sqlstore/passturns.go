package sqlstore

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// passTurns hands the turns on that have become free, each to the first fire that waits: it is
// given back for dispatch at once, in bucket 0, which every minute has. One that an executor holds,
// which is about to ask, is left to it.
func (r *linkedRecord) passTurns(ctx context.Context) error {
	serial := map[timer.ID]bool{}
	for i := range r.mine {
		o := &r.mine[i]
		if turn := r.turns[o.Timer]; !o.Serial || turn == nil {
			continue
		}
		if serial[o.Timer] = true; r.rows[o.FireID].State == timer.FireWaiting {
			r.left = append(r.left, o.FireID)
		}
	}
	for id, turn := range r.turns {
		if !serial[id] || r.open(turn.running()) {
			continue
		}
		head, err := r.head(ctx, id)
		if err != nil {
			return err
		}
		if turn.running() != head {
			turn.give(head)
		}
		if f, open := r.rows[head]; open && f.Owner == 0 {
			f.RunAtMS, f.Bucket, f.State, f.Sweeps = r.nowMS, 0, timer.FireReady, 0
			f.Rev++
			r.promoted = append(r.promoted, f)
		}
	}
	for i := range r.before {
		if turn := r.turns[r.before[i].Timer]; r.before[i].Serial && turn != nil &&
			!serial[r.before[i].Timer] {
			r.again(turn.running())
		}
	}
	return nil
}

// open tells whether a fire is open still when this is done.
func (r *linkedRecord) open(id timer.FireID) bool {
	_, open := r.rows[id]
	return open && !r.ended[id]
}

// headsAtMost bounds how many ended fires one transaction takes off a queue: as many as may wait.
// Beyond that the turn is free, and who waits looks again by itself.
const headsAtMost = timer.MaxMaxQueue

// head takes the first fire of a timer that waits, in order of due, and is open, off its queue, and
// those before it; zero: there is none. Who ends a fire that waits takes it off the queue, so there
// are few before it, but what a timer leaves behind whose fires no longer wait for each other. Each
// is looked at and taken off once.
func (r *linkedRecord) head(ctx context.Context, id timer.ID) (timer.FireID, error) {
	heads, step := r.heads[id], headsAtOnce
	for looked := 0; ; {
		for i, head := range heads {
			if r.open(head) {
				r.left = append(r.left, heads[:i+1]...)
				return head, nil
			}
		}
		r.left = append(r.left, heads...)
		if looked += len(heads); len(heads) < step || looked >= headsAtMost {
			return timer.FireID{}, nil
		}
		// None of them is open: the next ones, behind those that have left by then.
		err := r.store.leaveQueues(ctx, r.c, r.left)
		if r.left, step = nil, store.MaxBatch; err == nil {
			heads, err = r.store.queueOf(ctx, r.c, id, step)
		}
		if err == nil {
			err = r.lockFires(ctx, heads)
		}
		if err != nil {
			return timer.FireID{}, err
		}
	}
}
