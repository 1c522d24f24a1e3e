package executor

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/timer"
)

// claimedFire is an in-flight fire, with the session epoch that claimed it.
type claimedFire struct {
	fire     timer.Fire
	rev      int32 // of fire when it was claimed; constant while in flight
	epoch    *session.Epoch
	def      *timer.Definition // the definition of the last decision; nil until loaded
	endpoint string            // of def, see endpointOf; empty if there is no breaker to ask
	// app is the name of the timer's app, empty if the timer does not exist. It belongs to the
	// worker, then to the recorder.
	app string
	// late is set while a fire received late from the low-priority topic waits for its call.
	late  atomic.Bool
	began atomic.Bool // its first attempt has started
	low   bool        // received from the low-priority topic
	// unconfirmed is set while the claim is unanswered and no task carries the fire. inflight.mu
	// guards it.
	unconfirmed bool

	// lastError is the error of the last attempt of a failed fire. It belongs to the worker, then
	// to the recorder.
	lastError string

	// dueFromMS is the activation time of a one-shot that fell due while its timer was inactive, or
	// 0. It belongs to the worker.
	dueFromMS int64

	// toGiveBack is set while the fire waits to be given back, see giveBack. It belongs to the worker.
	toGiveBack bool
	// Limits have delayed it before. This and the next two belong to the worker.
	waitedForLimit   bool
	ordered          bool // its sequence let it start, see sequencer
	waitedForBreaker bool // the breaker of its endpoint has delayed it before
	// stateVersion is the version of the timer's state that the fire's version was resolved by. It
	// belongs to the worker.
	stateVersion   int32
	permit         *permit // the permit that it waited for; the worker's once it is queued
	refusedSinceMS int64   // since when a breaker has delayed the next attempt; 0: it has not
}

// wasLimited reports whether the fire waited for a limit or a breaker. Its lateness then says
// nothing about the load of the executor.
func (e *claimedFire) wasLimited() bool {
	return e.waitedForLimit || e.waitedForBreaker || e.fire.State == timer.FireDeferred
}

// canary reports whether the fire is Carillon's own canary, which metrics and outcome events leave
// out.
func (e *claimedFire) canary() bool { return e.def != nil && e.def.Target.Kind == timer.KindCanary }

// toAllTargets reports whether each of several targets must accept the fire.
func (e *claimedFire) toAllTargets() bool { return e.def != nil && e.def.Mode == timer.ModeAll }

// claimSource says how a fire came to be claimed.
type claimSource int

const (
	sourceTask        claimSource = iota
	sourceLowTask                 // a task of the low-priority topic
	sourceUnconfirmed             // an earlier claim whose answer was lost
	sourcePoll                    // found in the store, without a task
	sourceLatePoll                // found in the store, and late
	sourceOrder                   // later fires of its timer wait for it
	sourceReadmit                 // waited for app limits that were raised
)

// low reports whether the source may bring catch-up traffic, which yields to on-time traffic.
func (o claimSource) low() bool {
	return o == sourceLowTask || o == sourceLatePoll || o == sourceOrder
}

// withoutTask reports whether no task carries the claimed fire.
func (o claimSource) withoutTask() bool { return o != sourceTask && o != sourceLowTask }

// inflight is the bounded set of fires that this process owns. A fire enters it just before its
// claim and leaves it when its outcome is recorded or the fire is released. No fire is in flight
// twice, because only a fire that was added here is claimed.
type inflight struct {
	max   int
	mu    sync.Mutex
	fires map[timer.FireID]*claimedFire
	late  int           // how many of fires are late
	room  chan struct{} // closed and replaced when a fire leaves
}

func newInflight(limit int) *inflight {
	return &inflight{
		max:   limit,
		fires: make(map[timer.FireID]*claimedFire),
		room:  make(chan struct{}),
	}
}

