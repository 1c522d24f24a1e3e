package trigger

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
)

// renewEvery is the time between renewals of the leases. Several renewals in a row may fail before
// a lease of 5 s expires.
const renewEvery = time.Second

var errLeaseLost = errors.New("slice lease lost: another token or holder has the slice")

// lease is this process's right to publish a slice. It counts from when the last renewal was sent,
// by the monotonic clock, so it ends before the store's row says so.
type lease struct {
	claim  store.SliceClaim
	length time.Duration
	ctx    context.Context //nolint:containedctx // ends with the lease
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	sent time.Time // when the last successful renewal was sent
}

// valid reports whether the slice may be published now.
func (l *lease) valid() bool {
	if l.ctx.Err() != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.sent) < l.length
}

// leases are the leases that this process holds.
type leases struct {
	length time.Duration
	mu     sync.Mutex
	set    map[store.SliceClaim]*lease
}

func newLeases(length time.Duration) *leases {
	return &leases{length: length, set: make(map[store.SliceClaim]*lease)}
}

// add returns nil if the claim is held already.
func (s *leases) add(ctx context.Context, c store.SliceClaim, sent time.Time) *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set[c] != nil {
		return nil
	}
	l := &lease{claim: c, length: s.length, sent: sent}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	s.set[c] = l
	return l
}

func (s *leases) remove(l *lease) {
	l.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, l.claim)
}

func (s *leases) all() []*lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*lease, 0, len(s.set))
	for _, l := range s.set {
		out = append(out, l)
	}
	return out
}

// renew renews the leases until ctx ends. It has its own goroutine, so that no blocked publish
// delays it.
func (s *Service) renew(ctx context.Context) error {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		all := s.leases.all()
		if len(all) == 0 {
			continue
		}
		claims := make([]store.SliceClaim, len(all))
		for i, l := range all {
			claims[i] = l.claim
		}
		sent := time.Now()
		call, cancel := context.WithTimeout(ctx, holdTimeout)
		lost, err := s.opts.Store.RenewSlices(call, s.opts.Holder, claims, s.opts.Lease)
		cancel()
		if err != nil {
			s.log.Debug().Err(err).Msg("slices not renewed")
			continue
		}
		gone := make(map[store.SliceClaim]bool, len(lost))
		for _, c := range lost {
			gone[c] = true
		}
		for _, l := range all {
			if gone[l.claim] {
				l.cancel(errLeaseLost)
				continue
			}
			l.mu.Lock()
			l.sent = sent
			l.mu.Unlock()
		}
	}
}
