package store

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Editor changes timers that exist. Edit and Apply* are in doubt like Create (see [Timers]).
type Editor interface {
	// TimerByName returns an app's live timer by its name. Error: not_found.
	TimerByName(ctx context.Context, app, name string) (timer.Timer, error)
	// Edit gives timers new definitions, each with its own result, in one transaction, and logs the
	// changes. An edit that changes nothing of the definition (same hash) does nothing. See S19 and
	// S20.
	Edit(ctx context.Context, items []Edit, plan Planner) ([]EditResult, error)
	// AddFires inserts fires of other series than 0 for a timer that exists, active or not, with
	// its present version, epoch and lane. One that is there already, open or finished, is left
	// alone, so a call may be repeated. Errors: not_found; conflict while the app is frozen, for
	// fires that are not there already.
	AddFires(
		ctx context.Context,
		app string,
		id timer.ID,
		fires []timer.Fire,
	) (inserted []timer.Fire, err error)
}

// Edit asks for a new version.
type Edit struct {
	App        string
	ID         timer.ID
	IfVersion  int32 // only if this is the present version; 0: whatever it is
	Definition timer.Definition
}

// EditResult is the result of an Edit.
type EditResult struct {
	Timer timer.Timer  // as it is in the store now
	Seq   int64        // its entry in the change log; 0: nothing changed
	Fires []timer.Fire // inserted, or moved to another run: to be marked
	Err   error        // not_found; conflict: another version
}

// Apps are the tenants.
type Apps interface {
	// App returns an app. Error: not_found.
	App(ctx context.Context, name string) (App, error)
	// SetFrozen freezes or unfreezes an app, makes it if it is not there, and logs the change: S21.
	SetFrozen(ctx context.Context, name string, frozen bool, reason string) (App, error)
}

// App is a tenant.
type App struct {
	ID       int64
	Name     string
	Frozen   bool
	Reason   string // of the freeze
	FrozenMS int64  // since when

	Settings AppSettings
	Version  int64 // of Settings
}

// IfAbsent is the version of a calendar that does not exist.
const IfAbsent = -1

// Calendars are the named calendars of apps.
type Calendars interface {
	// PutCalendar makes or replaces a calendar and returns its version, from 1. Timers that name it
	// are planned anew by the next calls of Expand (S20). IfVersion 0: whatever is there; IfAbsent:
	// only where there is none. Error: conflict.
	PutCalendar(
		ctx context.Context,
		app string,
		c timer.Calendar,
		ifVersion int64,
	) (version int64, err error)
	// Calendar returns a calendar. Error: not_found.
	Calendar(ctx context.Context, app, name string) (CalendarVersion, error)
	// Calendars returns an app's calendars in order of name, behind a name (exclusive), at most
	// limit.
	Calendars(ctx context.Context, app, after string, limit int) ([]CalendarVersion, error)
	// DeleteCalendar deletes a calendar that no live timer names. Errors: not_found; conflict,
	// which names a timer.
	DeleteCalendar(ctx context.Context, app, name string) error
}

// CalendarVersion is a calendar as it is stored.
type CalendarVersion struct {
	timer.Calendar

	Version   int64
	UpdatedMS int64
}

// Backfills make fires of a past range, of a series of their own.
type Backfills interface {
	// StartBackfill begins one; its id is the caller's (from timer.IDs) and the series of its
	// fires. Repeating it changes nothing. Error: not_found.
	StartBackfill(ctx context.Context, b Backfill) (Backfill, error)
	// Backfill returns one. Error: not_found.
	Backfill(ctx context.Context, app string, id timer.ID) (Backfill, error)
	// CancelBackfill ends one: no more fires are made, and those that no executor holds are
	// recorded as skipped (cancelled). Repeating it goes on with that. One that is done is
	// cancelled while any of its fires is open, and else stays so. An executor ends those that it
	// holds when it sees the status, before each call.
	CancelBackfill(ctx context.Context, app string, id timer.ID) (Backfill, error)
	// ExpandBackfills takes up to limit unfinished backfills that no other call holds and inserts
	// the next stretch of each. Fires with an error are in doubt (see [Timers]).
	ExpandBackfills(
		ctx context.Context,
		limit int,
		plan BackfillPlanner,
	) (fires []timer.Fire, n int, err error)
}

