package limit

import (
	"context"
	"time"
)

// Settings are the limits of one app. The zero value is no limit.
type Settings struct {
	Rate float64 // calls started per second, over all executors; 0: no limit
	// Burst: what may be started at once after a pause; 0 is a second's worth, at least 1.
	Burst      int
	Concurrent int // calls at once, over all executors; 0: no limit
}

// Resolved returns the settings with the default filled in.
func (s Settings) Resolved() Settings {
	if s.Rate > 0 && s.Burst <= 0 {
		s.Burst = max(1, int(s.Rate))
	}
	return s
}

// Decision says whether a call may start.
type Decision struct {
	OK    bool
	Waits bool // not OK: the Waiter is in the wait list, and is told when it may start
	// At: neither: ask again then, and not sooner. Who does not want to hold the fire so long parks
	// it.
	At time.Time
}

// Limits in time.
const (
	TokenTTL = 200 * time.Millisecond // a permit to start that was not used within it is void
	// WaitTTL: what waits at an executor takes its turns for so long after an exchange.
	WaitTTL = 250 * time.Millisecond
	// SlotTTL: slots of an executor that does not ask again are free after it.
	SlotTTL = 3 * time.Second
	// SlotRotation: for how long an executor has its slot where there are more executors than
	// slots.
	SlotRotation = 2 * time.Second
	MaxWait      = 5 * time.Minute // no instant lies further away
)

// Demand is what one executor wants for one app.
type Demand struct {
	App      string
	Settings Settings // resolved
	// Waiting is how many fires of each priority wait here for a permit to start. It counts for
	// WaitTTL.
	Waiting [Priorities]int
	Starts  int // how many of them can start now, at most
	Tokens  int // starts wanted ahead, for fires that are still to come
	InUse   int // calls that run
	// Slots: calls at once wanted, those that run included; with 0 of everything the executor
	// leaves the app.
	Slots int
}

// IsEmpty tells whether the executor wants nothing any more.
func (w *Demand) IsEmpty() bool {
	return w.Waiting == [Priorities]int{} && w.Tokens == 0 && w.InUse == 0 && w.Slots == 0
}

// Grant is what it got. Permits to start are to be used within TokenTTL.
type Grant struct {
	// Order are the permits for what waits, in the order in which they are to be used: the next
	// picks of the one Picker that the executors share for the app, over all that waits at any of
	// them. A turn of a priority that waits at another executor only is left to that one, with the
	// permit.
	Order []Priority
	// Tokens: permits for what is still to come; none while anything waits at any executor.
	Tokens    int
	NextToken time.Duration // fewer than wanted: when there is the next
	// Slots: up to so many calls at once may be started until SlotTTL is over; more may run, and
	// keep their slots until they end.
	Slots     int
	Executors int // that asked for this app within SlotTTL, this one included
}

// SharedState is what the executors of a deployment share. It is safe for concurrent use.
type SharedState interface {
	// Sync carries the wishes of one executor, at most one per app, and returns a grant for each,
	// in their order. After an error none of them holds; tokens may be spent then, and slots taken
	// until SlotTTL is over.
	Sync(ctx context.Context, executor string, demands []Demand) ([]Grant, error)
}

// Claim is what one of several executors wants of a scarce number of slots.
type Claim struct {
	Executor string
	Want     int
}

// Share returns the part of a scarce number of slots that falls to one of several who want some: an
// even part for each, and what one does not want goes to the others. Where there are fewer slots
// than claims each has its turn. It is how every ledger divides.
func Share(limit int, me Claim, others []Claim, now time.Time) int {
	sum, open := me.Want, min(me.Want, 1)
	for _, o := range others {
		sum += o.Want
		open += min(o.Want, 1)
	}
	if sum <= limit {
		return me.Want
	}
	if limit < open {
		return rotatedSlots(limit, me, others, now)
	}
	// Raise the level until the limit is used up; whoever wants less than the level drops out.
	left := limit
	for level := 0; ; {
		step := left / open
		if step == 0 {
			// Fewer are left than there are who want one more: whoever asks first gets it. What is
			// granted already bounds it.
			return min(me.Want, level+1)
		}
		level += step
		left = limit
		open = 0
		for _, o := range append([]Claim{me}, others...) {
			left -= min(o.Want, level)
			if o.Want > level {
				open++
			}
		}
		if me.Want <= level || left == 0 {
			return min(me.Want, level)
		}
	}
}

// rotatedSlots gives each slot to one executor for a while and then to the next, in the order of their
// names. Who asked first would else keep it for good, and the fires in the hands of the others
// would never be called.
func rotatedSlots(limit int, me Claim, others []Claim, now time.Time) int {
	if me.Want == 0 {
		return 0
	}
	place, open := 0, 1
	for _, o := range others {
		if o.Want > 0 {
			open++
			if o.Executor < me.Executor {
				place++
			}
		}
	}
	first := int(
		now.UnixMicro() / SlotRotation.Microseconds() % int64(open) * int64(limit) % int64(open),
	)
	if (place-first+open)%open < limit {
		return 1
	}
	return 0
}
