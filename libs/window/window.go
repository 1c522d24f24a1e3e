package window

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TTL is how long a slice is kept after the end of its minute.
const TTL = 10 * time.Minute

// Slice identifies one minute × bucket.
type Slice struct {
	Minute int64 // since 1970
	Bucket int32
}

// SliceOf returns the slice of a fire's entry.
func SliceOf(f *timer.Fire) Slice { return Slice{Minute: f.RunAtMinute(), Bucket: f.Bucket} }

// Page is the result of Range.
type Page struct {
	Generation string // current generation of the slice; empty if there is none
	Fires      []timer.Fire
	More       bool // the limit was reached: continue from the last RunAtMS
}

// Window holds entries. It is safe for concurrent use.
type Window interface {
	// Put adds entries, each to the slice given by RunAtMS and Bucket of the fire. Owner and
	// TargetBits are not kept.
	Put(ctx context.Context, fires []timer.Fire) error
	// Open returns the generation of a slice, and creates one if there is none.
	Open(ctx context.Context, s Slice) (generation string, err error)
	// Range returns the entries with fromMS < run time <= toMS. limit is a hint, not a bound: if it
	// would split the entries of one instant, Range returns all of them. So a caller that continues
	// from the last run time misses none.
	Range(ctx context.Context, s Slice, fromMS, toMS int64, limit int) (Page, error)
	// Drop removes a slice.
	Drop(ctx context.Context, s Slice) error
	// Ping checks whether the window responds.
	Ping(ctx context.Context) error
	// Close releases connections.
	Close() error
}
