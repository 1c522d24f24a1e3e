package receiver

import (
	"sync"
	"sync/atomic"

	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	shardCount = 32   // all arrivals of a timer are in one shard
	chunkLen   = 4096 // arrivals per chunk: growing copies nothing, and an arrival never moves
)

// record stores arrivals. Appending allocates once per chunk.
type record struct {
	total  atomic.Int64
	shards [shardCount]shard
}

type shard struct {
	mu     sync.Mutex
	chunks [][]Arrival
}

func (r *record) shard(id timer.ID) *shard {
	// Fibonacci hashing to the top 5 bits: ids of one millisecond differ only in their low bits.
	return &r.shards[uint64(id)*0x9E3779B97F4A7C15>>59] //nolint:gosec // an id is not negative
}

// add stores an arrival and returns its address, for answered.
func (r *record) add(a Arrival) *Arrival {
	s := r.shard(a.Fire.Timer)
	s.mu.Lock()
	n := len(s.chunks)
	if n == 0 || len(s.chunks[n-1]) == chunkLen {
		s.chunks = append(s.chunks, make([]Arrival, 0, chunkLen))
		n++
	}
	s.chunks[n-1] = append(s.chunks[n-1], a)
	c := s.chunks[n-1]
	at := &c[len(c)-1]
	s.mu.Unlock()
	r.total.Add(1)
	return at
}

// answered adds the answer to a stored arrival.
func (r *record) answered(a *Arrival, status uint16, doneNS int64) {
	s := r.shard(a.Fire.Timer)
	s.mu.Lock()
	a.Status, a.DoneNS = status, doneNS
	s.mu.Unlock()
}

func (r *record) of(id timer.ID) Arrivals {
	s := r.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	var out Arrivals
	for _, c := range s.chunks {
		for i := range c {
			if c[i].Fire.Timer == id {
				out = append(out, c[i])
			}
		}
	}
	return out
}

func (r *record) all() Arrivals {
	out := make(Arrivals, 0, r.total.Load())
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for _, c := range s.chunks {
			out = append(out, c...)
		}
		s.mu.Unlock()
	}
	return out
}

func (r *record) reset() {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for _, c := range s.chunks {
			r.total.Add(-int64(len(c)))
		}
		s.chunks = nil
		s.mu.Unlock()
	}
}
