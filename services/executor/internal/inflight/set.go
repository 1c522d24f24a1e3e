package inflight

import (
	"context"
	"errors"
	"sync"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Source says how a fire came to be claimed.
type Source int

// The sources.
const (
	FromTask        Source = iota
	FromLowTask            // a task of the low-priority topic
	FromUnconfirmed        // an earlier claim whose answer was lost
	FromPoll               // found in the store, without a task
	FromLatePoll           // found in the store, and late
	FromOrder              // later fires of its timer wait for it
	FromReadmit            // its app may make calls sooner than expected
)

// low reports whether the source may bring catch-up traffic, which yields to on-time traffic.
func (o Source) low() bool {
	return o == FromLowTask || o == FromLatePoll || o == FromOrder
}

// withoutTask reports whether no task carries the claimed fire.
func (o Source) withoutTask() bool { return o != FromTask && o != FromLowTask }

const (
	// lowShare stops catch-up while 1/lowShare of the in-flight set is used.
	lowShare = 2
	maxLate  = 1000 // late fires waiting for their call that stop catch-up

	// maxBodies is how many bytes of large bodies may be kept in memory by fires whose attempt has
	// not started. Without it some thousands of fires with large bodies would end the process for want
	// of memory, and then the next one that claims them. Calls have a bound of their own: those that
	// hang take no room.
	maxBodies = 256 << 20
	// largeBodies is from how many bytes on the bodies of a definition count. The others need less
	// than maxBodies with the default limit of fires.
	largeBodies = 1 << 10
)

var errFull = errors.New("no room for more late fires")

// Set is the bounded set of fires that this process owns. A fire enters it just before its
// claim and leaves it when its outcome is recorded or the fire is released. No fire is in flight
// twice, because only a fire that was added here is claimed. Its bounds are a number of fires, and
// maxBodies: what is said of the capacity is said of both.
type Set struct {
	max   int
	slow  func() bool // results are written more slowly than calls end
	mu    sync.Mutex
	fires map[timer.FireID]*Entry
	late  int           // how many of fires are late
	room  chan struct{} // closed and replaced when there may be room

	bodies int                       // bytes of large bodies
	large  map[*timer.Definition]int // by how many fires each large definition is kept
}

// New returns an empty set for at most limit fires. While slow returns true, the results of calls are
// written more slowly than calls end. Then the store is what limits the executor, and the set has
// room only while it is Roomy: so many fires wait here, where apps take turns. More would have to be
// deferred, which delays the store further. The caller wakes those who wait for room when slow no
// longer returns true. What a poll finds that may not be put off for longer is claimed all the same.
func New(limit int, slow func() bool) *Set {
	return &Set{
		max:   limit,
		slow:  slow,
		fires: make(map[timer.FireID]*Entry),
		room:  make(chan struct{}),
		large: make(map[*timer.Definition]int),
	}
}

// Reserve waits for room, then adds the fires that are not in flight. FromLatePoll does not wait and
// returns an error. It replaces fires of an expired epoch, which nothing will call.
//
// It also returns the indexes of the fires whose task must be redelivered. Either an earlier
// revision is in flight and about to end. Or the claim in flight is unconfirmed, and this task
// alone carries the fire if that claim fails.
func (h *Set) Reserve(
	ctx context.Context,
	epoch *session.Epoch,
	arrivals []Arrival,
	source Source,
	nowMS int64,
) (fresh []*Entry, again []int, err error) {
	if err := h.makeRoom(ctx, source); err != nil {
		return nil, nil, err
	}
	defer h.mu.Unlock()
	fresh = make([]*Entry, 0, len(arrivals))
	mine := make(map[*Entry]bool, len(arrivals))
	for i := range arrivals {
		f := &arrivals[i].Fire
		old := h.fires[f.FireID]
		switch {
		case old == nil || old.Epoch.Context().Err() != nil:
			e := &Entry{
				Fire:        *f,
				rev:         f.Rev,
				Epoch:       epoch,
				unconfirmed: source.withoutTask(),
				Low:         source.low(),
				AskedFor:    arrivals[i].AskedFor,
				hops:        arrivals[i].hopsOf(epoch.ID),
			}
			if old != nil {
				h.forget(old)
			}
			// If it is not due yet, it waits for its run time at low priority, like any other.
			if source.low() && e.Fire.RunAtMS <= nowMS {
				e.Late.Store(true)
				h.late++
			}
			h.fires[e.Fire.FireID], mine[e] = e, true
			fresh = append(fresh, e)
		case f.Rev <= old.rev && (mine[old] || !old.unconfirmed): // already in flight
		case mine[old]:
			old.Fire, old.rev = *f, f.Rev
			old.hops = arrivals[i].hopsOf(epoch.ID)
		default:
			again = append(again, i)
		}
	}
	return fresh, again, nil
}

// makeRoom returns with the lock held as soon as the set has room for fires of a source. Who polls
// the store for late fires does not wait: it has other questions to ask, and knew of room or was put
// off for long. It goes beyond the part of the set that tasks may fill with catch-up, so calls that
// hang in so many fires keep none from being found. As any batch, it may exceed the limits by its size.
func (h *Set) makeRoom(ctx context.Context, source Source) error {
	switch source {
	case FromOrder: // few, and fires that fill the set may wait for them
		h.mu.Lock()
		return nil
	case FromLatePoll:
		h.mu.Lock()
		if h.below(1) && h.late < maxLate {
			return nil
		}
		h.mu.Unlock()
		return errFull
	case FromTask, FromLowTask, FromUnconfirmed, FromPoll, FromReadmit:
	}
	return h.waitForRoom(ctx, source.low())
}

// waitForRoom waits for room and returns with the lock held. Catch-up has less room than on-time
// traffic, so few late fires wait for their call ahead of the fires due now.
func (h *Set) waitForRoom(ctx context.Context, low bool) error {
	for {
		h.mu.Lock()
		if h.below(1) && !h.held() && (!low || h.below(lowShare) && h.late < maxLate) {
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

// LateRoom returns how many more late fires fit.
func (h *Set) LateRoom() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held() || !h.below(lowShare) {
		return 0
	}
	return min(maxLate-h.late, h.max/lowShare-len(h.fires))
}

// Confirmed marks the claims of es as answered, with the answer's instant.
func (h *Set) Confirmed(es []*Entry, nowMS int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range es {
		e.unconfirmed = false
		e.claimed(nowMS)
	}
}

// Remove removes the entries, each only if it is the current one of its fire.
func (h *Set) Remove(es ...*Entry) {
	if len(es) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range es {
		if h.fires[e.Fire.FireID] == e {
			delete(h.fires, e.Fire.FireID)
			h.forget(e)
		}
	}
	h.wake()
}

// Loaded counts the bodies of the entries' definitions until their attempts start. Call it whenever
// one was loaded.
func (h *Set) Loaded(es ...*Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range es {
		if h.uncountBodies(e); e.Def == nil || e.Def.BodyBytes() < largeBodies ||
			h.fires[e.Fire.FireID] != e {
			continue
		}
		e.large = e.Def
		e.keepsBodies.Store(true)
		if h.large[e.large]++; h.large[e.large] == 1 {
			h.bodies += e.large.BodyBytes()
		}
	}
}

// forget stops counting e, because it leaves. The caller holds the lock.
func (h *Set) forget(e *Entry) {
	h.uncountLate(e)
	h.uncountBodies(e)
}

// uncountBodies stops counting the bodies of e. The caller holds the lock.
func (h *Set) uncountBodies(e *Entry) {
	if e.large == nil {
		return
	}
	if h.large[e.large]--; h.large[e.large] == 0 {
		delete(h.large, e.large)
		h.bodies -= e.large.BodyBytes()
	}
	e.large = nil
	e.keepsBodies.Store(false)
}

// Wake makes those who wait for room look again.
func (h *Set) Wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wake()
}

// wake is Wake for callers that hold the lock.
func (h *Set) wake() {
	close(h.room)
	h.room = make(chan struct{})
}

// RemoveEpoch removes all fires of an expired epoch and returns their number. The epoch's context
// cancels calls in flight; their results no longer count here.
func (h *Set) RemoveEpoch(t *session.Epoch) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for id, e := range h.fires {
		if e.Epoch == t {
			delete(h.fires, id)
			h.forget(e)
			n++
		}
	}
	h.wake()
	return n
}

// uncountLate stops counting e as late, because it leaves or its call starts. The caller holds the
// lock.
func (h *Set) uncountLate(e *Entry) {
	if e.Late.CompareAndSwap(true, false) {
		h.late--
	}
}

// CallStarted records that the call of e starts, or that it waits for its limits.
func (h *Set) CallStarted(e *Entry) {
	if !e.Late.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uncountLate(e); h.late == maxLate-1 { // a waiter may need just this room
		h.wake()
	}
}

// AttemptStarted records that an attempt of e starts. Its bodies no longer count.
func (h *Set) AttemptStarted(e *Entry) {
	e.Began.Store(true)
	if !e.keepsBodies.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all, some := h.below(1), h.below(lowShare)
	if h.uncountBodies(e); h.below(1) != all || h.below(lowShare) != some {
		h.wake()
	}
}

// Began returns which of the fires are in flight with their first attempt started.
func (h *Set) Began(ids []timer.FireID) map[timer.FireID]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	started := make(map[timer.FireID]bool)
	for _, id := range ids {
		if e := h.fires[id]; e != nil && e.Began.Load() {
			started[id] = true
		}
	}
	return started
}

