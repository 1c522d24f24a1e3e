package store

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// SliceClaims claims the slices of minutes, and moves the cursor. A slice is one minute of run
// times in one bucket.
type SliceClaims interface {
	// FreezeMinute makes a minute's bucket count final and returns it. It is at least 1.
	FreezeMinute(ctx context.Context, minute int64) (buckets int32, err error)
	// ClaimSlices claims up to limit slices of a frozen minute that are not done and whose lease
	// has expired. Each gets the next token and a lease from now on. It creates missing rows.
	ClaimSlices(
		ctx context.Context,
		minute int64,
		buckets int32,
		lease time.Duration,
		limit int,
	) ([]SliceClaim, error)
	// Cursor returns the first minute whose slices may not all be done. The very first call sets it
	// to minute.
	Cursor(ctx context.Context, minute int64) (int64, error)
	// AdvanceCursor moves the cursor past every minute before limit that is frozen and whose slices
	// are all done. It stops at a minute without a row, and returns the new position.
	AdvanceCursor(ctx context.Context, limit int64) (int64, error)
	// SliceBacklog counts the slices that are claimed and not done.
	SliceBacklog(ctx context.Context) (int64, error)
}

// SliceLeases has the leases on claimed slices.
type SliceLeases interface {
	// AcquireSlice makes holder the lease holder of a claimed slice and renews the lease. It
	// returns false if the token is not the latest or the slice is done. With free, it also returns
	// false if another holder acquired the slice by this token.
	AcquireSlice(
		ctx context.Context,
		c SliceClaim,
		holder timer.ID,
		lease time.Duration,
		free bool,
	) (bool, error)
	// RenewSlices renews all leases in one statement. It returns the lost ones: their token, holder
	// or done changed.
	RenewSlices(
		ctx context.Context,
		holder timer.ID,
		claims []SliceClaim,
		lease time.Duration,
	) (lost []SliceClaim, err error)
	// FinishSlice marks a slice as done if the token is the latest. Repeated, it returns true
	// again.
	FinishSlice(ctx context.Context, c SliceClaim) (bool, error)
}

// SliceClaim is a claim on a slice.
type SliceClaim struct {
	Minute int64
	Bucket int32
	Token  int64
}

// Fires reads the open fires.
type Fires interface {
	// LoadSlice returns up to limit unclaimed open fires of a slice after a position, with
	// run_at_ms <= untilMS. They are in order of (run_at, due, timer, series).
	LoadSlice(
		ctx context.Context,
		minute int64,
		bucket int32,
		after Position,
		untilMS int64,
		limit int,
	) ([]timer.Fire, error)
	// Owned returns up to limit open fires with fromMS <= run_at_ms <= untilMS that one of the
	// sessions owns, in order of run_at.
	Owned(
		ctx context.Context, sessions []timer.ID, fromMS, untilMS int64, limit int,
	) ([]timer.Fire, error)
	// OldestOpen returns the run_at_ms of the most overdue open fire, 0 if none is overdue.
	OldestOpen(ctx context.Context) (int64, error)
}

// OverdueFires finds what everything else has lost.
type OverdueFires interface {
	// Overdue returns open fires with run_at_ms <= now - OverdueAfter that no alive session owns,
	// in order of run_at. A call scans a part of a large backlog, and the next one goes on from
	// there.
	Overdue(ctx context.Context, q OverdueQuery) ([]timer.Fire, error)
	// OverdueByApp counts the open fires whose run time lies in an earlier minute than now, owned or
	// not: the first limit of them, in order of their minutes. It also returns up to top of their
	// apps, those with most of them first, and of equal ones the older.
	OverdueByApp(ctx context.Context, limit, top int) (n int, apps []AppCount, err error)
}

// AppCount is how many of something an app has.
type AppCount struct {
	App   string
	Count int
}

