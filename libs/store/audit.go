package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Audit has the audit trail: who changed what, and when. S40.
type Audit interface {
	// AuditTrail returns a page of an app's entries, the latest first. The app "" has the changes of
	// the deployment's own keys.
	AuditTrail(ctx context.Context, q AuditQuery) (AuditPage, error)
	// AddAudit adds an entry of the context's actor about what was done for an app without a change
	// of the store, such as a test call. It does nothing without an actor. A repeated call adds
	// another entry.
	AddAudit(ctx context.Context, app string, e AuditEntry) error
	// PurgeAudit removes the entries of changes that are older than the retention. It may be
	// repeated. If very many have expired, it removes a part, and the error is ErrMoreExpired.
	PurgeAudit(ctx context.Context, retention time.Duration) error
}

// AuditDelay is how old an entry is before AuditFeed has it. Entries are numbered before they are
// committed, and a call takes up to 10 s between reading the clock and its commit. So the number of
// an entry of this age was given at least 15 s ago, and each smaller one is committed or never will
// be.
const AuditDelay = 25 * time.Second

// AuditFeed has the entries of all apps in order, for the topic of the audit trail: S41.
type AuditFeed interface {
	// LeaseAuditFeed gives the feed to the caller until the lease ends, with the position from which
	// to go on. ok is false while another caller has it.
	LeaseAuditFeed(ctx context.Context, lease time.Duration) (l AuditLease, ok bool, err error)
	// PendingAudit returns up to limit entries after a position in order of Seq, up to the first
	// that is younger than the delay. One that is dated in the future is as old as the next that is
	// not.
	PendingAudit(
		ctx context.Context, after int64, delay time.Duration, limit int,
	) ([]AuditEntry, error)
	// AckAudit moves the position forward, never back.
	AckAudit(ctx context.Context, seq int64) error
	// ReleaseAuditFeed ends a lease early, unless it has ended.
	ReleaseAuditFeed(ctx context.Context, l AuditLease) error
}

// AuditLease is the right to publish the audit trail for a time.
type AuditLease struct {
	After   int64 // Seq of the last entry that was acknowledged
	UntilMS int64 // by the store's clock
}

// ActorKind tells how an actor is known.
type ActorKind string

// The kinds of actors.
const (
	ActorKey       ActorKind = "key"       // the holder of an API key; ID is the key's public id
	ActorKeyFile   ActorKind = "key_file"  // the holder of a key from a file; ID is the key's app
	ActorGateway   ActorKind = "gateway"   // named by a gateway; ID is what the gateway said
	ActorPerson    ActorKind = "person"    // signed in; ID is that of the identity provider
	ActorToken     ActorKind = "token"     // the holder of a fire's completion token
	ActorAnonymous ActorKind = "anonymous" // keys are off
	ActorSystem    ActorKind = "system"    // Carillon itself; ID is the service
)

// Actor is who asked for a change, and how. It does not change once it is given to the store.
type Actor struct {
	Kind    ActorKind `json:"kind"`
	ID      string    `json:"id,omitempty"`
	Name    string    `json:"name,omitempty"`       // display name of the key or person
	Address string    `json:"address,omitempty"`    // of the client, as the API saw it
	Request string    `json:"request_id,omitempty"` // id of the request
	Job     timer.ID  `json:"job,omitempty"`        // the job that carried out the change, 0: none
}

// Lengths of the parts of an actor, in bytes. The store cuts longer ones.
const (
	MaxActorID      = 255
	MaxActorName    = 255
	MaxActorAddress = 64
	MaxActorRequest = 128
)

type actorKey struct{}

// WithActor makes the changes of a request those of an actor. It is in the context, like the mark of
// a dry run. Calls whose items are those of several requests have it in each item instead.
func WithActor(ctx context.Context, by *Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, by)
}

// ActorOf returns the actor of a request, nil for a call that is nobody's: what Carillon does by
// itself is in no audit trail, unless it says who it is.
func ActorOf(ctx context.Context) *Actor {
	by, _ := ctx.Value(actorKey{}).(*Actor)
	return by
}

// AuditKind is the kind of a changed resource.
type AuditKind string

// The kinds of resources.
const (
	AuditTimer      AuditKind = "timer"       // Resource is its id
	AuditApp        AuditKind = "app"         // Resource is its name
	AuditSettings   AuditKind = "settings"    // Resource is the app's name
	AuditCalendar   AuditKind = "calendar"    // Resource is its name
	AuditAPIKey     AuditKind = "api_key"     // Resource is its public id
	AuditSigningKey AuditKind = "signing_key" // Resource is its id
	AuditBackfill   AuditKind = "backfill"    // Resource is its id
	AuditRedrive    AuditKind = "redrive"     // Resource is its series
	AuditJob        AuditKind = "job"         // Resource is its id
	AuditFire       AuditKind = "fire"        // Resource is its id
	AuditPerson     AuditKind = "person"      // Resource is its id at the identity provider
)

