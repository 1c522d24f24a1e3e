package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/timer"
)

// MaxBatch is how many rows one statement takes at the most; longer arguments are cut into
// statements by the store.
const MaxBatch = 500

// Store is all of it.
//
//nolint:interfacebloat // the sum of the small ones, for who opens and closes it
type Store interface {
	Timers
	Editor
	IdempotencyKeys
	Apps
	Calendars
	Backfills
	Admissions
	Expander
	Inactivities
	Minutes
	Slices
	Fires
	LateFires
	Sessions
	Outcomes
	Completer
	Redriver
	Tenancy
	OutcomeEvents
	ZoneRules
	Housekeeping
	// Now returns the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// Ping asks whether the store answers, with the schema this program needs.
	Ping(ctx context.Context) error
	Close() error
}

// Timers are the definitions.
//
// Create, SetStatus, Edit and Expand are in doubt where the answer to their commit was lost: they
// return an error together with what the commit would have made. Such fires are brought on their
// way like committed ones: only a fire that has its row can be claimed, and who would mark it later
// does not know of it.
type Timers interface { //nolint:interfacebloat // all that there is to ask of definitions
	// Create registers timers, each with its own result, in one transaction. Items with Activate
	// are expanded by plan. The items of one call may share names: the first wins.
	Create(ctx context.Context, items []NewTimer, plan Planner) ([]CreateResult, error)
	// Timer returns one timer. Error: not_found, also for another app's and for a deleted one.
	Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error)
	// List returns an app's timers in order of id.
	List(ctx context.Context, q Query) ([]timer.Timer, error)
	// SetStatus activates, deactivates and deletes timers, each with its own result, in one
	// transaction. One that is not active any more is expanded up to now: what came due while it
	// was active and was not expanded yet gets its fires, to be skipped.
	SetStatus(ctx context.Context, items []StatusChange, plan Planner) ([]StatusResult, error)
	// States returns what is known of the timers, in no order; one that does not exist is left out.
	States(ctx context.Context, ids []timer.ID) ([]timer.State, error)
	// Definitions returns versions of definitions, in no order; one that does not exist is left
	// out.
	Definitions(ctx context.Context, keys []VersionKey) (map[VersionKey]timer.Definition, error)
	// VersionTimes returns when versions came into force, in no order; one that does not exist is
	// left out. A fire of a version belongs to it if it is due no later than the next version came
	// into force: what is due later and was not moved to that is superseded, whatever was edited
	// since.
	VersionTimes(ctx context.Context, keys []VersionKey) (map[VersionKey]int64, error)
	// VersionAt returns the version by which a fire of its timer's schedule is called: the latest
	// that came into force before its due instant, where that has the plan of the fire's version
	// (S20); else the fire's version.
	VersionAt(ctx context.Context, f timer.Fire) (int32, error)
	// Changes returns the change log behind a sequence, in order, at most limit entries, each with
	// the timer's state as it is now; Exists is false for a timer whose row is gone.
	Changes(ctx context.Context, after int64, limit int) ([]Change, error)
	// LastChange returns the latest sequence of the change log, 0 for an empty one.
	LastChange(ctx context.Context) (int64, error)
}

// NewTimer asks for a timer.
type NewTimer struct {
	App, Name      string
	Definition     timer.Definition
	Activate       bool
	IdempotencyKey string // empty: none
	RequestHash    []byte // of the request behind the key
}

// CreateResult is the result of a NewTimer.
type CreateResult struct {
	Timer timer.Timer // as it is in the store now
	// Existing: an identical one (same definition), or the same idempotency key, was there before.
	Existing bool
	Fires    []timer.Fire // inserted, to be marked
	// Err: conflict: the name is taken by another definition, or the key was used for another
	// request.
	Err error
}

// StatusChange asks for a status.
type StatusChange struct {
	App    string
	ID     timer.ID
	Status timer.Status // StatusActive, StatusInactive, StatusPaused or StatusDeleted

	Reason  string // of StatusPaused
	UntilMS int64  // of StatusPaused: when it is activated again; 0 is never

	From      []timer.Status // refused where the timer's status is none of these; empty: any
	IfVersion int32          // refused where the timer's version is another; 0: any
}