// Claims has the claims of sessions on open fires.
type Claims interface {
	// Claim makes the session the owner of fires that have the given Rev and are unclaimed, or
	// whose owner has expired. It also returns fires that the session owns already, since an
	// earlier answer may have been lost. It returns all of the given fires that the session owns
	// now, as stored.
	//
	// A caller must not claim a fire that it has in flight. An expired session wins nothing new.
	Claim(ctx context.Context, session timer.ID, fires []timer.Fire) (won []timer.Fire, err error)
	// Release gives owned fires back for dispatch and writes the attempts. It writes RunAtMS,
	// Bucket, State, Attempt, FirstLatenessMS, TargetBits, WaitingSinceMS and WaitedFor as given,
	// and adds 1 to Rev. It returns the released fires as stored, for the window, without those that the session no
	// longer owned. Repeated after an unknown result, it releases nothing again.
	Release(
		ctx context.Context,
		session timer.ID,
		fires []timer.Fire,
		attempts []timer.Attempt,
	) (released []timer.Fire, err error)
	// RecordAttempts writes the same columns of owned fires that stay claimed, but Rev, and the
	// attempts. It returns the ids that the session no
	// longer owned. It may be repeated.
	RecordAttempts(
		ctx context.Context,
		session timer.ID,
		fires []timer.Fire,
		attempts []timer.Attempt,
	) (lost []timer.FireID, err error)
}

// LateFires is what keeps the late fires of a timer in order: S32.
type LateFires interface {
	// Begin records that the first attempts of owned fires begin. It writes their FirstLatenessMS,
	// which is more than 0, unless an attempt is recorded. It may be repeated.
	Begin(ctx context.Context, session timer.ID, fires []timer.Fire) error
	// OpenAmong returns those of the fires that are open, as stored, in no order.
	OpenAmong(ctx context.Context, ids []timer.FireID) ([]timer.Fire, error)
}

// Position is a place in the order of a slice's fires.
type Position struct {
	RunAtMS int64
	timer.FireID
}

// After returns the position behind every fire with the run_at of runMS. No due instant lies behind
// timer.NeverMS.
func After(runMS int64) Position {
	return Position{
		RunAtMS: runMS,
		FireID:  timer.FireID{DueMS: timer.NeverMS, Timer: timer.MaxID, Series: timer.NeverMS},
	}
}

// OverdueQuery selects overdue fires.
type OverdueQuery struct {
	Live   []timer.ID // alive sessions: their fires are left out
	Shard  int32      // selects buckets with bucket % Shards == Shard
	Shards int32      // at least 1
	Limit  int
}

// OverdueAfter is how long after its run_at an open fire is overdue.
const OverdueAfter = 10 * time.Second

// SessionKind is the kind of process that a session belongs to.
type SessionKind string

// The kinds of sessions.
const (
	ExecutorSession  SessionKind = "executor"
	SchedulerSession SessionKind = "scheduler"
)

// Sessions tells which processes are alive.
type Sessions interface {
	// OpenSession begins a session with the given ID, Kind, Name and Renewals. The caller takes the id
	// from timer.IDs. An id that is taken is a conflict, and changes nothing. After an unknown result
	// it may be the caller's own: a caller that drew Renewals at random knows its session by that.
	OpenSession(ctx context.Context, begun Session) error
	// RenewSession adds 1 to the renewals and reports the load. It returns false if the session has
	// expired: it stays so for ever.
	RenewSession(ctx context.Context, id timer.ID, load Load) (alive bool, err error)
	// LiveSessions returns the alive sessions of all kinds.
	LiveSessions(ctx context.Context) ([]Session, error)
	// ExpiredSessions returns the sessions of all kinds that ended less than within ago.
	ExpiredSessions(ctx context.Context, within time.Duration) ([]Session, error)
	// ExpireSession ends a session if it still has this number of renewals. It returns true if this
	// call ended it.
	ExpireSession(ctx context.Context, id timer.ID, renewals int64) (bool, error)
	// CloseSession ends the caller's own session, whatever its number of renewals.
	CloseSession(ctx context.Context, id timer.ID) error
}

