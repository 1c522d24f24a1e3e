package store

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Slices are the leases of minute × bucket, and the cursor.
type Slices interface {
	// ClaimSlices makes the missing slice rows of a frozen minute and takes up to limit undone ones
	// whose lease has run out, each with the next token and a lease from now on.
	ClaimSlices(
		ctx context.Context,
		minute int64,
		buckets int32,
		lease time.Duration,
		limit int,
	) ([]SliceClaim, error)
	// AcquireSlice makes holder the slice's holder and renews its lease, if the token is the latest
	// and it is not done; with free, only while nobody else holds it by this token.
	AcquireSlice(
		ctx context.Context,
		c SliceClaim,
		holder timer.ID,
		lease time.Duration,
		free bool,
	) (bool, error)
	// RenewSlices renews all leases in one statement and returns those that are lost: token, holder
	// or done changed.
	RenewSlices(
		ctx context.Context,
		holder timer.ID,
		claims []SliceClaim,
		lease time.Duration,
	) (lost []SliceClaim, err error)
	// FinishSlice sets done, if the token is the latest. Repeating it answers true.
	FinishSlice(ctx context.Context, c SliceClaim) (bool, error)
	// Cursor returns the first minute whose slices are not all known to be done; the first call
	// ever sets it to minute.
	Cursor(ctx context.Context, minute int64) (int64, error)
	// AdvanceCursor moves the cursor over every minute before limit that is frozen and whose slices
	// are all done, and returns where it stands. A minute without a row stops it.
	AdvanceCursor(ctx context.Context, limit int64) (int64, error)
	// SliceBacklog returns how many slices are claimed and not done.
	SliceBacklog(ctx context.Context) (int64, error)
}

// SliceClaim is a claim on a slice.
type SliceClaim struct {
	Minute int64
	Bucket int32
	Token  int64
}

// Fires are the open fires and their claims.
type Fires interface {
	// LoadSlice returns unclaimed open fires of a slice with run_at_ms <= untilMS behind the
	// position after (exclusive), in order of (run, due, timer, series), at most limit.
	LoadSlice(
		ctx context.Context,
		minute int64,
		bucket int32,
		after Position,
		untilMS int64,
		limit int,
	) ([]timer.Fire, error)
	// Claim makes the session the owner of fires that are as given (same Rev) and unclaimed, or
	// whose owner is dead, or that the session owns already (an answer that was lost). It returns
	// those that the session owns now, as the store has them. A caller holds no fire twice: it
	// drops what it has in hand before the call. A session that is itself dead wins nothing that it
	// did not own.
	Claim(ctx context.Context, session timer.ID, fires []timer.Fire) (won []timer.Fire, err error)
	// Release gives owned fires back for dispatch, each with the RunAtMS, Bucket, State, Attempt,
	// FirstLatenessMS and Done given and its Rev one up, and writes the attempts; it returns the fires as
	// they are now, to be marked, without those that the session no longer owned. Repeating it
	// after an unknown result releases nothing again.
	Release(
		ctx context.Context,
		session timer.ID,
		fires []timer.Fire,
		attempts []timer.Attempt,
	) (released []timer.Fire, err error)
	// RecordAttempts writes RunAtMS, Bucket, State, Attempt, FirstLatenessMS and Done of owned fires that
	// stay claimed, and the attempts. It returns the ids that the session no longer owned.
	// Repeating it is harmless.
	RecordAttempts(
		ctx context.Context,
		session timer.ID,
		fires []timer.Fire,
		attempts []timer.Attempt,
	) (lost []timer.FireID, err error)
	// Overdue returns open fires with run_at_ms <= now - 10 s, of slices already handed out (minute
	// before the cursor, or slice row present), whose owner is none or not among live and whose
	// next sweep has come, in order of run. It writes their new sweep count, which puts the next
	// sweep at twice the distance (at most 5 min on), before it returns them.
	Overdue(ctx context.Context, q OverdueQuery) ([]timer.Fire, error)
	// Owned returns the open fires with run_at_ms <= untilMS that one of the sessions owns, in
	// order of run, at most limit.
	Owned(ctx context.Context, sessions []timer.ID, untilMS int64, limit int) ([]timer.Fire, error)
	// OldestOpen returns the run_at_ms of the open fire that is most overdue, 0 where none is past
	// its run.
	OldestOpen(ctx context.Context) (int64, error)
}

// LateFires are what executors keep the late fires of a timer in order by: S32.
type LateFires interface {
	// Begin notes that the first attempts of owned fires begin: it writes their FirstLatenessMS, which is
	// more than 0, where no attempt has been recorded. Repeating it is harmless.
	Begin(ctx context.Context, session timer.ID, fires []timer.Fire) error
	// OpenAmong returns those of the fires that are open, as the store has them, in no order.
	OpenAmong(ctx context.Context, ids []timer.FireID) ([]timer.Fire, error)
}

// Position is a place in a slice.
type Position struct {
	RunAtMS int64
	timer.FireID
}

// After returns the position behind every fire of the instant runMS: no due lies beyond the largest
// number.
func After(runMS int64) Position {
	return Position{
		RunAtMS: runMS,
		FireID:  timer.FireID{DueMS: timer.NeverMS, Timer: timer.MaxID, Series: timer.NeverMS},
	}
}

