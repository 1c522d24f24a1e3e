package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Editor changes existing timers. Fires that Edit returns with an error are in doubt (see
// [Timers]).
type Editor interface {
	// TimerByName returns a timer of an app that is not deleted. Error: not_found.
	TimerByName(ctx context.Context, app, name string) (timer.Timer, error)
	// Edit gives timers new definitions in one transaction, each with its own result, and logs the
	// changes. An edit whose definition has the same hash makes no version. See S19 and S20.
	Edit(ctx context.Context, items []Edit, plan Planner) ([]EditResult, error)
	// AddFires inserts fires of a series other than 0 for a timer, active or not, with its present
	// version, epoch and priority. A fire that exists, open or finished, changes nothing, so the
	// call may be repeated. Errors: not_found; conflict for new fires while the app is frozen.
	AddFires(
		ctx context.Context,
		app string,
		id timer.ID,
		fires []timer.Fire,
	) (inserted []timer.Fire, err error)
}

// Edit is a request for a new version.
type Edit struct {
	App        string
	ID         timer.ID
	IfVersion  int32 // the version that must be present, 0: any
	Definition timer.Definition
	Deactivate bool   // makes the timer inactive in the same transaction, before the edit
	By         *Actor // who edits, nil: the actor of the context
	// Check may refuse the edit; nil: nothing does. It gets the timer as it is, with its row
	// locked, and the store's clock. With an error, which is the result, nothing of the edit is
	// written. It may be called again for another try of the transaction, and not at all if the
	// definition is the same.
	Check func(t *timer.Timer, nowMS int64) error
}

// Checked returns why Check refuses the edit, or nil.
func (e *Edit) Checked(t *timer.Timer, nowMS int64) error {
	if e.Check == nil {
		return nil
	}
	return e.Check(t, nowMS)
}

// Deactivation returns the change of status that an edit makes, and whether it makes one.
func (e *Edit) Deactivation(t *timer.Timer) (StatusChange, bool) {
	c := StatusChange{App: e.App, ID: e.ID, Status: timer.StatusInactive, By: e.By}
	return c, e.Deactivate && t.Status != timer.StatusInactive
}

// EditResult is the result for an Edit.
type EditResult struct {
	Timer timer.Timer  // as stored now
	Seq   int64        // sequence in the change log, 0: nothing changed
	Fires []timer.Fire // inserted, or moved to another run_at: put them into the window
	Err   error        // not_found, or conflict: another version, or S44
}

// MovesOneShot reports whether an edit keeps a timer a one-shot. Of its old and its new instant
// then only one is called. What a one-shot came due for by now is called if it becomes recurring.
func MovesOneShot(t *timer.Timer, d *timer.Definition) bool {
	return t.Definition.Schedule.Kind.OneShot() && d.Schedule.Kind.OneShot()
}

// KeepsDelay reports whether an edit of a fixed delay leaves its next instant as it is. A chain
// that began anew with each such edit, say of the jitter, would never be due with frequent ones.
func KeepsDelay(t *timer.Timer, d *timer.Definition) bool {
	was, is := &t.Definition.Schedule, &d.Schedule
	sameStart := was.StartAt == is.StartAt ||
		was.StartAt != nil && is.StartAt != nil && was.StartAt.Equal(*is.StartAt)
	return t.Status == timer.StatusActive && was.Kind == timer.KindFixedDelay &&
		is.Kind == timer.KindFixedDelay && was.Every == is.Every && sameStart && was.Zone == is.Zone &&
		was.Excluded == is.Excluded && slices.Equal(was.Calendars, is.Calendars)
}

// DelayBefore returns from when a plan of a fixed delay has its fire ahead again. After a change of
// its calendars these may no longer move it far beyond its delay, which then counts from now.
func DelayBefore(t *timer.Timer, aheadMS, nowMS int64, changed bool) (nextDueMS int64) {
	from := aheadMS - time.Duration(t.Definition.Schedule.Every).Milliseconds()
	if changed {
		from = min(from, nowMS)
	}
	return from + 1
}

// RefuseMove returns why a one-shot cannot be moved away from its open fire, or nil. due is whether
// the fire has come due while the timer was active: then one that had an attempt stays, too.
func RefuseMove(f *timer.Fire, due bool) error {
	at := time.UnixMilli(f.RunAtMS).UTC().Format(time.RFC3339Nano)
	why := ""
	switch {
	case f.Owner != 0:
		why = "an executor has claimed its fire and calls it at " + at + " by the old definition"
	case !due:
	case f.State == timer.FireAccepted:
		why = "its fire was called, and waits for its receiver to complete it"
	case f.Attempt > 0:
		why = fmt.Sprintf(
			"its fire is being called: attempt %d is to be made at %s", f.Attempt+1, at,
		)
	}
	if why == "" {
		return nil
	}
	return timer.Conflict("", why+": create another timer instead")
}

// Superseded returns the outcome of a fire that the store ends as an edit has replaced it.
func Superseded(f timer.Fire, nowMS int64) timer.Outcome {
	hops := f.Hops(nowMS)
	f.Owner = SystemSession
	return timer.Outcome{
		Fire:       f,
		Kind:       timer.Skipped,
		Reason:     timer.ReasonSuperseded,
		FinishedMS: nowMS,
		UntilMS:    f.DueMS,
		Count:      1,
		Attempts:   f.Attempt,
		LatenessMS: f.FirstLatenessMS,
		Hops:       hops,
	}
}

// Apps are the tenants.
type Apps interface {
	// App returns an app. Error: not_found.
	App(ctx context.Context, name string) (App, error)
	// ListApps returns up to limit apps after a name, in order of name, byte by byte. The app "",
	// which owns the keys of the deployment, is not among them.
	ListApps(ctx context.Context, after string, limit int) ([]App, error)
	// SetFrozen freezes or unfreezes an app, and logs the change: S21. Error: not_found. A freeze
	// creates no app: under a mistyped name it would look like success.
	SetFrozen(ctx context.Context, name string, frozen bool, reason string) (App, error)
	// PutSettings replaces an app's settings, creating the app if it is missing, and adds 1 to
	// their version. It returns a conflict if version is neither 0 nor the present one. Settings
	// that are equal to the present ones change nothing, whatever the version, so the call may be
	// repeated.
	PutSettings(ctx context.Context, app string, s AppSettings, version int64) (App, error)
}

// AppsByID finds apps by id.
type AppsByID interface {
	// AppsByID returns the present apps, in no order.
	AppsByID(ctx context.Context, ids []int64) ([]App, error)
}

// App is a tenant.
type App struct {
	ID       int64
	Name     string
	Frozen   bool
	Reason   string // of the freeze
	FrozenMS int64  // when the freeze began

	Settings AppSettings
	Version  int64    // of Settings
	Deleting timer.ID // the running job that deletes the app, 0: none
}

// IfAbsent is the version of a calendar that does not exist.
const IfAbsent = -1

// Calendars has the named calendars of apps.
type Calendars interface {
	// PutCalendar creates or replaces a calendar and returns it with its version, from 1. The next
	// calls of Expand replan the timers that name it (S20). The content that it has already changes
	// nothing: there is no new version and no replan. It returns a conflict if ifVersion is not the
	// present version; 0 stands for any version, IfAbsent for none.
	PutCalendar(
		ctx context.Context,
		app string,
		c timer.Calendar,
		ifVersion int64,
	) (CalendarVersion, error)
	// Calendar returns a calendar. Error: not_found.
	Calendar(ctx context.Context, app, name string) (CalendarVersion, error)
	// Calendars returns up to limit calendars of an app after a name, in order of name.
	Calendars(ctx context.Context, app, after string, limit int) ([]CalendarVersion, error)
	// TimersOfCalendar returns up to limit timers with larger ids than after that name a calendar, in
	// order of id, without deleted ones. It returns none for an unknown calendar.
	TimersOfCalendar(
		ctx context.Context,
		app, name string,
		after timer.ID,
		limit int,
	) ([]timer.ID, error)
	// DeleteCalendar deletes a calendar that no timer names; deleted timers do not count. Errors:
	// not_found; conflict, which contains the name of a timer.
	DeleteCalendar(ctx context.Context, app, name string) error
}

// CalendarVersion is a stored calendar.
type CalendarVersion struct {
	timer.Calendar

	Version   int64
	UpdatedMS int64
}

// Backfills creates the fires of past ranges, each range in a series of its own.
type Backfills interface {
	// StartBackfill begins a backfill. The caller takes its id from timer.IDs. The id is the series
	// of its fires, too. Repeating it changes nothing. Errors: not_found; conflict for a new one
	// while the app is frozen.
	StartBackfill(ctx context.Context, b Backfill) (Backfill, error)
	// Backfill returns a backfill. Error: not_found.
	Backfill(ctx context.Context, app string, id timer.ID) (Backfill, error)
	// CancelBackfill ends a backfill: it creates no more fires, and its unclaimed fires are
	// recorded as skipped (cancelled). Executors end the claimed ones when they see the status,
	// before each call. Repeating it continues. A backfill in status done becomes cancelled only if
	// a fire of it is open.
	CancelBackfill(ctx context.Context, app string, id timer.ID) (Backfill, error)
}

// MaxBackfillFires is how many fires a backfill creates. A range has no more when it is requested, but
// an edit or another calendar may give it more.
const MaxBackfillFires = 100_000

// Backfill is a request for the fires of a past range.
type Backfill struct {
	ID           timer.ID
	App          string
	Timer        timer.ID
	FromMS       int64 // included
	ToMS         int64 // excluded
	NextMS       int64 // every due instant before it has its fire
	FiresCreated int64
	Status       BackfillStatus
	CreatedMS    int64
}

// BackfillStatus is the status of a backfill.
type BackfillStatus string

// The statuses of backfills.
const (
	BackfillRunning   BackfillStatus = "running"
	BackfillDone      BackfillStatus = "done" // before ToMS, if MaxBackfillFires are created
	BackfillCancelled BackfillStatus = "cancelled"
)

// BackfillPlanner plans the next fires of a backfill: series b.ID, due at b.NextMS or later, run_at
// now. It returns them with the new NextMS. The backfill is done when that reaches b.ToMS, or with
// the first plan after which it has MaxBackfillFires. The store calls it like a [Planner].
type BackfillPlanner func(t *timer.Timer, b *Backfill, nowMS int64) (fires []timer.Fire, nextMS int64, err error)

// Admissions decides, at the moment of a call, whether the other fires of the timer allow it. Both
// methods lock the timers' rows in order of id.
type Admissions interface {
	// AcquireSlots requests the concurrency slot for fires that the session owns, of timers whose
	// concurrency is not allow: S22. Error: invalid (an unknown policy), and nothing is changed.
	AcquireSlots(
		ctx context.Context,
		session timer.ID,
		requests []SlotRequest,
	) ([]SlotResult, error)
	// CatchUp decides which of several misfired fires of a timer runs: S23. The answers are in the
	// order of the requests.
	CatchUp(ctx context.Context, requests []CatchUpRequest) (run []bool, err error)
}

// FrozenConflict returns the error for new fires while their app is frozen.
func FrozenConflict(app string) error {
	return timer.Conflict("", "the app "+app+" is frozen: unfreeze it first")
}

// NoSuchApp returns the error of a request for an app that does not exist. Its field is app, wherever
// the request names it.
func NoSuchApp(app string) error {
	return &timer.Error{Code: timer.CodeNotFound, Field: "app", Msg: fmt.Sprintf(
		"no app %q: check its name in the list of apps; an app exists from its first timer, "+
			"calendar, key, settings or test call on", app,
	)}
}

// SlotRequest requests the concurrency slot for a fire.
type SlotRequest struct {
	// Fire is as the session has it, with the RunAtMS and Bucket for the case that it has to wait.
	Fire        timer.Fire
	Concurrency timer.Concurrency

	// DelayAfterEnd is the shortest time between the end of the last called fire of the schedule
	// and this one; 0: none. NowMS is the session's clock, by which such ends are recorded.
	DelayAfterEnd time.Duration
	NowMS         int64
}

// NotBeforeMS returns the earliest start of the fire if the last called one ended at
// lastCallEndedMS; 0: any time.
func (e *SlotRequest) NotBeforeMS(endedMS int64) int64 {
	if e.DelayAfterEnd == 0 || endedMS == 0 {
		return 0
	}
	return endedMS + e.DelayAfterEnd.Milliseconds()
}

// ReplacedBy reports whether another fire has replaced this one. last is the fire that has the slot,
// or had it last. A fire that was attempted had the slot, and only one that is due later takes it
// away. One that is due earlier may have had it since, so its due instant tells nothing. A fire that
// somebody requested is never replaced: one that lost the slot waits for it again.
func (e *SlotRequest) ReplacedBy(last timer.FireID) bool {
	return e.Concurrency.Policy == timer.ConcurrencyCancelPrevious && e.Fire.Series == 0 &&
		e.Fire.Attempt > 0 && last.Timer != 0 && last != e.Fire.FireID
}

// WaitsBehind reports whether the fire waits for the slot that another one has, whatever the policy
// and however many wait: somebody requested this very fire, and would have to notice that it was
// skipped. So does a fire of the schedule that has begun and lost the slot, see TakesFrom. With
// cancel_previous, a requested one takes the slot from one of the schedule that is due earlier.
func (e *SlotRequest) WaitsBehind(running timer.FireID) bool {
	return (e.Fire.Series != 0 || e.Fire.Attempt > 0) &&
		(e.Concurrency.Policy != timer.ConcurrencyCancelPrevious ||
			running.Series != 0 || timer.CompareFireIDs(e.Fire.FireID, running) < 0)
}

// TakesFrom reports whether the fire takes the slot of one that waits between two attempts, while
// their timer is not active. A requested fire runs nevertheless, and nobody knows for how long that
// is. An accepted fire is under way. With cancel_previous the other fire would be cancelled, so an
// earlier one waits.
func (e *SlotRequest) TakesFrom(holder *timer.Fire, active bool) bool {
	return !active && e.Fire.Series != 0 && BetweenAttempts(holder) &&
		e.Concurrency.Policy != timer.ConcurrencyCancelPrevious
}

// BetweenAttempts reports whether a fire waits between two attempts: no call is under way, and none
// is to be completed.
func BetweenAttempts(f *timer.Fire) bool {
	return f.Owner == 0 && f.Attempt > 0 &&
		f.State != timer.FireAccepted && f.State != timer.FireAsyncFailed
}

// SlotVerdict is the answer to a SlotRequest.
type SlotVerdict uint8

// The answers to slot requests.
const (
	SlotGranted SlotVerdict = iota // the fire may run
	// SlotQueued means that the fire was released. It waits in the queue until it gets the slot,
	// and asks again at the given run_at. A fire that is too early by DelayAfterEnd asks again
	// then, and is not in the queue.
	SlotQueued
	SlotSkipped   // another fire has the slot, and the policy is skip
	SlotQueueFull // the queue is full
	SlotNotOwned  // the session does not own the fire
	SlotReplaced  // cancel_previous: a later fire took the slot
)

// SlotResult is the result for a SlotRequest.
type SlotResult struct {
	SlotVerdict SlotVerdict
	Fire        timer.Fire // SlotQueued: as stored now, for the window
}

// CatchUpRequest asks whether a misfired fire of a fire_once timer runs.
type CatchUpRequest struct {
	timer.FireID

	// PlannedMS is when the fire was to run: its due instant and its jitter; 0: the due instant.
	PlannedMS int64
	ToMS      int64 // the fire would stand for all fires that were to run up to this instant
	// GraceMS, unless it is 0, moves ToMS to that long before the store answers. A request may take
	// seconds to arrive, and fires that misfire meanwhile would otherwise get a stand-in of their
	// own.
	GraceMS int64
}

// CoveredBy reports whether a stand-in for all fires that were to run up to toMS stands for this
// one. Jitter moves fires past the end of an outage that began after they were due. Those do not
// belong to it: in the next outage one of them is to run.
func (l *CatchUpRequest) CoveredBy(toMS int64) bool { return max(l.DueMS, l.PlannedMS) <= toMS }

// CoversTo returns the last instant for which the fire would stand, if the store answers at nowMS.
func (l *CatchUpRequest) CoversTo(nowMS int64) int64 {
	to := max(l.DueMS, l.PlannedMS, l.ToMS)
	if l.GraceMS == 0 {
		return to
	}
	return max(to, nowMS-l.GraceMS)
}
