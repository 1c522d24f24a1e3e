package executor

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/timer"
)

// claimedFire is a fire in hand, under the session term that claimed it.
type claimedFire struct {
	fire     timer.Fire
	rev      int32 // of fire when it was taken; never changes while it is in hand
	epoch    *session.Epoch
	def      *timer.Definition // what was last called, once it is known
	endpoint string            // of def: see endpointOf
	// its timer's, once that was read; empty where the timer is gone. Its worker's, then the
	// recorder's.
	app string
	// it came by the low-priority topic after its run, and its call has not begun.
	late atomic.Bool
	// its first attempt has begun.
	began atomic.Bool
	low   bool // it came by the low-priority topic
	// its claim is in doubt, and no task stands behind it; guarded by hands.mu.
	unconfirmed bool

	// what its last attempt came to, where it failed for good; its worker's, then the recorder's.
	lastError string

	// of a one-shot that came due while its timer was not active: since when it is; else 0. Its
	// worker's alone.
	dueFromMS int64

	// the limits have put it off already; this and the next are its worker's alone.
	waitedForLimit bool
	// it was let begin in the order of its timer's late fires: see sequencer.
	ordered          bool
	waitedForBreaker bool // its endpoint's breaker has, too
	// the version of the timer's state by which the fire's version was found out; its worker's.
	stateVersion   int32
	permit         *permit // that it waited for; its worker's from the queue on
	refusedSinceMS int64   // since when that does, for the attempt to come; 0: it does not
}

// wasLimited tells whether it waited for a limit or a breaker: that it is late says nothing of how late
// anything else is.
func (e *claimedFire) wasLimited() bool {
	return e.waitedForLimit || e.waitedForBreaker || e.fire.State == timer.FireDeferred
}

// canary tells whether it is Carillon's own: what is counted and announced is the users'.
func (e *claimedFire) canary() bool { return e.def != nil && e.def.Target.Kind == timer.KindCanary }

// toAllTargets tells whether all of several targets are to take the fire.
func (e *claimedFire) toAllTargets() bool { return e.def != nil && e.def.Mode == timer.ModeAll }

// claimSource is how a fire comes to be claimed.
type claimSource int

const (
	sourceTask        claimSource = iota
	sourceLowTask                 // of the low-priority topic
	sourceUnconfirmed             // its claim was made before, and the answer was lost
	sourcePoll                    // it was found in the store, without a task
	sourceLatePoll                // and was late
	byOrder                       // later ones wait for it
	sourceReadmit                 // it waited for limits of its app that were raised
)

// low tells whether what has been late for long may come by it, which waits for the present.
func (o claimSource) low() bool { return o == sourceLowTask || o == sourceLatePoll || o == byOrder }

// withoutTask tells that no task stands behind the claim.
func (o claimSource) withoutTask() bool { return o != sourceTask && o != sourceLowTask }

// inflight is the bounded set of fires that this process holds, from just before the claim until the
// outcome is recorded or the fire given back. It is why no fire is in hand twice: who cannot put a
// fire in does not claim it.
type inflight struct {
	max   int
	mu    sync.Mutex
	fires map[timer.FireID]*claimedFire
	late  int           // of the set
	room  chan struct{} // closed and replaced when something leaves
}

func newInflight(limit int) *inflight {
	return &inflight{
		max:   limit,
		fires: make(map[timer.FireID]*claimedFire),
		room:  make(chan struct{}),
	}
}

// reserve waits until there is room, then puts in those that are not there. What a dead term left
// behind is replaced: nobody will call it from there. It also returns the places of those that have
// to come again: an earlier revision of the fire is in hand, which its claim or its release will
// show to be over; or its claim is in doubt, and where that fails once more this task is the only
// one that carries it.
func (h *inflight) reserve(
	ctx context.Context,
	epoch *session.Epoch,
	fires []timer.Fire,
	source claimSource,
	nowMS int64,
) (fresh []*claimedFire, again []int, err error) {
	if source == byOrder { // few, and what fills the hands may wait for them
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
			// else it is of low priority, and waits for its run.
			if source.low() && e.fire.RunAtMS <= nowMS {
				e.late.Store(true)
				h.late++
			}
			h.fires[e.fire.FireID], mine[e] = e, true
			fresh = append(fresh, e)
		case fires[i].Rev <= old.rev && (mine[old] || !old.unconfirmed): // in hand
		case mine[old]:
			old.fire, old.rev = fires[i], fires[i].Rev
		default:
			again = append(again, i)
		}
	}
	return fresh, again, nil
}

// waitForRoom returns with the lock held once there is room. What is late has less of it: catching up
// never delays the present, so there are never many late fires that wait for their call before
// those that are due now.
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

// lateRoom returns how many late fires there is room for.
func (h *inflight) lateRoom() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(maxLate-h.late, h.max/lowShare-len(h.fires))
}

// confirmed notes that claims were answered.
func (h *inflight) confirmed(es []*claimedFire) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range es {
		e.unconfirmed = false
	}
}

// remove takes out entries, each only if it is the one that is in.
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

// removeEpoch takes out everything of a dead term. Calls in flight end by the term's context; what
// they find no longer counts here.
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

// uncountLate counts an entry that leaves, or whose call begins. The lock is held.
func (h *inflight) uncountLate(e *claimedFire) {
	if e.late.CompareAndSwap(true, false) {
		h.late--
	}
}

// callStarted tells that an entry's call begins.
func (h *inflight) callStarted(e *claimedFire) {
	if !e.late.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uncountLate(e); h.late == maxLate-1 { // somebody may wait for just that
		close(h.room)
		h.room = make(chan struct{})
	}
}

// began returns those of the fires that are in hand and whose first attempts have begun.
func (h *inflight) began(ids []timer.FireID) map[timer.FireID]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	uncountLate := make(map[timer.FireID]bool)
	for _, id := range ids {
		if e := h.fires[id]; e != nil && e.began.Load() {
			uncountLate[id] = true
		}
	}
	return uncountLate
}

func (h *inflight) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.fires)
}

func (h *inflight) full() bool { return h.len() >= h.max }

// crowdedShare is the part of the hands beyond which nothing is held that could be parked.
const crowdedShare = 4

func (h *inflight) crowded() bool { return h.len() > h.max/crowdedShare }
