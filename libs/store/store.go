package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/timer"
)

// MaxBatch is the largest number of rows in one statement. The store splits longer arguments.
const MaxBatch = 500

// Store is the whole contract. A consumer asks only for those of its parts that it uses.
type Store interface {
	TimerStore
	ScheduleStore
	SliceStore
	FireStore
	OutcomeStore
	AppStore
	Sessions
	Server
}

// TimerStore has the timers with their states and definitions.
type TimerStore interface {
	Timers
	Editor
	IdempotencyKeys
	States
	ChangeLog
	TimerDefinitions
	Inactivities
	Searcher
}

// TimerDefinitions has the definitions of timers with their versions.
type TimerDefinitions interface {
	Definitions
	Versions
}

// ScheduleStore has what fires are planned by.
type ScheduleStore interface {
	Calendars
	Backfills
	Expander
	Processes
}

// SliceStore has the minutes and their slices.
type SliceStore interface {
	Minutes
	SliceClaims
	SliceLeases
}

// FireStore has the open fires.
type FireStore interface {
	Fires
	OverdueFires
	Claims
	LateFires
	Admissions
}

// OutcomeStore has the finished fires.
type OutcomeStore interface {
	Recorder
	History
	AppHistory
	Completer
	Redriver
	OutcomeEvents
	OrphanedEvents
	AuditFeed
}

// AppStore has the tenants.
type AppStore interface {
	Apps
	Jobs
	JobRunner
	AppsByID
	SigningKeys
	Callers
	Resealer
	Audit
}

// Callers has what callers of the API are known by.
type Callers interface {
	APIKeys
	SignIns
}

// Server is the store as a whole.
type Server interface {
	Housekeeping
	AllTimers
	// Now returns the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// Ping checks that the store answers and has the schema that this program needs.
	Ping(ctx context.Context) error
	Close() error
}

// Timers creates timers, reads them and sets their status.
//
// Create, SetStatus, Edit and Expand may lose the answer to their commit. They then return an error
// together with the fires that the commit would have created. Such fires are in doubt: the caller
// puts them into the window and dispatches them like committed ones. A fire without a row cannot be
// claimed, and nobody else knows that the fires need an entry in the window.
type Timers interface {
	// Create registers timers in one transaction, each with its own result. It expands items with
	// Activate by plan. Items of one call may share a name: the first one wins. If the database
	// refuses a value of an item, that item alone has the error; the others may then be in several
	// transactions.
	Create(ctx context.Context, items []NewTimer, plan Planner) ([]CreateResult, error)
	// Timer returns one timer. It returns not_found for unknown timers, deleted timers and timers
	// of other apps.
	Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error)
	// List returns an app's timers in order of id.
	List(ctx context.Context, q Query) ([]timer.Timer, error)
	// SetStatus activates, pauses, deactivates and deletes timers in one transaction, each with its
	// own result. It expands a timer that it stops up to now: instants that came due while the
	// timer was active get their fires, which executors then skip.
	SetStatus(ctx context.Context, items []StatusChange, plan Planner) ([]StatusResult, error)
}

// States has the states of timers.
type States interface {
	// States returns the present states of timers, in no order. It leaves out unknown timers.
	States(ctx context.Context, ids []timer.ID) ([]timer.State, error)
}

// AllTimers reads the timers of all apps.
type AllTimers interface {
	// StatesAfter returns up to limit present states of timers with larger ids than after, in order
	// of id. Deleted timers are among them.
	StatesAfter(ctx context.Context, after timer.ID, limit int) ([]timer.State, error)
}

// Definitions has the definitions of timers.
type Definitions interface {
	// Definitions returns versions of definitions, in no order. It leaves out unknown versions. One
	// that cannot be read is [timer.Definition.Unreadable], and hides no other.
	Definitions(ctx context.Context, keys []VersionKey) (map[VersionKey]*timer.Definition, error)
}