// reserve waits for room, then adds the fires that are not in flight. It replaces fires of an
// expired epoch, which nothing will call.
//
// It also returns the indexes of the fires whose task must be redelivered. Either an earlier
// revision is in flight and about to end. Or the claim in flight is unconfirmed, and this task
// alone carries the fire if that claim fails.
func (h *inflight) reserve(
	ctx context.Context,
	epoch *session.Epoch,
	fires []timer.Fire,
	source claimSource,
	nowMS int64,
) (fresh []*claimedFire, again []int, err error) {
	if source == sourceOrder { // few, and fires that fill the set may wait for them
		h.mu.Lock()
	} else if err := h.waitForRoom(ctx, source.low()); err != nil {
		return nil, nil, err
	}
	defer h.mu.Unlock()
	fresh = make([]*claimedFire, 0, len(fires))
	mine := make(map[*claimedFire]bool, len(fires))
	for i := range fires {
		old := h.fires[fires[i].FireID]
		switch {
		case old == nil || old.epoch.Context().Err() != nil:
			e := &claimedFire{
				fire:        fires[i],
				rev:         fires[i].Rev,
				epoch:       epoch,
				unconfirmed: source.withoutTask(),
				low:         source.low(),
			}
			if old != nil {
				h.uncountLate(old)
			}
			// If it is not due yet, it waits for its run time at low priority, like any other.
			if source.low() && e.fire.RunAtMS <= nowMS {
				e.late.Store(true)
				h.late++
			}
			h.fires[e.fire.FireID], mine[e] = e, true
			fresh = append(fresh, e)
		case fires[i].Rev <= old.rev && (mine[old] || !old.unconfirmed): // already in flight
		case mine[old]:
			old.fire, old.rev = fires[i], fires[i].Rev
		default:
			again = append(again, i)
		}
	}
	return fresh, again, nil
}

// waitForRoom waits for room and returns with the lock held. Catch-up has less room than on-time
// traffic, so few late fires wait for their call ahead of the fires due now.
func (h *inflight) waitForRoom(ctx context.Context, low bool) error {
	for {
		h.mu.Lock()
		if len(h.fires) < h.max &&
			(!low || len(h.fires) < max(1, h.max/lowShare) && h.late < maxLate) {
			return nil
		}
		room := h.room
		h.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lateRoom returns how many more late fires fit.
func (h *inflight) lateRoom() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(maxLate-h.late, h.max/lowShare-len(h.fires))
}

// confirmed marks the claims of es as answered.
func (h *inflight) confirmed(es []*claimedFire) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range es {
		e.unconfirmed = false
	}
}

// remove removes the entries, each only if it is the current one of its fire.
func (h *inflight) remove(es ...*claimedFire) {
	if len(es) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range es {
		if h.fires[e.fire.FireID] == e {
			delete(h.fires, e.fire.FireID)
			h.uncountLate(e)
		}
	}
	close(h.room)
	h.room = make(chan struct{})
}

// removeEpoch removes all fires of an expired epoch and returns their number. The epoch's context
// cancels calls in flight; their results no longer count here.
func (h *inflight) removeEpoch(t *session.Epoch) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for id, e := range h.fires {
		if e.epoch == t {
			delete(h.fires, id)
			h.uncountLate(e)
			n++
		}
	}
	close(h.room)
	h.room = make(chan struct{})
	return n
}

// uncountLate stops counting e as late, because it leaves or its call starts. The caller holds the
// lock.
func (h *inflight) uncountLate(e *claimedFire) {
	if e.late.CompareAndSwap(true, false) {
		h.late--
	}
}

// callStarted records that the call of e starts.
func (h *inflight) callStarted(e *claimedFire) {
	if !e.late.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uncountLate(e); h.late == maxLate-1 { // a waiter may need just this room
		close(h.room)
		h.room = make(chan struct{})
	}
}

// began returns which of the fires are in flight with their first attempt started.
func (h *inflight) began(ids []timer.FireID) map[timer.FireID]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	started := make(map[timer.FireID]bool)
	for _, id := range ids {
		if e := h.fires[id]; e != nil && e.began.Load() {
			started[id] = true
		}
	}
	return started
}

func (h *inflight) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.fires)
}

func (h *inflight) full() bool { return h.len() >= h.max }

// crowdedShare is the part of the capacity (1/4) above which fires that must wait are deferred in
// the store.
const crowdedShare = 4

func (h *inflight) crowded() bool { return h.len() > h.max/crowdedShare }
