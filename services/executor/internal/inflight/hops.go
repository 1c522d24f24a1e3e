package inflight

import "github.com/carillon-timer/carillon/libs/timer"

// Arrival is a fire to be claimed, with what is known of how it came here.
type Arrival struct {
	Fire timer.Fire
	// Hops has the path, and when the task was published. The claim adds the rest.
	Hops     timer.Hops
	AskedFor string // of the entry
}

// Arrivals returns fires that all came by one path without a task.
func Arrivals(fires []timer.Fire, path timer.Path) []Arrival {
	out := make([]Arrival, len(fires))
	for i := range fires {
		out[i] = Arrival{Fire: fires[i], Hops: timer.Hops{Path: path}}
	}
	return out
}

// hopsOf returns the hops of an arrival that a session is about to claim. Whichever question found a
// fire with another owner, the claim succeeds only if that one has ended.
func (a *Arrival) hopsOf(session timer.ID) hops {
	h := hops{known: a.Hops}
	if owner := a.Fire.Owner; owner != 0 && owner != session {
		h.known.Path = timer.PathOrphaned
	}
	return h
}

// hops are the way of a fire while it is in flight. They belong to the owner of the entry: a worker,
// then a lookup or a queue.
//
// A fire waits for one thing at a time, and known keeps the longest wait. Waits that may outlast a
// claim (limits, breaker, turn) are those of the fire's row. They last until the attempt, however
// often the fire waits for a worker or the store in between.
type hops struct {
	known     timer.Hops
	attempted bool       // the first attempt was made: known is complete
	waitFor   timer.Wait // the present short wait
	fromMS    int64      // since when
}

// Hops returns the way of the fire so far, as of nowMS. An open wait counts up to then.
func (e *Entry) Hops(nowMS int64) timer.Hops {
	h := e.hops
	h.endWaits(&e.Fire, nowMS)
	return h.known
}

// claimed notes the claim of the fire. A fire with an attempt has waited before it under an earlier
// claim. Of that, the row has the reason only.
func (e *Entry) claimed(nowMS int64) {
	h, f := &e.hops, &e.Fire
	h.known.ClaimedMS = nowMS
	switch {
	case f.Attempt > 0:
		h.attempted = true
		if f.WaitingSinceMS == 0 { // else the row's reason is that of the next attempt
			h.known.WaitedFor = f.WaitedFor
		}
	case e.Low && h.known.DispatchedMS != 0:
		h.add(timer.WaitLow, nowMS-max(f.RunAtMS, h.known.DispatchedMS))
	}
}

// WaitFor notes that the fire waits for something from now on, for WaitUnknown that it does not. A
// wait before it has ended.
func (e *Entry) WaitFor(w timer.Wait, nowMS int64) {
	h := &e.hops
	if h.attempted || h.waitFor == w {
		return
	}
	h.add(h.waitFor, nowMS-h.fromMS)
	h.waitFor, h.fromMS = w, nowMS
}

// DeferFor notes a wait that may outlast the claim. It is part of the fire's row, and lasts until
// the next attempt, or until the fire waits for something else of this sort. If the fire waits for
// the same already, the first instant stays.
func (e *Entry) DeferFor(w timer.Wait, nowMS int64) {
	e.WaitFor(timer.WaitUnknown, nowMS) // a short wait before it has ended
	f := &e.Fire
	if f.WaitingSinceMS != 0 && f.WaitedFor == w {
		return
	}
	e.EndDeferral(nowMS)
	f.WaitedFor, f.WaitingSinceMS = w, nowMS
}

// DeferredSince returns since when the fire waits for w, 0 if it does not.
func (e *Entry) DeferredSince(w timer.Wait) int64 {
	if e.Fire.WaitedFor != w {
		return 0
	}
	return e.Fire.WaitingSinceMS
}

// EndDeferral notes that the fire no longer waits for what DeferFor said.
func (e *Entry) EndDeferral(nowMS int64) {
	h, f := &e.hops, &e.Fire
	if !h.attempted && f.WaitingSinceMS != 0 {
		h.add(f.WaitedFor, nowMS-f.WaitingSinceMS)
	}
	f.WaitedFor, f.WaitingSinceMS = timer.WaitUnknown, 0
	if h.attempted {
		f.WaitedFor = h.known.WaitedFor
	}
}

// Attempted notes that an attempt began at startMS. The first one ends the waits.
func (e *Entry) Attempted(startMS int64) {
	e.hops.endWaits(&e.Fire, startMS)
	e.hops.attempted = true
	e.EndDeferral(startMS)
}

// Waits are what may be undone of DeferFor.
type Waits struct {
	hops  hops
	since int64
	of    timer.Wait
}

// Waits returns the waits so far, for SetWaits.
func (e *Entry) Waits() Waits {
	return Waits{e.hops, e.Fire.WaitingSinceMS, e.Fire.WaitedFor}
}

// SetWaits undoes what has been noted since Waits: the fire did not wait.
func (e *Entry) SetWaits(w Waits) {
	e.hops, e.Fire.WaitingSinceMS, e.Fire.WaitedFor = w.hops, w.since, w.of
}

// endWaits ends every wait at nowMS, unless the first attempt has ended them.
func (h *hops) endWaits(f *timer.Fire, nowMS int64) {
	if h.attempted {
		return
	}
	h.add(h.waitFor, nowMS-h.fromMS)
	if f.WaitingSinceMS != 0 {
		h.add(f.WaitedFor, nowMS-f.WaitingSinceMS)
	}
	h.waitFor = timer.WaitUnknown
	if h.known.WaitedFor == timer.WaitUnknown {
		h.known.WaitedFor = timer.WaitNothing
	}
}

// add notes a wait that has ended, if it is the longest so far.
func (h *hops) add(w timer.Wait, ms int64) {
	if w != timer.WaitUnknown && ms > h.known.WaitedMS {
		h.known.WaitedFor, h.known.WaitedMS = w, ms
	}
}
