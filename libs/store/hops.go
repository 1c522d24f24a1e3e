package store

import (
	"math"

	"github.com/carillon-timer/carillon/libs/timer"
)

// HopsRow is the stored form of timer.Hops: 13 bytes. Its instants are distances, backwards from
// the end of the fire. Unknown ones are UnknownAge. A distance of more than 24 days is unknown too.
type HopsRow struct {
	Path      timer.Path
	TaskAgeMS int64 // how long before the claim the task was published
	HeldMS    int64 // how long before its end the fire was claimed
	WaitedFor timer.Wait
	WaitedMS  int64 // at most MaxWaitedMS, which stands for every longer wait, too
}

// UnknownAge is a distance that is not known.
const UnknownAge = -1

// MaxWaitedMS is the longest wait whose length is kept: 4 h 39 min.
const MaxWaitedMS = 1<<24 - 1

// StoredHops returns the stored form of the hops of a fire that finished at an instant.
func StoredHops(h *timer.Hops, finishedMS int64) HopsRow {
	r := HopsRow{
		Path:      h.Path,
		TaskAgeMS: UnknownAge,
		HeldMS:    UnknownAge,
		WaitedFor: h.WaitedFor,
		WaitedMS:  min(max(h.WaitedMS, 0), MaxWaitedMS),
	}
	if h.ClaimedMS == 0 {
		return r
	}
	r.HeldMS = ageOf(h.ClaimedMS, finishedMS)
	if h.DispatchedMS != 0 && r.HeldMS != UnknownAge {
		r.TaskAgeMS = ageOf(h.DispatchedMS, finishedMS-r.HeldMS)
	}
	return r
}

// ageOf returns how long before another instant one was. Clocks of two processes differ, so one
// that seems later was just before.
func ageOf(ms, beforeMS int64) int64 {
	age := max(0, beforeMS-ms)
	if age > math.MaxInt32 {
		return UnknownAge
	}
	return age
}

// Hops returns the hops of a fire that finished at an instant.
func (r HopsRow) Hops(finishedMS int64) timer.Hops {
	h := timer.Hops{Path: r.Path, WaitedFor: r.WaitedFor, WaitedMS: r.WaitedMS}
	if r.HeldMS != UnknownAge {
		h.ClaimedMS = finishedMS - r.HeldMS
	}
	if r.TaskAgeMS != UnknownAge {
		h.DispatchedMS = h.ClaimedMS - r.TaskAgeMS
	}
	return h
}