// Backfill is a request for the fires of a past range.
type Backfill struct {
	ID           timer.ID
	App          string
	Timer        timer.ID
	FromMS       int64 // included
	ToMS         int64 // not included
	NextMS       int64 // every instant before it has its fire
	FiresCreated int64
	Status       BackfillStatus
	CreatedMS    int64
}

// BackfillStatus is where a backfill stands.
type BackfillStatus string

// The statuses.
const (
	BackfillRunning   BackfillStatus = "running"
	BackfillDone      BackfillStatus = "done"
	BackfillCancelled BackfillStatus = "cancelled"
)

// BackfillPlanner plans a stretch of a backfill: fires of series b.ID with the due instants from
// b.NextMS on, to run now, and the new NextMS; done when that reaches b.ToMS. It is called like a
// [Planner].
type BackfillPlanner func(t *timer.Timer, b *Backfill, nowMS int64) (fires []timer.Fire, nextMS int64, err error)

// Admissions decide, at the moment of a call, what the other fires of its timer allow. Both lock
// the timers' rows, in order of id.
type Admissions interface {
	// AcquireSlots asks for the turn of fires that the session owns, of timers whose concurrency is
	// not allow: S22.
	AcquireSlots(
		ctx context.Context,
		session timer.ID,
		requests []SlotRequest,
	) ([]SlotResult, error)
	// CatchUp asks which of several late fires of a timer is the one that runs: S23. The answers
	// are in the order of asks.
	CatchUp(ctx context.Context, requests []CatchUpRequest) (run []bool, err error)
}

// SlotRequest asks for a fire's turn.
type SlotRequest struct {
	// Fire: as the session holds it; RunAtMS, Bucket as they shall be while it waits.
	Fire        timer.Fire
	Concurrency timer.Concurrency

	// DelayAfterEnd is how long after the end of the timer's last called fire of the schedule it may run
	// at the earliest; 0: whenever it is its turn. NowMS is the session's clock, by which such ends
	// are recorded.
	DelayAfterEnd time.Duration
	NowMS         int64
}

// NotBeforeMS returns when the fire may run at the earliest, by the end of the last one.
func (e *SlotRequest) NotBeforeMS(endedMS int64) int64 {
	if e.DelayAfterEnd == 0 || endedMS == 0 {
		return 0
	}
	return endedMS + e.DelayAfterEnd.Milliseconds()
}

// SlotVerdict is the answer to an Entry.
type SlotVerdict uint8

// The turns.
const (
	SlotGranted SlotVerdict = iota // it runs
	// SlotQueued: it was released: with the run given, and is promoted when its turn comes, or
	// looks again at its run; or with AfterEnd's, without a turn.
	SlotQueued
	SlotSkipped   // overlap: another runs
	SlotQueueFull // as many wait as may
	SlotNotOwned  // the session does not own it (any more)
	SlotReplaced  // cancel_previous: a later fire took its place
)

// SlotResult is the result of an Entry.
type SlotResult struct {
	SlotVerdict SlotVerdict
	Fire        timer.Fire // SlotQueued: as it is now, to be marked
}

// CatchUpRequest asks whether a late fire of a fire_once timer runs.
type CatchUpRequest struct {
	timer.FireID

	ToMS int64 // it would run for every instant up to here
	// GraceMS, where it is not 0, moves ToMS to so long before the store answers: an ask may have
	// been on its way for seconds, and what has come late meanwhile would have a catch-up of its
	// own.
	GraceMS int64
}

// CoversTo returns up to where the fire would run, asked at nowMS.
func (l *CatchUpRequest) CoversTo(nowMS int64) int64 {
	if l.GraceMS == 0 {
		return max(l.DueMS, l.ToMS)
	}
	return max(l.DueMS, l.ToMS, nowMS-l.GraceMS)
}
