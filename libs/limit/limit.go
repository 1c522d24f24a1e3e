package limit

import (
	"context"
	"time"
)

// Settings are the limits of one app. The zero value is no limit.
type Settings struct {
	Rate float64 // calls started per second, across all executors; 0 means no limit
	// Burst is how many calls may start at once after a pause. 0 means one second's worth, at least
	// 1.
	Burst      int
	Concurrent int // concurrent calls, across all executors; 0 means no limit
}

// Resolved returns the settings with defaults filled in.
func (s Settings) Resolved() Settings {
	if s.Rate > 0 && s.Burst <= 0 {
		s.Burst = max(1, int(s.Rate))
	}
	return s
}

// PermitTTL returns how long a permit of an app with a rate may wait for its call. Beyond that, the
// calls of a rate would start at one moment after a stall. With a low rate it is the time between two
// tokens: at most one more call may start then, and the next token is far away.
func (s Settings) PermitTTL() time.Duration {
	step := time.Duration(float64(time.Second) / max(s.Rate, 1/MaxWait.Seconds()))
	return max(TokenTTL, step)
}

// Raised reports whether the settings allow more than others.
func (s Settings) Raised(than Settings) bool {
	more := func(now, old float64) bool { return old > 0 && (now == 0 || now > old) }
	return more(s.Rate, than.Rate) || more(float64(s.Concurrent), float64(than.Concurrent))
}

// Decision is the answer to a request to start a call.
type Decision struct {
	OK    bool
	Waits bool // not OK: the Waiter is in the wait list and is notified
	// Share is set with At, if the app uses its share of this executor's calls. That says nothing
	// about the limits of the app.
	Share bool
	// At is set if neither OK nor Waits: the earliest time to ask again. An executor may defer the
	// fire until then.
	At time.Time
}

// Time limits.
const (
	TokenTTL = 200 * time.Millisecond // lifetime of an unused token
	// WaitTTL is how long after a Sync an executor's waiting fires count.
	WaitTTL = 250 * time.Millisecond
	// SlotTTL is how long call slots are kept for an executor that does not call Sync again.
	SlotTTL = 3 * time.Second
	// SlotRotation is how long an executor keeps its call slot if there are more executors than
	// call slots.
	SlotRotation = 2 * time.Second
	MaxWait      = 5 * time.Minute // maximum retry-after delay
)

// Demand is what one executor wants for one app.
type Demand struct {
	App      string
	Settings Settings // resolved
	// Waiting is the number of fires of each priority that wait here for a token. It counts for
	// WaitTTL. It is 0 while no call slot is free here or about to be: others may use the tokens.
	Waiting [Priorities]int
	Starts  int // how many of them could start now, at most
	Tokens  int // tokens wanted in advance, for fires still to come
	InUse   int // running calls
	// Slots is the wanted number of concurrent calls, including the running ones. If every field is
	// 0, the executor releases the app.
	Slots int
}

// IsEmpty reports whether the executor wants nothing.
func (w *Demand) IsEmpty() bool {
	return w.Waiting == [Priorities]int{} && w.Tokens == 0 && w.InUse == 0 && w.Slots == 0
}

// Grant is the answer to a Demand. Tokens must be used within TokenTTL.
type Grant struct {
	// Err is why the demand failed, if others did not. Then the grant has nothing.
	Err error
	// Order holds the tokens for waiting fires, in order of use. It is the next picks of the Picker
	// that all executors share for the app, over the waiting fires of all executors. If the picked
	// priority waits only at another executor, that executor gets the token.
	Order []Priority
	// Tokens are for fires still to come. There are none while anything waits at any executor.
	Tokens    int
	NextToken time.Duration // time until the next token, if fewer than demanded
	// Slots is how many concurrent calls may be started until SlotTTL has passed. More calls may be
	// running; they keep their call slots until they end.
	Slots     int
	Executors int // executors that called Sync for this app within SlotTTL, including this one
}

// SharedState is the limit state that all executors of a deployment share. It is safe for
// concurrent use.
type SharedState interface {
	// Sync sends the demands of one executor, at most one per app, and returns a grant for each, in
	// order. It returns an error only if all demands failed. Where a demand failed, tokens may be
	// spent, and call slots taken until SlotTTL has passed.
	Sync(ctx context.Context, executor string, demands []Demand) ([]Grant, error)
}

// Claim is the demand of one executor for scarce call slots.
type Claim struct {
	Executor string
	Want     int
}

// Share divides scarce call slots and returns the part of me: an even part for each claim, and what
// one does not want goes to the others. If there are fewer call slots than claims, they rotate.
// Every SharedState divides like this.
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
	// Raise the level until the limit is used up. Claims below the level are satisfied.
	left := limit
	for level := 0; ; {
		step := left / open
		if step == 0 {
			// Fewer slots are left than claims that want one more. The first to ask gets them; the
			// slots already granted are the limit.
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

// rotatedSlots assigns each slot to one executor for a while and then to the next, in order of
// names. Without rotation the first to ask would keep it, and the fires of the others would never
// be called.
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
