package executor

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/timer"
)

// held is a fire in hand, under the session term that claimed it.
type held struct {
	fire     timer.Fire
	rev      int32 // of fire when it was taken; never changes while it is in hand
	term     *session.Epoch
	def      *timer.Definition // what was last called, once it is known
	endpoint string            // of def: see endpointOf
	// its timer's, once that was read; empty where the timer is gone. Its worker's, then the
	// recorder's.
	app string
	// it came by the low-priority topic after its run, and its call has not begun.
	late atomic.Bool
	low  bool // it came by the low-priority topic
	// its claim is in doubt, and no task stands behind it; guarded by hands.mu.
	doubt bool

	// what its last attempt came to, where it failed for good; its worker's, then the recorder's.
	error string

	// of a one-shot that came due while its timer was not active: since when it is; else 0. Its
	// worker's alone.
	activeMS int64

	// the limits have put it off already; this and the next are its worker's alone.
	asked  bool
	broken bool // its endpoint's breaker has, too
	// the version of the timer's state by which the fire's version was found out; its worker's.
	asOf      int32
	granted   *permit // that it waited for; its worker's from the queue on
	refusedMS int64   // since when that does, for the attempt to come; 0: it does not
}

// putOff tells whether it waited for a limit or a breaker: that it is late says nothing of how late
// anything else is.
func (e *held) putOff() bool { return e.asked || e.broken || e.fire.State == timer.FireDeferred }

// canary tells whether it is Carillon's own: what is counted and announced is the users'.
func (e *held) canary() bool { return e.def != nil && e.def.Target.Kind == timer.KindCanary }

// toEach tells whether all of several targets are to take the fire.
func (e *held) toEach() bool { return e.def != nil && e.def.Mode == timer.ModeAll }

// origin is how a fire comes to be claimed.
type origin int

const (
	byTask     origin = iota
	byLowTask         // of the low-priority topic
	byDoubt           // its claim was made before, and the answer was lost
	byLook            // it was found in the store, without a task
	byLateLook        // and was late
	byLift            // it waited for limits of its app that were raised
)

// low tells whether what has been late for long may come by it, which waits for the present.
func (o origin) low() bool { return o == byLowTask || o == byLateLook }

// bare tells that no task stands behind the claim.
func (o origin) bare() bool { return o == byDoubt || o == byLook || o == byLateLook || o == byLift }

// hands is the bounded set of fires that this process holds, from just before the claim until the
// outcome is recorded or the fire given back. It is why no fire is in hand twice: who cannot put a
// fire in does not claim it.
type hands struct {
	max  int
	mu   sync.Mutex
	set  map[timer.FireID]*held
	late int           // of the set
	room chan struct{} // closed and replaced when something leaves
}

func newHands(limit int) *hands {
	return &hands{max: limit, set: make(map[timer.FireID]*held), room: make(chan struct{})}
}

// take waits until there is room, then puts in those that are not there. What a dead term left
// behind is replaced: nobody will call it from there. It also returns the places of those that have
// to come again: an earlier revision of the fire is in hand, which its claim or its release will
// show to be over; or its claim is in doubt, and where that fails once more this task is the only
// one that carries it.
func (h *hands) take(
	ctx context.Context,
	term *session.Epoch,
	fires []timer.Fire,
	by origin,
	nowMS int64,
) (fresh []*held, again []int, err error) {
	if err := h.await(ctx, by.low()); err != nil {
		return nil, nil, err
	}
	defer h.mu.Unlock()
	fresh = make([]*held, 0, len(fires))
	mine := make(map[*held]bool, len(fires))
	for i := range fires {
		old := h.set[fires[i].FireID]
		switch {
		case old == nil || old.term.Context().Err() != nil:
			e := &held{
				fire:  fires[i],
				rev:   fires[i].Rev,
				term:  term,
				doubt: by.bare(),
				low:   by.low(),
			}
			if old != nil {
				h.out(old)
			}
			// else it is of low priority, and waits for its run.
			if by.low() && e.fire.RunAtMS <= nowMS {
				e.late.Store(true)
				h.late++
			}
			h.set[e.fire.FireID], mine[e] = e, true
			fresh = append(fresh, e)
		case fires[i].Rev <= old.rev && (mine[old] || !old.doubt): // in hand
		case mine[old]:
			old.fire, old.rev = fires[i], fires[i].Rev
		default:
			again = append(again, i)
		}
	}
	return fresh, again, nil
}

// await returns with the lock held once there is room. What is late has less of it: catching up
// never delays the present, so there are never many late fires that wait for their call before
// those that are due now.
func (h *hands) await(ctx context.Context, low bool) error {
	for {
		h.mu.Lock()
		if len(h.set) < h.max && (!low || len(h.set) < max(1, h.max/lowShare) && h.late < maxLate) {
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
func (h *hands) lateRoom() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(maxLate-h.late, h.max/lowShare-len(h.set))
}

// won notes that claims were answered.
func (h *hands) won(es []*held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range es {
		e.doubt = false
	}
}

// drop takes out entries, each only if it is the one that is in.
func (h *hands) drop(es ...*held) {
	if len(es) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range es {
		if h.set[e.fire.FireID] == e {
			delete(h.set, e.fire.FireID)
			h.out(e)
		}
	}
	close(h.room)
	h.room = make(chan struct{})
}

// dropTerm takes out everything of a dead term. Calls in flight end by the term's context; what
// they find no longer counts here.
func (h *hands) dropTerm(t *session.Epoch) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for id, e := range h.set {
		if e.term == t {
			delete(h.set, id)
			h.out(e)
			n++
		}
	}
	close(h.room)
	h.room = make(chan struct{})
	return n
}

// out counts an entry that leaves, or whose call begins. The lock is held.
func (h *hands) out(e *held) {
	if e.late.CompareAndSwap(true, false) {
		h.late--
	}
}

// begun tells that an entry's call begins.
func (h *hands) begun(e *held) {
	if !e.late.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.out(e); h.late == maxLate-1 { // somebody may wait for just that
		close(h.room)
		h.room = make(chan struct{})
	}
}

func (h *hands) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.set)
}

func (h *hands) full() bool { return h.len() >= h.max }

// crowdedShare is the part of the hands beyond which nothing is held that could be parked.
const crowdedShare = 4

func (h *hands) crowded() bool { return h.len() > h.max/crowdedShare }
