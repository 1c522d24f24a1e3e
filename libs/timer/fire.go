package timer

// MinuteMS is the length of a slice's minute.
const MinuteMS int64 = 60_000

// Cause says why a fire exists.
type Cause uint8

// The causes.
const (
	CauseSchedule Cause = 0 // the timer's schedule asked for it
	CauseRunNow   Cause = 1 // somebody asked for it
	CauseBackfill Cause = 2 // somebody asked for a past range
	CauseRedrive  Cause = 3 // it failed, and somebody asked for it again
)

// String returns the cause's name, as history shows it.
func (c Cause) String() string {
	switch c {
	case CauseRunNow:
		return "run_now"
	case CauseBackfill:
		return "backfill"
	case CauseRedrive:
		return "redrive"
	default:
		return "schedule"
	}
}

// FireState says what an open fire waits for.
type FireState uint8

// The states.
const (
	FireReady    FireState = 0 // for its first attempt
	FireRetrying FireState = 1 // for a further attempt
	FireWaiting  FireState = 2 // for the fire before it to finish; its run is when it looks again
	FireAccepted FireState = 3 // for its receiver to complete it; its run is when that times out
	FireDeferred FireState = 4 // for the limits of its app, or its endpoint's breaker
	// FireAsyncFailed: for the retry policy: its receiver completed the attempt as failed, which is
	// recorded.
	FireAsyncFailed FireState = 5
)

// Fire is one due instant of one timer, still without outcome.
type Fire struct {
	FireID

	RunAtMS         int64 // when it is next to be dispatched
	Bucket          int32 // with RunAtMS it names the slice
	AppID           int64
	Version         int32 // of the timer's definition
	Epoch           int64 // the timer's ActiveEpoch when the fire was made
	Cause           Cause
	State           FireState
	Attempt         int32         // attempts already made
	FirstLatenessMS int64         // lateness of the first attempt; 0 before it
	Rev             int32         // revision: bumped whenever the fire is given back for dispatch
	PriorityLevel   PriorityLevel // its timer's priority
	// Done: of several targets: bit i says that Targets[i] took it (ModeAll), TargetGivenUp<<i and
	// Gone<<i that Targets[i] is not called again. Not in tasks and marks.
	TargetBits uint32

	Owner  ID    // the session that claimed it; 0 is none. Not in tasks and marks
	Sweeps int32 // how often it was swept since RunAtMS was set. Not in tasks and marks
}

// Bits of Fire.Done about the first of several targets; those of the others follow them.
const (
	TargetGivenUp uint32 = 1 << 16 // it answered a status that is not retried
	// Gone: ModeAll: it answered 410, for which the timer is paused when the fire ends.
	TargetGone uint32 = 1 << 24
)

// RunAtMinute returns the slice's minute: minutes since 1970.
func (f *Fire) RunAtMinute() int64 { return MinuteOf(f.RunAtMS) }

// UsesLowPriorityTopic tells whether its tasks go by the low-priority topic from the start: it is of low priority,
// or a backfill's. What is late goes there too.
func (f *Fire) UsesLowPriorityTopic() bool {
	return f.Cause == CauseBackfill || f.PriorityLevel == LevelLow
}

// MinuteOf returns the minute since 1970 that an instant (unix ms, not negative) lies in.
func MinuteOf(ms int64) int64 { return ms / MinuteMS }

// CompareFires orders fires by primary key (due, timer, series): the order in which every batch of
// statements takes row locks, so that two batches never wait for each other in a circle.
func CompareFires(a, b Fire) int { return CompareFireIDs(a.FireID, b.FireID) }

// CompareFireIDs orders fire ids as CompareFires orders fires.
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
