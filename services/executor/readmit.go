package executor

import (
	"context"
	"math"

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

// maxReadmissions is how many readmissions may wait for the store.
const maxReadmissions = 64

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
			n := s.wheel.Advance(
				s.opts.Clock.Now().UnixMilli(),
				spare.Calls,
				func(e *inflight.Entry) bool {
					return e.Fire.AppID == app.ID && e.Fire.WaitsForCall() && !e.ToGiveBack
				},
			)
			if n == spare.Calls {
				continue
			}
			spare.Calls -= n
			select {
			case s.readmissions <- readmission{app, spare}:
			default: // others are looked for; these wait until their retry-after time
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// readmission asks for fires of an app that wait in the store.
type readmission struct {
	app *cache.App
	limit.Spare
}

// readmitStored carries out readmissions, until ctx ends. The store may take long to answer, and
// fires that wait in this process do not wait for it.
func (s *Service) readmitStored(ctx context.Context) error {
	for {
		select {
		case r := <-s.readmissions:
			found, err := s.intake.ReadmitSome(ctx, r.app.ID, r.Calls)
			if err != nil {
				s.log.Debug().Err(err).Msg("deferred fires not advanced for spare calls")
			} else if found < r.Calls {
				s.opts.Limits.Unfound(r.App, r.Calls-found)
			}
		case <-ctx.Done():
			return nil
		}
	}
}
