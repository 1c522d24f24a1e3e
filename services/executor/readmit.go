package executor

import (
	"context"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// maxReadmissions is how many apps look for deferred fires in the store at once. Those of one app
// must not wait for another's.
const maxReadmissions = 8

// reviseShare bounds the revision to this part of the time, if there are thousands of apps to look at.
const reviseShare = 20

// readmitOnLimitChange advances fires that wait for the limits of their app once those are raised,
// until ctx ends. Otherwise each would wait for its retry-after time under the old limits, up to
// limit.MaxWait.
func (s *Service) readmitOnLimitChange(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(maxReadmissions)
	for {
		select {
		case was := <-s.cache.Apps.Changed():
			// Before the search, for which an app may wait: reading the limits makes them apply. If they
			// cannot be read, the app's next fire reads them.
			now, err := s.cache.Apps.Of(ctx, cache.AppQuestion{ID: was.ID, Name: was.Name})
			if err == nil && now.Limits.Raised(was.Limits) {
				g.Go(func() error { s.readmitAll(ctx, now); return nil })
			}
		case <-ctx.Done():
			return g.Wait() //nolint:wrapcheck // there is none
		}
	}
}

// readmitAll advances the fires of an app whose limits are higher than they were.
func (s *Service) readmitAll(ctx context.Context, app *cache.App) {
	s.advance(app.ID, math.MaxInt, app.Name)
	if err := s.intake.Readmit(ctx, app.ID, app.Name); err != nil {
		s.log.Debug().
			Err(err).
			Str("app", app.Name).
			Msg("deferred fires not advanced after a limit change")
	}
}

// reviseWaits corrects the estimates by which fires wait for the limits of their app, until ctx ends.
// Fires whose turn comes much later than expected leave the wait list. Where calls may start sooner,
// it asks again for fires that are deferred. A fire that still cannot start waits again, as after its
// retry-after time.
func (s *Service) reviseWaits(ctx context.Context) error {
	var searches errgroup.Group
	searches.SetLimit(maxReadmissions)
	for {
		select {
		case <-s.opts.Limits.Waiting():
		case <-ctx.Done():
			return searches.Wait() //nolint:wrapcheck // there is none
		}
		pause := limit.ReviseEvery
		for more := true; more && ctx.Err() == nil; {
			clock.Pause(ctx, pause)
			began := time.Now()
			var r limit.Revision
			r, more = s.opts.Limits.Revise()
			s.deliverer.Defer(r.Deferrals)
			for _, spare := range r.Spares {
				s.readmitSome(ctx, &searches, spare)
			}
			pause = max(limit.ReviseEvery, reviseShare*time.Since(began))
		}
	}
}

// readmitSome asks again for some fires of an app: for the soonest of those that wait here, and then
// for those that wait in the store, which may take long to answer. Where too many apps search, this
// one is asked for again.
func (s *Service) readmitSome(ctx context.Context, searches *errgroup.Group, spare limit.Spare) {
	id, found := s.cache.Apps.ID(spare.App), 0
	if id != 0 {
		found = s.advance(id, spare.Calls, spare.App)
	}
	if id == 0 || found == spare.Calls {
		s.opts.Limits.Found(spare, found)
		return
	}
	if searches.TryGo(func() error {
		rest := limit.Spare{App: spare.App, Calls: spare.Calls - found}
		stored, err := s.intake.ReadmitSome(ctx, id, rest)
		if err != nil {
			s.log.Debug().Err(err).Msg("deferred fires not advanced for spare calls")
		}
		s.opts.Limits.Found(spare, found+stored)
		return nil
	}) {
		return
	}
	if found == 0 {
		found = limit.NotLooked
	}
	s.opts.Limits.Found(spare, found)
}

// advance makes fires of an app due that wait here for a call of it, at most a number, and returns how
// many. Some of them were claimed ahead of their retry-after times, and may run now.
func (s *Service) advance(app int64, most int, askedFor string) int {
	now := s.opts.Clock.Now()
	return s.wheel.Advance(now.UnixMilli(), app, most, func(e *inflight.Entry) {
		e.AskedFor = askedFor
		if e.Fire.RunAtMS > now.UnixMilli() {
			e.MoveTo(now, s.opts.Counts)
		}
	})
}

// ended notes that a fire has an outcome. If it was asked for and has not asked itself, it was
// skipped.
func (s *Service) ended(e *inflight.Entry) {
	s.order.Leave(e)
	if e.AskedFor != "" {
		s.opts.Limits.NotAsked(e.AskedFor, e.Priority())
	}
}
