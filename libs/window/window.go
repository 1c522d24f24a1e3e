package window

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TTL is how long a slice outlives the end of its minute.
const TTL = 10 * time.Minute

// Slice names one minute × bucket.
type Slice struct {
	Minute int64 // since 1970
	Bucket int32
}

// SliceOf returns the slice that a fire's mark belongs to.
func SliceOf(f *timer.Fire) Slice { return Slice{Minute: f.RunAtMinute(), Bucket: f.Bucket} }

// Page is what Range found.
type Page struct {
	Generation string // the slice's generation now; empty: there is none
	Fires      []timer.Fire
	More       bool // the limit cut it: ask again from the last RunAtMS on
}

// Window holds marks. It is safe for concurrent use.
type Window interface {
	// Put marks fires, each in the slice that its RunAtMS and Bucket name. A fire's Owner, Sweeps
	// and Done are not kept.
	Put(ctx context.Context, fires []timer.Fire) error
	// Open returns the generation of a slice, and makes one where there is none.
	Open(ctx context.Context, s Slice) (generation string, err error)
	// Range returns marks with fromMS < run <= toMS. Where the limit would cut through one
	// instant's marks it returns all of that instant, so that a caller who goes on from the last
	// run loses none: limit is a hint, not a bound.
	Range(ctx context.Context, s Slice, fromMS, toMS int64, limit int) (Page, error)
	// Drop forgets a slice.
	Drop(ctx context.Context, s Slice) error
	// Ping asks whether the window answers.
	Ping(ctx context.Context) error
	// Close releases connections.
	Close() error
}