// Has reports whether a fire is in flight.
func (h *Set) Has(id timer.FireID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fires[id] != nil
}

// Len returns how many fires are in flight.
func (h *Set) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.fires)
}

// Max returns for how many fires the set has room.
func (h *Set) Max() int { return h.max }

// Full reports whether no fire has room.
func (h *Set) Full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.below(1)
}

// Used returns the used part of the capacity, by the number of fires or their bodies, whichever is
// more. From 1 on no fire has room.
func (h *Set) Used() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(float64(len(h.fires))/float64(h.max), float64(h.bodies)/maxBodies)
}

// below reports whether less than 1/share of the capacity is used. The caller holds the lock.
func (h *Set) below(share int) bool {
	return len(h.fires) < max(1, h.max/share) && h.bodies < maxBodies/share
}

// CrowdedShare is the part of the capacity (1/4) above which fires that must wait are deferred in
// the store.
const CrowdedShare = 4

// Crowded reports whether fires that must wait are to be deferred in the store.
func (h *Set) Crowded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.crowded()
}

func (h *Set) crowded() bool {
	return len(h.fires) > h.max/CrowdedShare || h.bodies > maxBodies/CrowdedShare
}

// Roomy reports whether fires may wait here longer than MaxWait. It leaves as much room again for
// other fires, until the set is crowded.
func (h *Set) Roomy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.roomy()
}

func (h *Set) roomy() bool {
	return len(h.fires) < h.max/CrowdedShare/2 && h.bodies < maxBodies/CrowdedShare/2
}

// held reports whether the set has no room because results are written slowly. The caller holds the
// lock.
func (h *Set) held() bool { return h.slow() && !h.roomy() }

// Room returns how many fires may be claimed before they are due: none if the set is crowded, or if
// it is not Roomy and results are written more slowly than calls end.
func (h *Set) Room() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held() || h.crowded() {
		return 0
	}
	return h.max / CrowdedShare
}
