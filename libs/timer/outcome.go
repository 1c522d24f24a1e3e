package timer

// OutcomeKind is the final result of a fire.
type OutcomeKind string

// The outcomes.
const (
	Delivered OutcomeKind = "delivered" // an attempt succeeded
	// Failed means that the attempts are exhausted, or that no attempt can ever succeed. The fire
	// is dead-lettered.
	Failed  OutcomeKind = "failed"
	Skipped OutcomeKind = "skipped" // not called; Reason says why
)

// Reason is why a fire was skipped or failed.
type Reason string

// The reasons.
const (
	ReasonNone     Reason = ""
	ReasonInactive Reason = "inactive" // the timer was not active when it was due
	ReasonDeleted  Reason = "deleted"  // the timer was deleted
	ReasonPaused   Reason = "paused"   // the timer was paused when it was due
	ReasonFrozen   Reason = "frozen"   // the app was frozen at the time of the fire
	// ReasonMisfired means that the fire was late and the misfire policy skips it.
	ReasonMisfired Reason = "misfired"
	// ReasonSuperseded means that a newer version of the timer or of its calendar does not have this instant.
	ReasonSuperseded Reason = "superseded"
	ReasonOverlap    Reason = "overlap"    // the previous fire had not finished
	ReasonQueueFull  Reason = "queue_full" // the maximum number of fires was already waiting
	// ReasonCancelled means that a later fire replaced it, or that its backfill was cancelled.
	ReasonCancelled Reason = "cancelled"
	ReasonExhausted Reason = "exhausted" // the last attempt failed
	ReasonRejected  Reason = "rejected"  // the target cannot be called, by its definition or for lack of rights
)

// Attempt is one callback call.
type Attempt struct {
	FireID

	N          int32 // from 1
	StartMS    int64
	DurationMS int64
	StatusCode int32  // protocol status; 0 if there was no response
	Error      string // one line; empty on success; at most MaxExcerpt bytes
	Failure    Failure
	Target     string // name or position (from 1) of one of several targets; else empty
	Excerpt    string // start of the response body, valid UTF-8; at most MaxExcerpt bytes
}

// EndMS returns when the attempt ended.
func (a *Attempt) EndMS() int64 { return a.StartMS + a.DurationMS }

// MaxExcerpt is how many bytes of an error or a response are kept.
const MaxExcerpt = 512

// Outcome is the recorded result of a fire.
type Outcome struct {
	Fire // its final state; Owner is the session that recorded it

	Kind       OutcomeKind
	Reason     Reason
	FinishedMS int64
	UntilMS    int64 // the last due instant of a skip record for a period; else DueMS
	Count      int64 // number of fires; 1 except in a skip record for a period
	Attempts   int32 // attempts in total
	LatenessMS int64 // first attempt, sent or not, minus planned instant; 0: none
	StatusCode int32 // of the last attempt
	DurationMS int64 // of the last attempt

	Failure  Failure // of the last attempt
	Redriven int64   // series of its latest redrive; 0 means none. Only Redrive writes it
	Hops     Hops    // the way of the fire to this outcome

	// Uncounted means that the fire was skipped without a call while max_fires counts calls.
	// Recording it permits another fire. Not stored.
	Uncounted bool

	// Serial means that the timer runs one fire at a time. Recording the outcome frees the slot for
	// the next fire. Not stored.
	Serial bool
	// Next is the next fire of a fixed delay. It is inserted with this outcome if the timer is
	// still active in Epoch and Version. Not stored.
	Next *Fire
}
