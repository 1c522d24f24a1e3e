package pickup

import (
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Shard is an executor's part of the buckets.
type Shard struct{ Index, Count int32 }

// ShardOf returns the shard of an executor's session among the alive ones. A session that is not
// among them gets all buckets, because fires found twice are claimed once.
//
// Each turn moves every shard to the next executor. So the buckets of an executor that is alive and
// claims nothing wait for the length of a turn.
func ShardOf(alive []store.Session, id timer.ID, turn int64) Shard {
	place, count, found := int64(0), int64(0), false
	for _, l := range alive {
		if l.Kind != store.ExecutorSession {
			continue
		}
		count++
		if l.ID < id {
			place++
		}
		found = found || l.ID == id
	}
	if !found {
		return Shard{Count: 1}
	}
	//nolint:gosec // there are few executors
	return Shard{Index: int32((place + turn) % count), Count: int32(count)}
}

// Has reports whether a bucket belongs to the shard.
func (s Shard) Has(bucket int32) bool { return bucket%s.Count == s.Index }

// turnAt returns the number of the turn at an instant. Executors agree on it, because they correct
// their clocks by the store's.
func turnAt(now time.Time) int64 { return now.UnixMilli() / turnLength.Milliseconds() }
