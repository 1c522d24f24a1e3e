package api

import (
	"context"
	"net/netip"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/carillon-timer/carillon/libs/timer"
)

// What those who show a token may do at once.
const (
	maxCompletionsPerFire    = 4    // begun and not answered: one and its repetitions
	maxCompletionsPerAddress = 2048 // the same, of one address
)

// completionLimiter bound how much is done in the store at once for those who show a valid token. Nobody is
// refused while they are taken: who asks waits for his turn, within his request's time. An address
// has at most half of them, so that one that repeats old tokens leaves others room.
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

// completionPermit is one completion whose token is valid.
type completionPermit struct {
	limiter  *completionLimiter
	fire     timer.FireID
	address  netip.Addr
	ownLimit *addressLimit
}

// admit begins a completion. It is refused where its fire or its address has too many already. Call
// leave at its end.
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

// withSlot does something in the store, when it is this one's turn. Those who came first go first.
func (c *completionPermit) withSlot(ctx context.Context, do func() error) error {
	for _, slots := range []*semaphore.Weighted{c.ownLimit.slots, c.limiter.all} {
		if err := slots.Acquire(ctx, 1); err != nil {
			return timer.Unavailable("no answer in time", err)
		}
		defer slots.Release(1)
	}
	return do()
}