// Load is what an executor reports with each renewal.
type Load struct {
	InflightFull bool // the executor receives no more tasks
	// OldestTaskMS is the age of the task received last, on the topic that is furthest behind: now
	// minus its publication, in ms.
	OldestTaskMS int64
}

// Session is an alive or expired session.
type Session struct {
	ID   timer.ID
	Kind SessionKind
	Name string
	// Renewals begins at the number that the session was opened with. Each renewal adds 1.
	Renewals int64
	Load     Load
	Ended    bool
}

// Recorder writes the outcomes of fires.
type Recorder interface {
	// Record finishes fires that the session owns, and writes their outcomes and attempts. lost has
	// the fires that the session did not own, whose outcomes and attempts are not written. A fire
	// that this session recorded before is not lost.
	//
	// started has the fires to dispatch because of the outcomes: those that got the concurrency
	// slot (S22), and the successors of fixed delays (S24). Repeated after an unknown result,
	// Record returns those again that nobody has claimed since.
	Record(
		ctx context.Context,
		session timer.ID,
		outcomes []timer.Outcome,
		attempts []timer.Attempt,
	) (
		lost []timer.FireID, started []timer.Fire, err error)
}

// History has the open and finished fires of timers.
type History interface {
	// Fire returns an open or finished fire of an app. Error: not_found.
	Fire(ctx context.Context, app string, id timer.FireID) (FireRecord, error)
	// SessionsByID returns those of the sessions that the store still knows, alive or ended, in no
	// order. It takes at most MaxBatch.
	SessionsByID(ctx context.Context, ids []timer.ID) ([]Session, error)
	// History returns up to limit finished fires of a timer before a fire, latest due first. The
	// zero before starts at the latest. Error: not_found.
	History(
		ctx context.Context,
		app string,
		id timer.ID,
		before timer.FireID,
		limit int,
	) ([]timer.Outcome, error)
	// LastScheduled returns the latest finished fire of series 0 that is due before an instant, false
	// if there is none. It reads keys alone, up to that fire, so it passes many fires of other series
	// in little time. Error: not_found.
	LastScheduled(
		ctx context.Context, app string, id timer.ID, beforeMS int64,
	) (o timer.Outcome, found bool, err error)
	// OpenFires returns a page of a timer's open fires, in order of (due, series). No index leads
	// from a timer to its fires, so it scans the open fires of all timers by due. It scans up to
	// q.ScanLimit of them, and returns where it stopped: after the instant of the last one, of which
	// it has all of the timer. Error: not_found.
	OpenFires(ctx context.Context, app string, id timer.ID, q OpenFiresQuery) (OpenFiresPage, error)
}

// OpenFiresQuery selects open fires of one timer.
type OpenFiresQuery struct {
	After     OpenFiresPosition // zero: start at the first
	UntilMS   int64             // due no later than this
	ScanLimit int               // at least 1: how many open fires of all timers to scan
	Limit     int               // at least 1: how many fires to return
}

// OpenFiresPosition is a place in the order of a timer's open fires: after the fire (DueMS,
// Series), or before all fires of DueMS if Series is BeforeAllSeries.
type OpenFiresPosition struct{ DueMS, Series int64 }

// BeforeAllSeries comes before every series.
const BeforeAllSeries = -1

// Before reports whether the position comes before a fire.
func (p OpenFiresPosition) Before(f timer.FireID) bool {
	return f.DueMS > p.DueMS || f.DueMS == p.DueMS && f.Series > p.Series
}

// OpenFiresPage is a page of open fires. A fire that stays open while all pages are read is on one
// of them.
type OpenFiresPage struct {
	Fires []timer.Fire
	Next  OpenFiresPosition // After for the next page, zero: this is the last page
}

// FireRecord is an open or a finished fire with its attempts.
type FireRecord struct {
	Open     *timer.Fire    // nil: it has an outcome
	Outcome  *timer.Outcome // nil: it is open
	Attempts []timer.Attempt
}

