package timer

// OutcomeKind is the final result of a fire.
type OutcomeKind string

// The outcomes.
const (
	Delivered OutcomeKind = "delivered" // an attempt succeeded
	// Failed: attempts are exhausted, or it can never succeed; dead-lettered.
	Failed  OutcomeKind = "failed"
	Skipped OutcomeKind = "skipped" // not called, for Reason
)

// Reason says why a fire was skipped or failed.
type Reason string

// The reasons.
const (
	ReasonNone     Reason = ""
	ReasonInactive Reason = "inactive" // the timer was not active when it was due
	ReasonDeleted  Reason = "deleted"  // the timer was deleted
	ReasonPaused   Reason = "paused"   // the timer was paused when it was due
	ReasonFrozen   Reason = "frozen"   // the app was frozen at the fire
	// ReasonMisfired: it was late, and the misfire policy wants no call for it.
	ReasonMisfired   Reason = "misfired"
	ReasonSuperseded Reason = "superseded" // a newer version of the timer is not due then
	ReasonOverlap    Reason = "overlap"    // the fire before it had not finished
	ReasonQueueFull  Reason = "queue_full" // as many fires as may waited for their turn
	// ReasonCancelled: a later fire took its place, or its backfill was cancelled.
	ReasonCancelled Reason = "cancelled"
	ReasonExhausted Reason = "exhausted" // the last attempt failed
	ReasonRejected  Reason = "rejected"  // the target can never be called as defined
)

// Attempt is one callback try.
type Attempt struct {
	FireID

	N          int32 // from 1
	StartMS    int64
	DurationMS int64
	StatusCode int32  // the protocol's; 0 where no answer came
	Error      string // one line; empty on success; at most MaxExcerpt bytes
	Failure    Failure
	Target     string // which of several: its name, or its place from 1; empty where there is one
	Excerpt    string // start of the answer's body, valid UTF-8; at most MaxExcerpt bytes
}

// MaxExcerpt is how many bytes of an error or an answer are kept.
const MaxExcerpt = 512

// Outcome is the recorded result of a fire.
type Outcome struct {
	Fire // as it was when it ended; Owner is the session that recorded it

	Kind       OutcomeKind
	Reason     Reason
	FinishedMS int64
	UntilMS    int64 // a skip record of a stretch: the last due instant it covers; else DueMS
	Count      int64 // fires it stands for; 1 but for a skip record of a stretch
	Attempts   int32 // made in all
	LatenessMS int64 // first start minus planned instant; 0 where nothing started
	StatusCode int32 // of the last attempt
	DurationMS int64 // of the last attempt

	Failure  Failure // of the last attempt
	Redriven int64   // the series of the latest redrive of it; 0: none. Written by Redrive alone

	// Uncounted: it was skipped without a call, and its timer's max_fires counts calls: recording
	// it lets another be made. Not stored.
	Uncounted bool

	// Serial: the timer lets one fire run at a time: recording it hands the turn on. Not stored.
	Serial bool
	// the fire of a fixed delay that follows it: inserted with it while the timer is active in
	// Epoch and Version. Not stored.
	Next *Fire
}
