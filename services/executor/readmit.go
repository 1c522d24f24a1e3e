package executor

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// raised reports whether new limits allow an app more than the old ones.
func raised(old, now limit.Settings) bool {
	more := func(old, now float64) bool { return old > 0 && (now == 0 || now > old) }
	return more(old.Rate, now.Rate) || more(float64(old.Concurrent), float64(now.Concurrent))
}

// readmitOnLimitChange advances fires that wait for the limits of their app once those are raised,
// until ctx ends. Otherwise each would wait for its retry-after time under the old limits, up to
// limit.MaxWait.
func (s *Service) readmitOnLimitChange(ctx context.Context) error {
	for {
		select {
		case t := <-s.cache.Apps.Changed():
			now, err := s.cache.Apps.Of(ctx, cache.AppQuestion{ID: t.ID, Name: t.Name})
			if err != nil || !raised(t.Limits, now.Limits) {
				continue // if the read failed, the app's next fire reads it
			}
			s.wheel.Advance(
				s.opts.Clock.Now().UnixMilli(),
				math.MaxInt,
				func(e *inflight.Entry) bool { return e.WaitedForLimit && e.Fire.AppID == t.ID },
			)
			if err := s.intake.Readmit(ctx, t.ID); err != nil {
				s.log.Debug().
					Err(err).
					Str("app", t.Name).
					Msg("deferred fires not advanced after a limit change")
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// Fires that were not found in the store are looked for again after lookAgainAfter, because they may
// not have reached it yet. While none is found, that time doubles up to lookAgainAtMost.
const (
	lookAgainAfter  = 100 * time.Millisecond
	lookAgainAtMost = 5 * time.Second
)

// readmissions are how many fires to take from the store, by app. Calls that end one after the other
// ask for one fire each, and one search finds all of them.
type readmissions struct {
	mu    sync.Mutex
	calls map[int64]limit.Spare // by id of the app
	wake  chan struct{}         // capacity 1
}

func newReadmissions() *readmissions {
	return &readmissions{calls: make(map[int64]limit.Spare), wake: make(chan struct{}, 1)}
}

func (r *readmissions) add(app int64, spare limit.Spare) {
	r.mu.Lock()
	defer r.mu.Unlock()
	spare.Calls += r.calls[app].Calls
	r.calls[app] = spare
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take removes and returns those of one app.
func (r *readmissions) take() (app int64, spare limit.Spare, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for app, spare := range r.calls {
		delete(r.calls, app)
		return app, spare, true
	}
	return 0, limit.Spare{}, false
}

// readmitForSpareCalls asks again for fires of apps that may make calls sooner than expected: for the
// soonest of those that wait here, and then for those that wait in the store. It ends with ctx. A
// fire that still cannot start waits again, as after its retry-after time.
func (s *Service) readmitForSpareCalls(ctx context.Context) error {
	for {
		select {
		case spare := <-s.opts.Limits.Spare():
			app := s.cache.Apps.Named(spare.App)
			if app == nil {
				s.opts.Limits.Unfound(spare.App, spare.Calls)
				continue
			}
			now := s.opts.Clock.Now()
			spare.Calls -= s.wheel.Advance(
				now.UnixMilli(),
				spare.Calls,
				func(e *inflight.Entry) bool {
					if e.Fire.AppID != app.ID || !e.Fire.WaitsForCall() || e.ToGiveBack {
						return false
					}
					if e.Fire.RunAtMS > now.UnixMilli() { // claimed ahead of its retry-after time
						e.MoveTo(now, s.opts.Counts)
					}
					return true
				},
			)
			if spare.Calls > 0 {
				s.readmissions.add(app.ID, spare)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// readmitStored carries out readmissions, until ctx ends. The store may take long to answer, and
// fires that wait in this process do not wait for it.
func (s *Service) readmitStored(ctx context.Context) error {
	again := make(map[int64]time.Duration) // by app, of those of which none was found
	for {
		select {
		case <-s.readmissions.wake:
		case <-ctx.Done():
			return nil
		}
		for ctx.Err() == nil {
			app, spare, ok := s.readmissions.take()
			if !ok {
				break
			}
			found, err := s.intake.ReadmitSome(ctx, app, spare.Calls)
			if err != nil {
				s.log.Debug().Err(err).Msg("deferred fires not advanced for spare calls")
			}
			if found > 0 {
				delete(again, app)
			}
			if found < spare.Calls {
				again[app] = min(max(2*again[app], lookAgainAfter), lookAgainAtMost)
				time.AfterFunc(again[app], func() {
					s.opts.Limits.Unfound(spare.App, spare.Calls-found)
				})
			}
		}
	}
}
