package fires

import (
	"context"
	"net/netip"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Limits on the concurrent completions of callers with a valid token.
const (
	maxCompletionsPerFire    = 4    // in progress: one and its repetitions
	maxCompletionsPerAddress = 2048 // in progress, from one address
)

// completionLimiter limits the concurrent store calls of completions with a valid token. A
// completion waits for a free slot within its request's time. One address gets at most half of the
// slots, so that repeated old tokens leave room for others.
type completionLimiter struct {
	all        *semaphore.Weighted
	perAddress int64

	mu        sync.Mutex
	addresses map[netip.Addr]*addressLimit
	fires     map[timer.FireID]int
}

type addressLimit struct {
	slots *semaphore.Weighted
	users int
}

func newCompletionLimiter(n int) *completionLimiter {
	return &completionLimiter{
		all: semaphore.NewWeighted(int64(n)), perAddress: max(int64(n)/2, 1), //nolint:mnd // half
		addresses: make(map[netip.Addr]*addressLimit), fires: make(map[timer.FireID]int),
	}
}

// completionPermit is one completion with a valid token.
type completionPermit struct {
	limiter  *completionLimiter
	fire     timer.FireID
	address  netip.Addr
	ownLimit *addressLimit
}

// admit registers a completion. It returns false where the fire or the address has too many in
// progress. Call release at its end.
func (s *completionLimiter) admit(f timer.FireID, a netip.Addr) (*completionPermit, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ownLimit := s.addresses[a]
	if s.fires[f] >= maxCompletionsPerFire ||
		ownLimit != nil && ownLimit.users >= maxCompletionsPerAddress {
		return nil, false
	}
	if ownLimit == nil {
		ownLimit = &addressLimit{slots: semaphore.NewWeighted(s.perAddress)}
		s.addresses[a] = ownLimit
	}
	ownLimit.users++
	s.fires[f]++
	return &completionPermit{s, f, a, ownLimit}, true
}

func (c *completionPermit) release() {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if c.limiter.fires[c.fire]--; c.limiter.fires[c.fire] == 0 {
		delete(c.limiter.fires, c.fire)
	}
	if c.ownLimit.users--; c.ownLimit.users == 0 {
		delete(c.limiter.addresses, c.address)
	}
}

// withSlot runs a store call when a slot is free. Waiters are served in order of arrival.
func (c *completionPermit) withSlot(ctx context.Context, do func() error) error {
	for _, slots := range []*semaphore.Weighted{c.ownLimit.slots, c.limiter.all} {
		if err := slots.Acquire(ctx, 1); err != nil {
			return timer.Unavailable("no answer in time", err)
		}
		defer slots.Release(1)
	}
	return do()
}
