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
	completionsOfFire    = 4    // begun and not answered: one and its repetitions
	completionsOfAddress = 2048 // the same, of one address
)

// shares bound how much is done in the store at once for those who show a valid token. Nobody is
// refused while they are taken: who asks waits for his turn, within his request's time. An address
// has at most half of them, so that one that repeats old tokens leaves others room.
type shares struct {
	all  *semaphore.Weighted
	half int64

	mu        sync.Mutex
	addresses map[netip.Addr]*addressShare
	fires     map[timer.FireID]int
}

type addressShare struct {
	turns *semaphore.Weighted
	users int
}

func newShares(n int) *shares {
	return &shares{
		all: semaphore.NewWeighted(int64(n)), half: max(int64(n)/2, 1), //nolint:mnd // half
		addresses: make(map[netip.Addr]*addressShare), fires: make(map[timer.FireID]int),
	}
}

// completing is one completion whose token is valid.
type completing struct {
	of      *shares
	fire    timer.FireID
	address netip.Addr
	own     *addressShare
}

// enter begins a completion. It is refused where its fire or its address has too many already. Call
// leave at its end.
func (s *shares) enter(f timer.FireID, a netip.Addr) (*completing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.addresses[a]
	if s.fires[f] >= completionsOfFire || own != nil && own.users >= completionsOfAddress {
		return nil, false
	}
	if own == nil {
		own = &addressShare{turns: semaphore.NewWeighted(s.half)}
		s.addresses[a] = own
	}
	own.users++
	s.fires[f]++
	return &completing{s, f, a, own}, true
}

func (c *completing) leave() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.fires[c.fire]--; c.of.fires[c.fire] == 0 {
		delete(c.of.fires, c.fire)
	}
	if c.own.users--; c.own.users == 0 {
		delete(c.of.addresses, c.address)
	}
}

// turn does something in the store, when it is this one's turn. Those who came first go first.
func (c *completing) turn(ctx context.Context, do func() error) error {
	for _, turns := range []*semaphore.Weighted{c.own.turns, c.of.all} {
		if err := turns.Acquire(ctx, 1); err != nil {
			return timer.Unavailable("no answer in time", err)
		}
		defer turns.Release(1)
	}
	return do()
}