// Versions tells which version of a definition a fire belongs to.
type Versions interface {
	// VersionTimes returns when versions came into force, in no order. It leaves out unknown
	// versions. A fire belongs to its version if it is due no later than the next version came into
	// force. A later fire that was not moved to the next version is superseded, whatever was edited
	// since.
	VersionTimes(ctx context.Context, keys []VersionKey) (map[VersionKey]int64, error)
	// VersionAt returns the version of the definition by which to call a fire of the schedule. This
	// is the latest version that came into force before the due instant, if it has the same plan as
	// the fire's version (S20). Otherwise it is the fire's version.
	VersionAt(ctx context.Context, f timer.Fire) (int32, error)
	// Replanning returns those of the fires that the follow-up of an edit has not reached: S33.
	Replanning(ctx context.Context, ids []timer.FireID) ([]timer.FireID, error)
}

// ChangeLog is the log of changes to timers and apps.
type ChangeLog interface {
	// Changes returns up to limit entries of the change log after a sequence, in order. Each has
	// the present state of its timer. State.Exists is false if the timer has no row.
	Changes(ctx context.Context, after int64, limit int) ([]Change, error)
	// LastChange returns the latest sequence of the change log, 0 if the log is empty.
	LastChange(ctx context.Context) (int64, error)
}

// NewTimer is a request for a timer.
type NewTimer struct {
	App, Name      string
	Definition     timer.Definition
	Activate       bool
	IdempotencyKey string // at most MaxIdempotencyKey bytes; empty: no key
	RequestHash    []byte // hash of the request that used the key
	// Origin is stored with the timer. It is no part of its definition and of no comparison with
	// another request.
	Origin string // see timer.Timer
	By     *Actor // who creates it, nil: the actor of the context
}

// CreateResult is the result for a NewTimer.
type CreateResult struct {
	Timer timer.Timer // as stored now
	// Existing is true if an identical timer or the same idempotency key existed before.
	Existing bool
	Fires    []timer.Fire // inserted: put them into the window
	// Err is a conflict if the name has another definition, or if the key was used for another
	// request. It is invalid if the key is too long.
	Err error
}

// StatusChange is a request for a new status.
type StatusChange struct {
	App    string
	ID     timer.ID
	Status timer.Status // active, inactive, paused or deleted

	Reason  string // for StatusPaused
	UntilMS int64  // for StatusPaused: when the pause ends, 0: never

	From      []timer.Status // statuses that allow the change, empty: any
	IfVersion int32          // version that allows the change, 0: any
	By        *Actor         // who changes it, nil: the actor of the context
}

// NameTaken is the error of a create whose name another timer has.
func NameTaken() error {
	return timer.Conflict("name", "a timer of this name exists, with another definition")
}

// IsNameTaken reports whether an error is NameTaken. A create has other conflicts, too.
func IsNameTaken(err error) bool {
	e, ok := errors.AsType[*timer.Error](err)
	return ok && e.Code == timer.CodeConflict && e.Field == "name"
}

// IsVersionConflict reports whether a write was refused because the row has another version than the
// caller has read. Other conflicts stay whatever version is read.
func IsVersionConflict(err error) bool {
	e, ok := errors.AsType[*timer.Error](err)
	return ok && e.Code == timer.CodeConflict && e.Field == "version"
}

// NoCalendar is the error of a create or an edit whose schedule names, as the i-th of its calendars,
// one that the app does not have.
func NoCalendar(i int, name string) *timer.Error {
	return timer.Invalid(
		fmt.Sprintf("schedule.calendars[%d]", i),
		fmt.Sprintf(
			"expected a calendar of this app, found %q, which is none: make it first",
			name,
		),
	)
}

// MaxMeteredTimers is how many timers of a deployment have metrics of their own, see S39. Each is a
// series of every executor.
const MaxMeteredTimers = 1000

// TooManyMetered is the error of a create or an edit that would exceed MaxMeteredTimers. It is no
// conflict, because writes that meet a conflict try again.
func TooManyMetered() error {
	return timer.Invalid("metrics", fmt.Sprintf(
		"expected at most %d timers with metrics in the deployment, found as many: "+
			"turn the metrics of another timer off first, or leave metrics out", MaxMeteredTimers,
	))
}

