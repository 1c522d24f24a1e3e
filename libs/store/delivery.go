package store

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Completer ends fires that their receivers accepted.
type Completer interface {
	// Complete ends a fire that waits in state accepted, after that attempt, as delivered; or,
	// where c.Failed is set, gives it back for dispatch, due now, in state retrying with c.Failed
	// as its last attempt's record, for the executor to decide about the next: S25.
	//
	// Where an error comes with fires, they are in doubt, as with Record. Repeated after an unknown
	// result it answers CompletionRepeated, with those fires that nobody has claimed since. Error:
	// not_found (no such timer of the app, no such fire).
	Complete(ctx context.Context, app string, c Completion) (CompletionResult, error)
}

// Completion is what a receiver said of a fire that it had accepted.
type Completion struct {
	timer.FireID

	Attempt int32
	Failed  *timer.Attempt // nil: delivered
	// FinishedMS: when, by the caller's clock: what Next counts from. Recorded, unless it is far
	// from the store's clock; 0: now.
	FinishedMS int64
	// where it is delivered: the fire of a fixed delay that follows, as in Outcome: S24.
	Next *timer.Fire
}

// CompletionResult is the result of a Completion.
type CompletionResult struct {
	State CompletionState
	// to be dispatched: the fire itself where it failed, and what its outcome set off (S22, S24).
	Fires []timer.Fire
}

// CompletionState says what a Completion met.
type CompletionState uint8

// The states.
const (
	CompletionAccepted CompletionState = iota
	// CompletionRepeated: it had been completed by the same attempt before: a repeated call.
	CompletionRepeated
	CompletionTooEarly // the attempt is not recorded as accepted yet: repeat in a moment
	// CompletionTooLate: the fire is over, or at another attempt. Also where there is no such fire of
	// the app: not_found is Error's.
	CompletionTooLate
)

// Redriver makes failed fires again.
type Redriver interface {
	// Redrive selects failed outcomes and, unless dry, inserts for each a fire of the series given,
	// cause redrive, to run now, with the timer's present version, and notes the series in the
	// outcome, in one transaction; at most MaxBatch at a time, oldest finish first. Those of
	// deleted timers, and those redriven before (unless q.Again), are left out. Repeated with the
	// same series it makes none twice. Error: not_found (a timer or fire that is named).
	Redrive(
		ctx context.Context,
		q RedriveQuery,
		series timer.ID,
		dryRun bool,
	) (RedriveResult, error)
	// RedrivenAmong returns those of the fires whose outcome is failed and redriven, or another
	// than failed, or that are gone: their dead letters can be acknowledged. Not the open ones.
	RedrivenAmong(ctx context.Context, ids []timer.FireID) ([]timer.FireID, error)
}

// RedriveQuery selects failed fires of an app. Empty fields select all. A caller who goes on page
// by page gives After: a page repeated with its series is the same page again.
type RedriveQuery struct {
	App             string
	Timer           timer.ID
	Fires           []timer.FireID
	FromMS          int64 // due, included
	ToMS            int64 // due, not included; 0: no end
	Failure         timer.Failure
	IncludeRedriven bool
	After           timer.FireID // exclusive: goes on behind the last of a page
	AfterFinishedMS int64        // FinishedMS of After
	Limit           int
}

// RedriveResult is a page of a redrive.
type RedriveResult struct {
	Outcomes []timer.Outcome // that were selected
	Fires    []timer.Fire    // inserted, to be dispatched; empty when dry
	More     bool
}

// AppSettings are what executors obey of an app. They are replaced as a whole; each change is in
// the change log (like S21).
type AppSettings struct {
	// calls started per second over all executors; 0: no limit.
	Rate  float64 `json:"rate,omitempty"`
	Burst int     `json:"burst,omitempty"` // see package limit
	// calls at once over all executors; 0: no limit.
	Concurrent int      `json:"concurrent,omitempty"`
	Allow      []string `json:"allow,omitempty"` // egress rules that add to the deployment's
}