// AuditAction is what was done to a resource.
type AuditAction string

// The actions.
const (
	AuditCreate     AuditAction = "create"
	AuditUpdate     AuditAction = "update"
	AuditDelete     AuditAction = "delete"
	AuditActivate   AuditAction = "activate"
	AuditDeactivate AuditAction = "deactivate"
	AuditPause      AuditAction = "pause"
	AuditResume     AuditAction = "resume"
	AuditRun        AuditAction = "run"
	AuditFreeze     AuditAction = "freeze"
	AuditUnfreeze   AuditAction = "unfreeze"
	AuditCancel     AuditAction = "cancel"
	AuditComplete   AuditAction = "complete"
	AuditTest       AuditAction = "test"         // a test call, which changes nothing
	AuditEndSignIns AuditAction = "end_sessions" // the sessions of a person are ended
)

// AuditEntry is one change of one resource.
type AuditEntry struct {
	Seq  int64 // grows with each entry
	AtMS int64
	App  string
	By   Actor

	Action   AuditAction
	Kind     AuditKind
	Resource string
	Name     string // of a timer

	// BeforeVersion and AfterVersion are the versions of a timer's definition, which the store has
	// for ever: an entry does not copy them. 0: the timer did not exist.
	BeforeVersion, AfterVersion int32
	// Before and After are JSON: a TimerAudit, settings, a calendar, or what else the resource is.
	// They hold no secret. Empty: the resource did not exist, or its definition alone has changed.
	Before, After []byte
}

// AuditQuery selects entries of an app. Empty fields select all.
type AuditQuery struct {
	App      string
	Kind     AuditKind
	Resource string // needs Kind
	Name     string // of a timer
	Action   AuditAction
	Actor    string // ID of the actor
	FromMS   int64  // included
	ToMS     int64  // excluded, 0: no end

	Before    int64 // only entries with a smaller Seq, 0: from the latest on
	ScanLimit int   // at least 1: how many entries to examine
	Limit     int   // at least 1: how many entries to return
}

// AuditPage is a page of the audit trail.
type AuditPage struct {
	Entries []AuditEntry
	Next    int64 // Before for the next page, 0: this is the last page
}

// TimerAudit is what an entry has of a timer besides its definition.
type TimerAudit struct {
	Status  timer.Status `json:"status"`
	Reason  string       `json:"reason,omitempty"`   // of a pause
	UntilMS int64        `json:"until_ms,omitempty"` // when the pause ends, 0: never
}

// AuditRunDetails is what an entry of AuditRun has: the fires that were added.
type AuditRunDetails struct {
	Fires  int      `json:"fires"`
	DueMS  int64    `json:"due_ms"` // of the first
	Series timer.ID `json:"series"`
}

// TestCallAudit is what an entry has of a test call: where it went. It has no credentials.
type TestCallAudit struct {
	Targets []TestedTarget `json:"targets"`
}

// TestedTarget is a target of a test call.
type TestedTarget struct {
	Kind     timer.TargetKind `json:"kind"`
	Endpoint string           `json:"endpoint,omitempty"` // host and port
	Topic    string           `json:"topic,omitempty"`
}

// CompletionAudit is what an entry has of a fire that was completed.
type CompletionAudit struct {
	Status  timer.OutcomeKind `json:"status"` // delivered or failed
	Attempt int32             `json:"attempt"`
}

// AppAudit is what an entry has of an app besides its settings.
type AppAudit struct {
	Frozen bool   `json:"frozen"`
	Reason string `json:"reason,omitempty"`
}

// APIKeyAudit is what an entry has of an API key.
type APIKeyAudit struct {
	Name  string `json:"name,omitempty"`
	Scope string `json:"scope"`
}

// SigningKeyAudit is what an entry has of a signing key.
type SigningKeyAudit struct {
	Kind   string `json:"kind"`
	Public string `json:"public,omitempty"`
}

// PersonAudit is what an entry has of a person whose sessions were ended.
type PersonAudit struct {
	Issuer        string `json:"issuer"`
	EndedBeforeMS int64  `json:"ended_before_ms"`
}

// BackfillAudit is what an entry has of a backfill.
type BackfillAudit struct {
	Timer  timer.ID       `json:"timer"`
	FromMS int64          `json:"from_ms"`
	ToMS   int64          `json:"to_ms"`
	Status BackfillStatus `json:"status"`
}

// RedriveAudit is what an entry has of a redrive: one entry for each page that it redrove.
type RedriveAudit struct {
	Timer    timer.ID `json:"timer,omitempty"` // 0: of all timers
	Outcomes int      `json:"outcomes"`
}

// JobAudit is what an entry has of a job.
type JobAudit struct {
	Action  JobAction       `json:"action"`
	Status  JobStatus       `json:"status"`
	Request json.RawMessage `json:"request,omitempty"`
}
