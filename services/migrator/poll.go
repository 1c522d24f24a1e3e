package migrator

import (
	"context"

	"github.com/carillon-timer/carillon/libs/clock"
)

// due has the signals by which the poll starts work.
type due struct {
	timers, replans, backfills, jobs signal
}

func newDue(workers int) due {
	return due{
		timers:    make(signal, workers),
		replans:   make(signal, workers),
		backfills: make(signal, 1),
		jobs:      make(signal, 1),
	}
}

// signal wakes as many workers as it has room for.
type signal chan struct{}

// set wakes one more worker, unless that many are already to wake.
func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// wait waits for a signal. It returns false if ctx has ended.
func (s signal) wait(ctx context.Context) bool {
	select {
	case <-s:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// poll asks the store for work in one statement, because most polls find none, and wakes those who
// do it. A worker that fails is woken again by the next poll, because its work is still due.
func (s *Service) poll(ctx context.Context, due due) error {
	log := s.warnings()
	tick := clock.NewTicker(s.opts.Every)
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, expandTimeout)
		work, err := s.opts.Store.DueWork(call)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.met.errors.Inc()
			log.Warn().Err(err).Msg("store not polled for work")
			clock.Pause(ctx, retryAfter)
		}
		if err == nil && !work.Timers {
			s.lastSuccess.Set()
		}
		for range s.opts.Workers {
			setIf(work.Timers, due.timers)
			setIf(work.Replans, due.replans)
		}
		setIf(work.Backfills, due.backfills)
		setIf(work.Jobs, due.jobs)
		tick.Wait(ctx)
	}
	return nil
}

func setIf(work bool, s signal) {
	if work {
		s.set()
	}
}