// Refused says why the change must not be made to a timer, as it is with its row locked; nil: it
// may.
func (c *StatusChange) Refused(t *timer.Timer) error {
	if c.IfVersion != 0 && c.IfVersion != t.Version {
		return timer.Conflict(
			"if_version",
			fmt.Sprintf(
				"expected the version of the timer, which is %d, found another: read the timer again",
				t.Version,
			),
		)
	}
	if len(c.From) > 0 && !slices.Contains(c.From, t.Status) {
		return timer.Conflict(
			"",
			fmt.Sprintf("the timer is %s: this needs one that is %s", t.Status, c.From[0]),
		)
	}
	return nil
}

// StatusResult is the result of a StatusChange.
type StatusResult struct {
	Timer timer.Timer // as it is in the store now
	Seq   int64       // its entry in the change log; 0: nothing changed
	Fires []timer.Fire
	Err   error // not_found; conflict: refused by From or IfVersion
}

// Query selects timers of an app.
type Query struct {
	App    string
	Status timer.Status // empty: inactive and active ones
	After  timer.ID     // exclusive
	Limit  int
}

// VersionKey names a version of a definition.
type VersionKey struct {
	Timer   timer.ID
	Version int32
}

// Change is an entry of the change log.
type Change struct {
	Seq   int64
	AtMS  int64
	State timer.State

	AppID  int64 // not 0: the change is one of a whole app, and State is empty
	Frozen bool  // of the app
}

// Planner turns a timer's schedule into fires. It is called inside a transaction with the timer's
// row locked: it must be quick, and call nothing outside. t is as it will be written (status,
// epoch, active_since, anchor set); nowMS is the store's clock. t.NextDueMS need not be a due
// instant: everything before it is expanded. It may be asked again for what is expanded already,
// with FiresCreated so low that no limit is reached, to find the fires that an edit moves or takes
// back (S20): what it answers then is not written.
type Planner func(t *timer.Timer, nowMS int64) Plan

// Plan is a stretch of a timer's expansion.
type Plan struct {
	Fires []timer.Fire // series 0, due from t.NextDueMS on, bucket chosen
	// misfires that get no fire: each a stretch from DueMS to UntilMS with its Count, within the
	// stretch planned.
	Skips      []timer.Outcome
	NextDueMS  int64 // not before t.NextDueMS
	ExpandAtMS int64
	Err        error // the definition cannot be expanded: nothing is written but ExpandAtMS
}

// Expander expands.
type Expander interface {
	// Expand takes up to limit active timers whose time to be expanded has come and that no other
	// call holds, plans them, and inserts their fires; and activates paused ones whose pause has
	// ended, which counts and is logged as any activation. It returns the fires, to be marked, and
	// how many timers it took. Fires with an error are in doubt (see [Timers]).
	Expand(ctx context.Context, limit int, plan Planner) (fires []timer.Fire, timers int, err error)
	// ExpandBacklog returns how many active timers wait for expansion, counting at most limit of
	// them, and the earliest expand_at (0: none).
	ExpandBacklog(ctx context.Context, limit int) (n int, oldestMS int64, err error)
}

// Minutes are the bucket counts.
type Minutes interface {
	// GrowMinutes adds to the estimates of minutes and raises their bucket counts to Buckets where
	// they are not frozen, each minute in an autocommit statement of its own; it returns the counts
	// committed now.
	GrowMinutes(ctx context.Context, grow []slicing.Growth) ([]slicing.MinuteCount, error)
	// MinuteCounts returns the known counts of minutes from..to (inclusive); a minute without row
	// has 1 bucket.
	MinuteCounts(ctx context.Context, from, to int64) ([]slicing.MinuteCount, error)
	// FreezeMinute stops a minute's count and returns it (at least 1).
	FreezeMinute(ctx context.Context, minute int64) (buckets int32, err error)
}
