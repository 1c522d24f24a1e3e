// Package slicing divides time into slices: an instant belongs to a minute, and a fire to one of
// the minute's buckets. The number of buckets follows the number of fires expected in the minute.
// So a busy minute has many slices, and each is the work of one trigger.
//
// The package calls no server. Counts remembers which bucket counts were committed. Counts only
// grow, so a stale count is too low, and that is safe: no fire gets a bucket above the committed
// count of its minute.
package slicing

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Defaults. One trigger moves about 20,000 tasks a second, so a slice of 10,000 takes it half a
// second.
const (
	DefaultPerBucket       = 10_000
	MaxBuckets       int32 = 256
)

// Growth is what a process added to a minute.
type Growth struct {
	Minute  int64 // since 1970
	Added   int64 // fires since the last flush
	Buckets int32 // wanted number of buckets
}

// MinuteCount is the committed state of a minute.
type MinuteCount struct {
	Minute   int64
	Buckets  int32
	Estimate int64 // fires inserted so far by all processes, one flush behind
	Frozen   bool  // the count cannot grow any more
}

// Counts holds the bucket counts of minutes for one process. It is safe for concurrent use.
type Counts struct {
	perBucket int64
	mu        sync.Mutex
	minutes   map[int64]*minute
	changed   []int64 // minutes with added fires, in any order
}

type minute struct {
	buckets  int32 // committed
	estimate int64 // committed
	added    int64 // fires since the last Take
}

// NewCounts returns empty counts that want one bucket for every perBucket fires of a minute.
func NewCounts(perBucket int) *Counts {
	return &Counts{perBucket: int64(max(perBucket, 1)), minutes: make(map[int64]*minute)}
}

// Bucket chooses the bucket of a fire that runs in the given minute, and counts the fire.
func (c *Counts) Bucket(f timer.FireID, runMinute int64) int32 {
	c.mu.Lock()
	n := c.add(runMinute, 1).buckets
	c.mu.Unlock()
	if n <= 1 {
		return 0
	}
	var b [24]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(f.Timer))   //nolint:gosec // bits for a hash
	binary.LittleEndian.PutUint64(b[8:], uint64(f.DueMS))   //nolint:gosec // bits for a hash
	binary.LittleEndian.PutUint64(b[16:], uint64(f.Series)) //nolint:gosec // bits for a hash
	return int32(xxhash.Sum64(b[:]) % uint64(n))            //nolint:gosec // below n, an int32
}

// Take returns the fires counted since the last Take, with the number of buckets wanted, and resets
// the tallies. If the flush fails, pass the result to Return.
func (c *Counts) Take() []Growth {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.changed) == 0 {
		return nil
	}
	out := make([]Growth, 0, len(c.changed))
	for _, at := range c.changed {
		m := c.minutes[at]
		want := min((m.estimate+m.added)/c.perBucket+1, int64(MaxBuckets))
		//nolint:gosec // bounded
		out = append(out, Growth{Minute: at, Added: m.added, Buckets: max(int32(want), m.buckets)})
		m.added = 0
	}
	c.changed = c.changed[:0]
	slices.SortFunc(out, func(a, b Growth) int { return int(a.Minute - b.Minute) })
	return out
}

// Return adds the result of a Take that was not flushed back to the tallies.
func (c *Counts) Return(gs []Growth) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range gs {
		c.add(g.Minute, g.Added)
	}
}

// Refresh merges committed counts. It never lowers a count.
func (c *Counts) Refresh(ms []MinuteCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range ms {
		m := c.at(n.Minute)
		m.buckets = max(m.buckets, n.Buckets)
		m.estimate = max(m.estimate, n.Estimate)
	}
}

// Drop removes the minutes before the given one, except those with unflushed tallies.
func (c *Counts) Drop(before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, m := range c.minutes {
		if at < before && m.added == 0 {
			delete(c.minutes, at)
		}
	}
}

func (c *Counts) add(minuteNo, fires int64) *minute {
	m := c.at(minuteNo)
	if m.added == 0 && fires > 0 {
		c.changed = append(c.changed, minuteNo)
	}
	m.added += fires
	return m
}

func (c *Counts) at(minuteNo int64) *minute {
	m := c.minutes[minuteNo]
	if m == nil {
		m = &minute{buckets: 1}
		c.minutes[minuteNo] = m
	}
	return m
}