// Refused returns why the change is not allowed for the timer, or nil. The caller has the timer's
// row locked.
func (c *StatusChange) Refused(t *timer.Timer) error {
	if !c.Status.Known() {
		return timer.Invalid("status", fmt.Sprintf("unknown: %q", c.Status))
	}
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

// Unreadable refuses a change that needs a definition which cannot be read, for the reason why it
// cannot: S44.
func Unreadable(why string) error {
	return &timer.Error{
		Code: timer.CodeConflict,
		Msg: "the stored definition cannot be read: replace it as a whole, or use the release " +
			"that wrote it",
		Err: errors.New(why),
	}
}

// CheckReadable refuses what needs the definition of a timer that cannot be read.
func CheckReadable(t *timer.Timer) error {
	if why := t.Definition.Unreadable; why != "" {
		return Unreadable(why)
	}
	return nil
}

// StatusResult is the result for a StatusChange.
type StatusResult struct {
	Timer timer.Timer // as stored now, also after a conflict; zero if it is not found
	Seq   int64       // sequence in the change log, 0: nothing changed
	Fires []timer.Fire
	Err   error // not_found, or conflict: From or IfVersion did not match, or S44
}

// Query selects timers of an app.
type Query struct {
	App    string
	Status timer.Status // empty: all but deleted ones
	After  timer.ID     // excluded
	Limit  int
}

// VersionKey is the key of a version of a definition.
type VersionKey struct {
	Timer   timer.ID
	Version int32
}

// Change is an entry of the change log.
type Change struct {
	Seq   int64
	AtMS  int64
	State timer.State

	AppID  int64 // not 0: the app changed as a whole, and State is empty
	Frozen bool  // whether the app is frozen
}

// Planner turns a timer's schedule into fires. The store calls it in a transaction that has the
// timer's row locked, so it must be quick and call nothing outside.
//
// t is the timer as it will be written, with its status, epoch, active_since and anchor. nowMS is
// the store's clock. t.NextDueMS need not be a due instant: everything before it is expanded.
//
// The store also plans instants again that are already expanded, to find fires that an edit moves
// or takes back (S20). FiresCreated is then so low that no limit applies. Such a plan is not
// written.
type Planner func(t *timer.Timer, nowMS int64) Plan

// Plan is a part of a timer's expansion.
type Plan struct {
	Fires []timer.Fire // series 0, due at t.NextDueMS or later, with their buckets
	// Skips are misfires that get no fire. Each is a stretch from DueMS to UntilMS with its Count,
	// within the part that was planned.
	Skips      []timer.Outcome
	NextDueMS  int64 // t.NextDueMS or later
	ExpandAtMS int64
	Err        error // the definition cannot be expanded: only ExpandAtMS is written
}

// Unplanned returns a record of misfires for what came due by a schedule up to nowMS and cannot be
// planned: an edit or a pause ends its expansion, and this process does not know its zone, or there
// are too many fires. How many instants it stands for is not known, so it counts one. It is empty if
// no instant is known to have been due, or if the timer is a one-shot, which is due at the next
// activation, or a fixed delay.
func Unplanned(t *timer.Timer, nowMS int64) []timer.Outcome {
	if !t.Definition.Schedule.Kind.Repeats() || AllCreated(t) {
		return nil
	}
	return Missed(t, nowMS)
}

// Missed is like Unplanned for any timer: also for one whose definition cannot be read, and which an
// edit replaces.
func Missed(t *timer.Timer, nowMS int64) []timer.Outcome {
	from := t.NextDueMS
	if from < t.ActiveSinceMS || from > nowMS {
		return nil
	}
	return []timer.Outcome{{
		Fire: timer.Fire{
			FireID:  timer.FireID{Timer: t.ID, DueMS: from},
			RunAtMS: from,
			AppID:   t.AppID,
			Version: t.Version,
			Epoch:   t.ActiveEpoch,
			Owner:   SystemSession,
		},
		Kind:       timer.Skipped,
		Reason:     timer.ReasonMisfired,
		FinishedMS: nowMS,
		UntilMS:    nowMS,
		Count:      1,
	}}
}

// AllCreated reports whether a timer has had all the fires that its max_fires allows.
func AllCreated(t *timer.Timer) bool {
	most := t.Definition.Schedule.MaxFires
	return most > 0 && t.FiresCreated >= most
}

// HasComeDue reports whether a one-shot has come due and a new definition keeps its instant. Its fire
// may have been called, so such an edit plans no other one. open is the number of its fires that are
// due later, or wait for an activation.
func HasComeDue(t *timer.Timer, d timer.Definition, open int) bool {
	return open == 0 && t.NextDueMS == timer.NeverMS &&
		t.Definition.Schedule.SameInstant(&d.Schedule)
}

// NewlyDue reports whether a one-shot for which no fire was planned, because its calendars excluded
// its instant, is due by its calendars as they are now. An instant before undecidedMS stays
// excluded: a calendar that no longer names past holidays must not make what they excluded due at
// once.
func NewlyDue(t *timer.Timer, undecidedMS int64, plan Planner) bool {
	if t.LastDueMS != 0 {
		return false
	}
	probe := *t
	probe.NextDueMS, probe.ActiveSinceMS = 0, 0 // neither moves the instant
	p := plan(&probe, undecidedMS)
	due := p.NextDueMS
	if len(p.Fires) > 0 {
		due = p.Fires[0].DueMS
	}
	return p.Err != nil || due != timer.NeverMS && due >= undecidedMS
}

// DueWork says for which calls of a migrator something is due.
type DueWork struct {
	Timers    bool // for Expander.Expand
	Replans   bool // for Expander.ContinueReplans
	Backfills bool // for Expander.ExpandBackfills
	Jobs      bool // for JobRunner.LeaseJob
}

// Expander turns schedules and backfills into fires.
type Expander interface {
	// Expand takes up to limit active timers that are due for expansion and that no other call has
	// locked. It plans them and inserts their fires. It also activates timers whose pause has
	// ended, which counts and is logged like any activation. It returns the fires, for the window,
	// and the number of timers; fewer than a quarter of limit: no more were due. Fires with an error
	// are in doubt (see [Timers]).
	//
	// Timers whose pause has ended are up to half of those it takes. If more are due, of these and of
	// the others, half are the longest due and half the latest. So neither many pauses that end at
	// once nor a calendar of many timers delays the timers of other apps.
	Expand(ctx context.Context, limit int, plan Planner) (fires []timer.Fire, timers int, err error)
	// ContinueReplans does one page of the follow-up of an edit: S33. It returns the fires, for the
	// window. more is false if no page is due. Fires with an error are in doubt (see [Timers]).
	ContinueReplans(ctx context.Context, plan Planner) (fires []timer.Fire, more bool, err error)
	// ExpandBacklog counts the timers that Expand would take, up to limit. It also returns the
	// earliest expand_at, 0 if there is none.
	ExpandBacklog(ctx context.Context, limit int) (n int, oldestMS int64, err error)
	// DueWork says whether Expand, ContinueReplans, ExpandBackfills and LeaseJob would find work:
	// S43.
	DueWork(ctx context.Context) (DueWork, error)
	// ExpandBackfills takes up to limit running backfills that no other call has locked, and
	// inserts the next fires of each. It cancels those whose timer is deleted, or is a fixed delay by
	// then. Fires with an error are in doubt (see [Timers]).
	ExpandBackfills(
		ctx context.Context,
		limit int,
		plan BackfillPlanner,
	) (fires []timer.Fire, n int, err error)
}

// Minutes counts the buckets of each minute.
type Minutes interface {
	// GrowMinutes adds to the estimates of minutes and raises the bucket counts of those that are
	// not frozen. It commits each minute by itself, and returns the counts that are committed now.
	GrowMinutes(ctx context.Context, grow []slicing.Growth) ([]slicing.MinuteCount, error)
	// MinuteCounts returns the counts of the minutes from..to, both included. A minute without a
	// row has one bucket and is left out.
	MinuteCounts(ctx context.Context, from, to int64) ([]slicing.MinuteCount, error)
}
