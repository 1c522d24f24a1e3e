package store

import (
	"context"
	"math/bits"
	"slices"

	"github.com/carillon-timer/carillon/libs/timer"
)

// AppHistory has the finished fires of whole apps: S36. Both methods examine a bounded number of
// fires and return where they stopped, because few of an app's fires may match.
type AppHistory interface {
	// Outcomes returns a page of an app's finished fires in order of position, the latest first
	// unless q.Ascending. A page that ends early has a Next, too.
	Outcomes(ctx context.Context, q OutcomeQuery) (OutcomePage, error)
	// CountOutcomes counts an app's finished fires by steps of stepMS, from the latest back. It
	// examines up to q.ScanLimit fires and the rest of the last millisecond. It ignores
	// q.Ascending, q.After and q.Limit.
	CountOutcomes(ctx context.Context, q OutcomeQuery, stepMS int64) (OutcomeCounts, error)
}

// OutcomeQuery selects finished fires of an app.
type OutcomeQuery struct {
	OutcomeFilter

	App       string
	FromMS    int64 // finished, included
	ToMS      int64 // finished, excluded, 0: no end
	Ascending bool
	After     OutcomePosition // excluded: where the page before ended, zero: begin
	ScanLimit int             // at least 1: how many fires to examine
	Limit     int             // at least 1: how many fires to return
}

// OutcomeFilter selects outcomes. Empty fields select all.
type OutcomeFilter struct {
	Kinds   []timer.OutcomeKind
	Reasons []timer.Reason
	Causes  []timer.Cause
	Timers  []timer.ID // at most MaxBatch
	// DueFromMS is included and DueToMS excluded, 0: no bound. A skipped stretch is selected if it
	// overlaps.
	DueFromMS, DueToMS int64
	// MinLatenessMS and MaxLatenessMS are included. With either, only fires that were called are
	// selected.
	MinLatenessMS, MaxLatenessMS *int64
}

// OutcomePage is a page of finished fires.
type OutcomePage struct {
	Outcomes []timer.Outcome
	Next     OutcomePosition // After for the next page, zero: this is the last page
}

// OutcomeCounts has the counts of finished fires from FromMS on.
type OutcomeCounts struct {
	Counts []OutcomeCount // in no order
	// FromMS is the instant from which the counts are complete: that of the query, or later if
	// ScanLimit was reached.
	FromMS int64
}

// OutcomeCount counts equal outcomes of one step.
type OutcomeCount struct {
	StepMS int64 // the begin of the step, a multiple of its length
	Kind   timer.OutcomeKind
	Reason timer.Reason
	// LatenessMS is the LatenessBucket, NotCalled if no attempt was made.
	LatenessMS int64
	Outcomes   int64 // records
	Fires      int64 // that they stand for: a skipped stretch is one record
}

// NotCalled is the lateness bucket of fires without an attempt.
const NotCalled = -1

// Matches reports whether the filter selects an outcome.
func (f *OutcomeFilter) Matches(o *timer.Outcome) bool {
	late := f.MinLatenessMS != nil || f.MaxLatenessMS != nil
	switch {
	case len(f.Kinds) > 0 && !slices.Contains(f.Kinds, o.Kind),
		len(f.Reasons) > 0 && !slices.Contains(f.Reasons, o.Reason),
		len(f.Causes) > 0 && !slices.Contains(f.Causes, o.Cause),
		len(f.Timers) > 0 && !slices.Contains(f.Timers, o.Timer),
		max(o.UntilMS, o.DueMS) < f.DueFromMS,
		f.DueToMS != 0 && o.DueMS >= f.DueToMS,
		late && o.Attempts == 0,
		f.MinLatenessMS != nil && o.LatenessMS < *f.MinLatenessMS,
		f.MaxLatenessMS != nil && o.LatenessMS > *f.MaxLatenessMS:
		return false
	}
	return true
}

// PositionOf returns the place of an outcome.
func PositionOf(o *timer.Outcome) OutcomePosition {
	return OutcomePosition{FinishedMS: o.FinishedMS, FireID: o.FireID}
}

// Lateness is counted in buckets: exact up to 63 ms, and then 32 buckets for each power of two, so
// that a bucket is at most 1/32 wide of its begin.
const (
	latenessBits = 5
	// LatenessOctaves is how many powers of two beyond 63 ms have buckets of their own. The last
	// begins at 2^36 ms, two years.
	LatenessOctaves = 31
)

// LatenessBucket returns the begin of the bucket of a lateness.
func LatenessBucket(ms int64) int64 {
	ms = max(ms, 0)
	return ms - ms%LatenessWidth(ms)
}

// LatenessWidth returns the width of the bucket of a lateness.
func LatenessWidth(ms int64) int64 {
	octave := bits.Len64(uint64(max(ms, 0))) - latenessBits - 1
	return 1 << min(max(octave, 0), LatenessOctaves)
}
