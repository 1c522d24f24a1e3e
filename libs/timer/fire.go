package timer

import (
	"fmt"
	"reflect"
	"slices"
)

// MinuteMS is the length of a minute in milliseconds. A slice covers one minute.
const MinuteMS int64 = 60_000

// Cause is why a fire exists.
type Cause uint8

// The causes.
const (
	CauseSchedule Cause = 0 // the timer's schedule
	CauseRunNow   Cause = 1 // a user requested one fire now
	CauseBackfill Cause = 2 // a user requested the fires of a past range
	CauseRedrive  Cause = 3 // a user requested a failed fire again
)

// String returns the cause's name, as the history shows it.
func (c Cause) String() string {
	switch c {
	case CauseRunNow:
		return "run_now"
	case CauseBackfill:
		return "backfill"
	case CauseRedrive:
		return "redrive"
	case CauseSchedule:
		return "schedule"
	}
	return fmt.Sprintf("unknown cause %d", uint8(c))
}

// FireState is what an open fire waits for.
type FireState uint8

// The states.
const (
	FireReady    FireState = 0 // waits for its first attempt
	FireRetrying FireState = 1 // waits for a further attempt
	// FireWaiting waits for the previous fire to finish. It checks again at its run time.
	FireWaiting  FireState = 2
	FireAccepted FireState = 3 // waits for its receiver to complete it; times out at its run time
	FireDeferred FireState = 4 // waits for the limits of its app or the breaker of its endpoint
	// FireAsyncFailed waits for the retry policy: its receiver completed the attempt as failed, and
	// that is recorded.
	FireAsyncFailed FireState = 5
)

// Fire is one due instant of one timer that has no outcome yet.
type Fire struct {
	FireID

	RunAtMS         int64 // when the fire is next dispatched
	Bucket          int32 // together with RunAtMinute it names the slice
	AppID           int64
	Version         int32 // of the timer's definition
	Epoch           int64 // the timer's ActiveEpoch when the fire was created
	Cause           Cause
	State           FireState
	Attempt         int32 // attempts made so far
	FirstLatenessMS int64 // lateness of the first attempt; 0 before it
	// Rev: revision: incremented whenever the fire is released for dispatch.
	Rev           int32
	PriorityLevel PriorityLevel // the priority of its timer
	TargetBits    TargetBits    // not in tasks and window entries
	// WaitingSinceMS is since when the next attempt waits for what WaitedFor says, in the store;
	// 0: it does not. However often the fire is released for the same wait, this instant stays.
	WaitingSinceMS int64
	// WaitedFor is what WaitingSinceMS belongs to. Otherwise it is the longest wait before the first
	// attempt, once that was made.
	WaitedFor Wait

	Owner ID // the session that claimed the fire; 0 means none. Not in tasks or window entries
}

// WaitsForCall reports whether the next attempt waits only until its app may make another call.
func (f *Fire) WaitsForCall() bool {
	return f.WaitingSinceMS != 0 && (f.WaitedFor == WaitLimits || f.WaitedFor == WaitWorker)
}

// TargetBits are the results of several targets. Bit i is set if Targets[i] accepted the fire: with
// ModeAll it has taken it, with ModeAny it was to complete an earlier attempt. TargetGivenUp<<i and
// TargetGone<<i are set if Targets[i] must not be called again.
type TargetBits uint32

// Bits of the first target. Shift them by i for Targets[i].
const (
	TargetAccepted TargetBits = 1
	// TargetCompletes means that the target, of several with ModeAny, accepted the last attempt. So it
	// is the only one that may complete it.
	TargetCompletes TargetBits = 1 << 8
	// TargetGivenUp means that the target answered a status that is not retried, or failed the last
	// attempt.
	TargetGivenUp TargetBits = 1 << 16
	// TargetGone means that the target answered 410. The timer is paused when the fire ends.
	TargetGone TargetBits = 1 << 24
)

// Next returns the results before another attempt, which no target has accepted yet.
func (b TargetBits) Next() TargetBits { return b &^ (TargetCompletes<<MaxTargets - TargetCompletes) }

// Has reports whether Targets[i] has one of the results.
func (b TargetBits) Has(i int, results TargetBits) bool { return b>>i&results != 0 }

// Carry returns the results for the targets of another definition: each target that is the same there
// keeps its results. With another mode they mean something else, so none is kept.
func (b TargetBits) Carry(from, to *Definition) (carried TargetBits) {
	if from.Mode != to.Mode {
		return 0
	}
	for i := range to.Targets {
		same := func(t Target) bool { return reflect.DeepEqual(t, to.Targets[i]) }
		if j := slices.IndexFunc(from.Targets, same); j >= 0 {
			carried |= b >> j & (TargetAccepted | TargetGivenUp | TargetGone) << i
		}
	}
	return carried
}

// AnyGone reports whether a target is gone.
func (b TargetBits) AnyGone() bool { return b>>24 != 0 } //nolint:mnd // the bits from TargetGone on

// RunAtMinute returns the minute of the fire's slice, in minutes since 1970.
func (f *Fire) RunAtMinute() int64 { return MinuteOf(f.RunAtMS) }

// UsesLowPriorityTopic reports whether the tasks of the fire always use the low-priority topic.
// That holds for low priority and for backfills. Late fires use that topic too.
func (f *Fire) UsesLowPriorityTopic() bool {
	return f.Cause == CauseBackfill || f.PriorityLevel == LevelLow
}

// MinuteOf returns the minute since 1970 that contains an instant (Unix ms, not negative).
func MinuteOf(ms int64) int64 { return ms / MinuteMS }

// CompareFires orders fires by primary key (due, timer, series). Every batch of statements locks
// rows in this order, so two batches cannot deadlock.
func CompareFires(a, b Fire) int { return CompareFireIDs(a.FireID, b.FireID) }

// CompareFireIDs orders fire ids in the order of CompareFires.
func CompareFireIDs(a, b FireID) int {
	switch {
	case a.DueMS != b.DueMS:
		return order(a.DueMS, b.DueMS)
	case a.Timer != b.Timer:
		return order(int64(a.Timer), int64(b.Timer))
	default:
		return order(a.Series, b.Series)
	}
}

func order(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
