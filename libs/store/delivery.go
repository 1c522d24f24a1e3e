package store

import (
	"cmp"
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Completer finishes fires that their receivers accepted for asynchronous work.
type Completer interface {
	// Complete finishes a fire in state accepted, at the given attempt, as delivered. If c.Failed
	// is set, it releases the fire instead, to run now, in state async failed, with c.Failed as the
	// record of its last attempt. An executor then decides about the next attempt: S25.
	//
	// Fires with an error are in doubt, as with Record. Repeated after an unknown result, it
	// returns CompletionRepeated with those fires that nobody has claimed since. Error: not_found
	// (unknown timer or fire of the app).
	Complete(ctx context.Context, app string, c Completion) (CompletionResult, error)
}

// Completion is a receiver's result for a fire that it accepted.
type Completion struct {
	timer.FireID

	Attempt int32
	// Target is timer.TargetCompletes of the one of several targets that asks, which counts only if it
	// accepted the attempt; 0: there is one target.
	Target timer.TargetBits
	Failed *timer.Attempt // nil: the fire was delivered
	// FinishedMS is the end by the caller's clock, from which Next counts; 0 is now. The store
	// records it unless it is far from its own clock, or before the end of the attempt.
	FinishedMS int64
	// Next is the successor of a fixed delay if the fire was delivered, as in Outcome: S24.
	Next *timer.Fire
	Name string // of the timer, for the audit trail
}

// CompletionResult is the result for a Completion.
type CompletionResult struct {
	State CompletionState
	// Fires are to be dispatched: the fire itself if it failed, and those started by its outcome
	// (S22, S24).
	Fires []timer.Fire
}

// CompletionState tells whether a Completion counted.
type CompletionState uint8

// The states of completions.
const (
	CompletionAccepted CompletionState = iota
	// CompletionRepeated means that the same attempt was completed before, with the same result.
	CompletionRepeated
	CompletionTooEarly // the attempt is not recorded as accepted yet: try again soon
	// CompletionTooLate means that the fire is finished or at another attempt, or that another target
	// accepted it.
	CompletionTooLate
)

// Redriver lists dead letters and creates their fires anew. A dead letter is a fire that failed for
// good: an outcome of kind failed. The store alone decides which there are and which are redriven.
type Redriver interface {
	// DeadLetters returns a page of dead letters, earliest finish first, at most MaxBatch. It
	// leaves out deleted timers, and fires that were redriven before unless q.IncludeRedriven, or
	// unless q.Series redrove them. It examines a bounded number of failed fires, because few of them
	// may match. A page that ends early has a Next, too. Error: not_found (unknown timer or fire).
	DeadLetters(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error)
	// Redrive selects as DeadLetters does. For each dead letter it inserts a fire of series
	// q.Series, with cause redrive, the timer's present version and run_at now, and writes the
	// series to the outcome.
	//
	// A page is one transaction: it happens as a whole or not at all. Of two calls at once, one
	// redrives an outcome and the other leaves it out. Repeated with the same series, Redrive
	// creates no fire twice. It never selects the fires that its series created, which may have
	// failed before the next page. Errors: not_found (unknown timer or fire); conflict for new
	// fires while the app is frozen.
	Redrive(ctx context.Context, q DeadLetterQuery) (RedriveResult, error)
}

// DeadLetterQuery selects failed fires of an app. Empty fields select all. A caller that reads page
// by page sets After to the Next of the page before. A page that is repeated with its series is the
// same page.
type DeadLetterQuery struct {
	App             string
	Timer           timer.ID
	Fires           []timer.FireID
	FromMS          int64 // due, included
	ToMS            int64 // due, excluded, 0: no end
	Failure         timer.Failure
	IncludeRedriven bool
	// Series is that of a redrive. Fires that it has redriven are selected, too; fires that it
	// created are not. 0: none.
	Series timer.ID
	// BegunMS is when the series began, for a repetition: of what the series has not redriven, only
	// fires that finished by then are selected. 0: all.
	BegunMS int64
	After   OutcomePosition // excluded: where the page before ended, zero: begin
	// ScanLimit is how many failed fires of the app a page examines, unless Fires names them. 0:
	// MaxDeadLetterScan, which is the most.
	ScanLimit int
	Limit     int // of fires on a page, 0: MaxBatch, which is the most
}

// MaxDeadLetterScan is how many failed fires a page of dead letters examines at most.
const MaxDeadLetterScan = 10_000

// SetLimits replaces limits that are not set, or too high.
func (q *DeadLetterQuery) SetLimits() {
	if q.ScanLimit <= 0 || q.ScanLimit > MaxDeadLetterScan {
		q.ScanLimit = MaxDeadLetterScan
	}
	if q.Limit <= 0 || q.Limit > MaxBatch {
		q.Limit = MaxBatch
	}
}

// DeadLetterPage is a page of dead letters.
type DeadLetterPage struct {
	DeadLetters []DeadLetter
	Next        OutcomePosition // After for the next page, zero: this is the last page
}

// DeadLetter is a fire that failed for good.
type DeadLetter struct {
	timer.Outcome

	LastError string // as LastErrors returns it; empty: no attempt has a text
}

// RedriveResult is a page of a redrive.
type RedriveResult struct {
	Outcomes []timer.Outcome // selected
	Fires    []timer.Fire    // inserted: dispatch them
	// Next is After for the next page, zero: this is the last page. It counts what another call took
	// meanwhile, so the page may be empty and have a Next.
	Next OutcomePosition
}

// AppSettings are the limits of an app that executors apply. They are replaced as a whole. The
// change log has an entry for each change (like S21).
type AppSettings struct {
	// Rate is how many calls may start per second, over all executors; 0: no limit.
	Rate  float64 `json:"rate,omitempty"`
	Burst int     `json:"burst,omitempty"` // see package limit
	// Concurrent is how many calls may be active at once, over all executors; 0: no limit.
	Concurrent int      `json:"concurrent,omitempty"`
	Allow      []string `json:"allow,omitempty"` // egress rules that add to the deployment's
}

// SigningKeys has the keys that sign the callbacks of apps.
type SigningKeys interface {
	// SigningKeys returns an app's signing keys, newest first, without retired ones.
	SigningKeys(ctx context.Context, app string) ([]SigningKey, error)
	// AddSigningKey adds a key and logs the change. A third key of a kind is a conflict. A key id
	// that the app has already changes nothing, so the call may be repeated.
	AddSigningKey(ctx context.Context, app string, k SigningKey) error
	// RetireSigningKey removes a key. It creates no app. Error: not_found.
	RetireSigningKey(ctx context.Context, app string, id timer.ID) error
}

// APIKeys has the API keys of apps.
type APIKeys interface {
	// APIKey returns a key by its public id, also a key for all apps. Error: not_found.
	APIKey(ctx context.Context, id string) (APIKey, error)
	// APIKeys returns the keys of an app, newest first, without revoked ones. The keys of the app
	// "" are valid for all apps.
	APIKeys(ctx context.Context, app string) ([]APIKey, error)
	// AddAPIKey adds a key and logs the change. A third key of a scope in an app is a conflict. A
	// key id that exists already changes nothing, as with AddSigningKey.
	AddAPIKey(ctx context.Context, k APIKey) error
	// RevokeAPIKey revokes a key for ever and logs the change. It may be repeated. Error:
	// not_found.
	RevokeAPIKey(ctx context.Context, app, id string) error
}

// Resealer re-encrypts the secrets of definitions and the signing keys.
type Resealer interface {
	// SealedVersions returns up to limit definitions that contain encrypted text, after a key and
	// in order of keys, for re-encryption. It also returns the last key that it reached, or after
	// at the end. One that this release cannot read whole, and that may contain encrypted text, has
	// Unreadable only.
	SealedVersions(
		ctx context.Context,
		after VersionKey,
		limit int,
	) (map[VersionKey]*timer.Definition, VersionKey, error)
	// Reseal writes the re-encrypted form of a version and its new hash: S27. Only encrypted text
	// may differ. Errors: not_found, invalid.
	Reseal(ctx context.Context, k VersionKey, d timer.Definition) error
	// AllSigningKeys returns up to limit signing keys of all apps after an id, in order of id.
	// ResealSigningKey writes the re-encrypted secret of one. Error: not_found.
	AllSigningKeys(ctx context.Context, after timer.ID, limit int) ([]SigningKey, error)
	ResealSigningKey(ctx context.Context, k SigningKey) error
}

// SigningKey is a secret that signs callbacks.
type SigningKey struct {
	ID        timer.ID
	App       string
	Kind      string // "hmac" or "ed25519"
	Secret    timer.Sealed
	Public    string // for ed25519: the whpk_ text
	CreatedMS int64
}

// APIKey is the stored form of an API key.
type APIKey struct {
	ID        string // public part of the key
	App       string // empty: all apps
	Name      string // display name
	Scope     string
	Hash      []byte
	CreatedMS int64
	RevokedMS int64 // 0: not revoked
}

// SystemSession is the session of outcomes that the store records itself: skipped stretches,
// completions and cancelled backfills. It is never alive, and has an acked position like every
// session.
const SystemSession timer.ID = 1

// VisibilityDelay is how long after its FinishedMS an outcome of SystemSession becomes visible to
// PendingEvents. Before that, an outcome with an earlier FinishedMS may still be committed: a call
// sends its commit up to 10 s after it read the clock. How long a commit takes that stalls in the
// database is not bounded: see Heartbeater.Written in libs/session.
const VisibilityDelay = 15 * time.Second

// OutcomeEvents is the outbox of outcome events: S26. A read costs as many rows as all sessions
// have recorded after the position. A caller that finds nothing therefore still advances its
// position, to an instant before which it records no more.
type OutcomeEvents interface {
	// PendingEvents returns up to limit outcomes of a session after a position, in order of
	// (finished, timer, due, series), that finished before untilMS. It returns outcomes of the last
	// hour only, and those of SystemSession only after VisibilityDelay.
	PendingEvents(
		ctx context.Context,
		session timer.ID,
		after OutcomePosition,
		untilMS int64,
		limit int,
	) ([]timer.Outcome, error)
	// TargetAttempts returns the attempts of finished fires that had several targets, in order for
	// each fire, without error texts and excerpts.
	TargetAttempts(ctx context.Context, fires []timer.FireID) ([]timer.Attempt, error)
	// LastErrors returns the last error text of each finished fire that has one. Of several targets,
	// those that took the fire in the end have none.
	LastErrors(ctx context.Context, fires []timer.FireID) (map[timer.FireID]string, error)
	// AckEvents stores the position up to which a session's outcomes are published. It never moves
	// back, unless a clock that was ahead has set that of SystemSession later than now. In a cluster
	// that means by more than a minute.
	AckEvents(ctx context.Context, session timer.ID, p OutcomePosition) error
}

// OrphanedEvents is the outbox of sessions that ended.
type OrphanedEvents interface {
	// SessionsWithPendingEvents returns the executor sessions that ended within the last hour and
	// may have unpublished outcomes, and SystemSession, with their positions. A position is no
	// earlier than a minute before the session began. That of SystemSession is the first one if a
	// clock that was ahead has set it, as in AckEvents.
	//
	// FinishEvents takes a session off the list. Outcomes that were under way when the session
	// ended may still be committed for the duration of a call, so nobody may take it off earlier.
	SessionsWithPendingEvents(ctx context.Context) (map[timer.ID]OutcomePosition, error)
	FinishEvents(ctx context.Context, session timer.ID) error
}

// OutcomePosition is a place in the order of outcomes.
type OutcomePosition struct {
	FinishedMS int64
	timer.FireID
}

// Before reports whether the position comes before another one, in the order of PendingEvents.
func (p OutcomePosition) Before(o OutcomePosition) bool {
	return cmp.Or(
		cmp.Compare(p.FinishedMS, o.FinishedMS), cmp.Compare(p.Timer, o.Timer),
		cmp.Compare(p.DueMS, o.DueMS), cmp.Compare(p.Series, o.Series),
	) < 0
}