// Housekeeping keeps the tables small.
type Housekeeping interface {
	// PurgeExpired creates the partitions of the coming days and removes what has expired: outcomes,
	// and ended jobs after retention; ended backfills a retention after their creation, and inactive
	// periods a retention after their end, unless any open fire was due before their end; attempts
	// after retention or AttemptRetention, whichever is longer; changes after 1 hour; ended sessions
	// and idempotency keys after 1 day, done slices and minutes before the cursor after 1 day; and
	// instants of EndSignIns a day after MaxSignIn. Any number of processes may call it at once. If
	// very much has expired, it removes a part, and the error is ErrMoreExpired.
	PurgeExpired(ctx context.Context, retention time.Duration) error

	// PurgedBefore returns the instant before which PurgeExpired may have removed outcomes, in Unix
	// ms, by the shortest retention that was ever given; 0: it has not run. After a read that found
	// no outcome it says whether there may have been one.
	PurgedBefore(ctx context.Context) (int64, error)

	// PurgeTimers removes timers that were deleted so long ago, and, unless oneShots is 0, active
	// one-shots whose instant and latest edit are so long ago. Their versions go with them, and their
	// names are free. It keeps a timer that has an open fire or a running backfill. Both durations
	// are at least MinTimerRetention. Any number of processes may call it at once.
	PurgeTimers(ctx context.Context, deleted, oneShots time.Duration) error
}

// ErrMoreExpired is the error of a purge that has removed a part of what has expired.
var ErrMoreExpired = errors.New("more rows have expired: purge again")

// MinTimerRetention is how long timers stay at least after their end. What was planned for them
// before is due by then: schedules are expanded a day ahead at most, except fixed delays, whose next
// fire TimerBounds looks at. A fire of a fixed delay that an edit has superseded may be due later: it
// is skipped then, as one of a deleted timer.
const MinTimerRetention = 48 * time.Hour

// AddedFireRetention is how long a one-shot stays at least once a fire was added to it, or a backfill
// was expanded. PurgeTimers finds that fire later, among those that are past due.
const AddedFireRetention = 24 * time.Hour

// TimerBounds tells which timers PurgeTimers removes.
type TimerBounds struct {
	DeletedMS  int64 // those that were deleted before
	OneShotsMS int64 // those whose instant and latest edit were before
}

// NewTimerBounds returns the bounds of a call of PurgeTimers.
func NewTimerBounds(nowMS int64, deleted, oneShots time.Duration) TimerBounds {
	b := TimerBounds{DeletedMS: nowMS - deleted.Milliseconds()}
	if oneShots != 0 {
		b.OneShotsMS = nowMS - oneShots.Milliseconds()
	}
	return b
}

// Passed reports whether a timer is to be removed, unless it has an open fire or a running backfill.
func (b TimerBounds) Passed(t *timer.Timer) bool {
	if t.Status == timer.StatusDeleted {
		// The next fire of a fixed delay is open however far ahead it is due.
		return t.UpdatedMS < b.DeletedMS && t.LastDueMS < b.DeletedMS
	}
	return EndedOneShot(t) && t.ExpandAtMS == timer.NeverMS &&
		t.LastDueMS > 0 && t.LastDueMS < b.OneShotsMS && t.UpdatedMS < b.OneShotsMS
}

// EndedOneShot reports whether a timer is an active one-shot for which nothing is to be planned.
func EndedOneShot(t *timer.Timer) bool {
	return t.Status == timer.StatusActive && t.Definition.Schedule.Kind.OneShot() && !t.Replan &&
		t.NextDueMS == timer.NeverMS
}

// AttemptRetention is how long attempts are kept at least. The attempt of an accepted fire is needed
// when its receiver completes it, which may take MaxAsync.
const AttemptRetention = time.Duration(timer.MaxAsync) + 24*time.Hour