// OverdueQuery selects what to sweep.
type OverdueQuery struct {
	Live   []timer.ID // sessions that are alive
	Shard  int32      // buckets with bucket % Of == Shard
	Shards int32      // at least 1
	Limit  int
}

// SweepAfter is how far past its run an open fire must be to be swept first; SweepEvery is the
// longest distance of sweeps.
const (
	SweepAfter = 10 * time.Second
	SweepEvery = 5 * time.Minute
)

// SessionKind says what lives.
type SessionKind string

// The kinds.
const (
	ExecutorSession  SessionKind = "executor"
	SchedulerSession SessionKind = "scheduler"
)

// Sessions are proofs of life.
type Sessions interface {
	// OpenSession begins a session. id is the caller's (from timer.IDs); an id that is taken is a
	// conflict.
	OpenSession(ctx context.Context, id timer.ID, kind SessionKind, name string) error
	// RenewSession writes the next renewal and reports load; false: the session is dead, for ever.
	RenewSession(ctx context.Context, id timer.ID, load Load) (alive bool, err error)
	// LiveSessions returns the live ones of all kinds.
	LiveSessions(ctx context.Context) ([]Session, error)
	// ExpiredSessions returns those of all kinds that ended less than within ago.
	ExpiredSessions(ctx context.Context, within time.Duration) ([]Session, error)
	// ExpireSession ends a session whose renewal number is still seen; true: this call ended it.
	ExpireSession(ctx context.Context, id timer.ID, renewals int64) (bool, error)
	// CloseSession ends the caller's own session, whatever its renewal number.
	CloseSession(ctx context.Context, id timer.ID) error
}

// Load is what an executor says of itself with each renewal.
type Load struct {
	InflightFull bool // it receives no more
	// OldestTaskMS: age of the task received last, of the priority that is furthest behind: now
	// minus published, in ms.
	OldestTaskMS int64
}

// Session is a live session.
type Session struct {
	ID       timer.ID
	Kind     SessionKind
	Name     string
	Renewals int64
	Load     Load
}

// Outcomes are the finished fires and their history.
type Outcomes interface {
	// Record ends fires that the session owns. It returns the ids of those that it did not own (any
	// more), whose results do not count; one that this session recorded before is not among them.
	// Attempts are written for the recorded ones only. made are the fires that the outcomes set
	// off, to be dispatched: those that got the turn (S22), and the next of fixed delays (S24);
	// repeated after an unknown result, it names those again that nobody has claimed since.
	Record(
		ctx context.Context,
		session timer.ID,
		outcomes []timer.Outcome,
		attempts []timer.Attempt,
	) (
		lost []timer.FireID, started []timer.Fire, err error)
	// Fire returns a fire of an app: open or finished. Error: not_found.
	Fire(ctx context.Context, app string, id timer.FireID) (FireRecord, error)
	// History returns a timer's finished fires, latest due first, behind before (exclusive; zero:
	// from the latest on), at most limit. Error: not_found.
	History(
		ctx context.Context,
		app string,
		id timer.ID,
		before timer.FireID,
		limit int,
	) ([]timer.Outcome, error)
	// OpenFires returns a timer's open fires in order of (due, series): a page of them. No index
	// leads from a timer to its fires. It therefore walks the open fires of all timers by due, up
	// to q.Look of them and the rest of the instant at which that ends, and says where it stopped.
	// Error: not_found.
	OpenFires(ctx context.Context, app string, id timer.ID, q OpenFiresQuery) (OpenFiresPage, error)
}

// OpenFiresQuery selects open fires of one timer.
type OpenFiresQuery struct {
	After     OpenFiresPosition // zero: from the first on
	UntilMS   int64             // due no later
	ScanLimit int               // looks at so many open fires of all timers; at least 1
	Limit     int               // returns no more; at least 1
}

// OpenFiresPosition is a place among a timer's open fires: behind a series of the instant DueMS, or before
// all of that instant where Series is BeforeAllSeries.
type OpenFiresPosition struct{ DueMS, Series int64 }

// BeforeAllSeries stands before every series.
const BeforeAllSeries = -1

// Before tells whether a fire comes after the place.
func (p OpenFiresPosition) Before(f timer.FireID) bool {
	return f.DueMS > p.DueMS || f.DueMS == p.DueMS && f.Series > p.Series
}

// OpenFiresPage is a page of open fires. A fire that is open before the first page is read and after the
// last is on one of them.
type OpenFiresPage struct {
	Fires []timer.Fire
	Next  OpenFiresPosition // After of the next page; zero: there is none
}

// FireRecord is all that is known of a fire.
type FireRecord struct {
	Open     *timer.Fire    // it has no outcome yet
	Outcome  *timer.Outcome // it has
	Attempts []timer.Attempt
}

// Housekeeping keeps the tables small.
type Housekeeping interface {
	// PurgeExpired makes the partitions of the coming days and removes outcomes and attempts older
	// than retention, old entries of the change log (1 h), of ended sessions (1 day), of done
	// slices and minutes (1 day, behind the cursor), and idempotency keys (1 day). Any number of
	// processes may call it at once.
	PurgeExpired(ctx context.Context, retention time.Duration) error
}
