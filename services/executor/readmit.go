package executor

import (
	"context"

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