// Tenancy is what belongs to an app as a whole.
//
//nolint:interfacebloat // settings, two kinds of keys and their resealing: what an app is besides its timers
type Tenancy interface {
	// PutSettings replaces an app's settings, making the app if it is not there, and counts its
	// version. version 0: whatever is there; else a conflict where it is another. Settings that are
	// there already are left as they are, whatever the version: so it may be repeated.
	PutSettings(ctx context.Context, app string, s AppSettings, version int64) (App, error)
	// AppsByID returns apps as they are now, in no order.
	AppsByID(ctx context.Context, ids []int64) ([]App, error)

	// SigningKeys returns an app's signing keys, the newest first, retired ones not.
	SigningKeys(ctx context.Context, app string) ([]SigningKey, error)
	// AddSigningKey adds a key. At most two of a kind live at once: conflict. It logs the change.
	// An id that the app has already is left alone: so it may be repeated.
	AddSigningKey(ctx context.Context, app string, k SigningKey) error
	// RetireSigningKey removes one. Error: not_found.
	RetireSigningKey(ctx context.Context, app string, id timer.ID) error

	// APIKey returns a key by its public id, also of no app (the deployment's own). Error:
	// not_found.
	APIKey(ctx context.Context, id string) (APIKey, error)
	// APIKeys returns the keys of an app ("" are the deployment's), the newest first, revoked ones
	// not.
	APIKeys(ctx context.Context, app string) ([]APIKey, error)
	// AddAPIKey adds a key, and logs the change. At most two of a scope live at once in an app:
	// conflict. An id that is there already: as AddSigningKey.
	AddAPIKey(ctx context.Context, k APIKey) error
	// RevokeAPIKey ends one, for ever, and logs the change. Repeating it is harmless. Error:
	// not_found.
	RevokeAPIKey(ctx context.Context, app, id string) error

	// SealedVersions walks what is sealed, for a new encryption key: definitions that hold sealed
	// text, behind a position, in order, at most limit, and the position of the last; where there
	// are none left, after.
	SealedVersions(
		ctx context.Context,
		after VersionKey,
		limit int,
	) (map[VersionKey]timer.Definition, VersionKey, error)
	// Reseal writes the resealed form of a version, and its hash by that: S27. Nothing but sealed
	// text may differ. Errors: not_found, invalid.
	Reseal(ctx context.Context, k VersionKey, d timer.Definition) error
	// AllSigningKeys walks the signing keys of all apps in order of id, behind an id (exclusive).
	// ResealSigningKey writes the secret of one. Error: not_found.
	AllSigningKeys(ctx context.Context, after timer.ID, limit int) ([]SigningKey, error)
	ResealSigningKey(ctx context.Context, k SigningKey) error
}

// SigningKey is a secret by which callbacks are signed.
type SigningKey struct {
	ID        timer.ID
	App       string
	Kind      string // "hmac" or "ed25519"
	Secret    timer.Sealed
	Public    string // of ed25519: the whpk_ text
	CreatedMS int64
}

// APIKey is what is stored of an API key.
type APIKey struct {
	ID        string // public part
	App       string // empty: every app's
	Name      string // for people
	Scope     string
	Hash      []byte
	CreatedMS int64
	RevokedMS int64 // 0: lives
}

// SystemSession stands for no session: outcomes that the store wrote by itself (a skipped stretch,
// a completion, a cancelled backfill) carry it. It always is among the silent ones, and its
// position is kept like a session's.
const SystemSession timer.ID = 1

// VisibilityDelay is how long after its FinishedMS an outcome of SystemSession can be announced:
// until then one with an earlier FinishedMS may still be committed, for a call takes up to 10 s
// between the reading of the clock and its commit.
const VisibilityDelay = 15 * time.Second

// OutcomeEvents are outcomes on their way to the outcomes topic: S26. Reading costs as many rows as
// all sessions have recorded behind the position: whoever finds nothing moves its position on all
// the same, to an instant before which it has nothing more to record.
type OutcomeEvents interface {
	// PendingEvents returns outcomes that a session recorded, behind a position in order of
	// (finished, timer, due, series), that finished before untilMS, at most limit; only those of
	// the last hour, and of SystemSession only those that are Settled.
	PendingEvents(
		ctx context.Context,
		session timer.ID,
		after OutcomePosition,
		untilMS int64,
		limit int,
	) ([]timer.Outcome, error)
	// TargetAttempts returns those attempts of finished fires that name one of several targets, of
	// each fire in order, without their texts.
	TargetAttempts(ctx context.Context, fires []timer.FireID) ([]timer.Attempt, error)
	// AckEvents notes up to where a session's outcomes are published. It never goes back.
	AckEvents(ctx context.Context, session timer.ID, p OutcomePosition) error
	// SessionsWithPendingEvents returns executors' sessions that ended within the last hour and
	// whose outcomes are perhaps not all published, with their positions, which are no earlier than
	// a minute before they began; FinishEvents takes one off the list. What a session had under way
	// when it ended may be committed for as long as a call lasts: it is taken off no earlier than
	// that. SystemSession stays on the list.
	SessionsWithPendingEvents(ctx context.Context) (map[timer.ID]OutcomePosition, error)
	FinishEvents(ctx context.Context, session timer.ID) error
}

// OutcomePosition is a place among outcomes.
type OutcomePosition struct {
	FinishedMS int64
	timer.FireID
}
