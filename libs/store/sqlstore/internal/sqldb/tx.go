package sqldb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/timer"
)

// A transaction that was rolled back because of another one is run up to maxTries times, with waits
// of up to maxBackoff.
const (
	maxTries     = 20
	firstBackoff = 2 * time.Millisecond
	maxBackoff   = 100 * time.Millisecond
)

// Work is what a transaction does.
type Work = func(ctx context.Context, c Runner) error

// Write runs fn in a transaction. fn may run several times, so it must set all of its results each
// time.
func (s *DB) Write(ctx context.Context, what string, fn Work) error {
	return s.attempt(ctx, what, s.Engine.Transact, fn)
}

// Autocommit runs one statement that commits by itself. It returns the number of matched rows.
func (s *DB) Autocommit(
	ctx context.Context,
	what string,
	q func() *Statement,
) (n int64, err error) {
	return s.runSingle(ctx, what, s.Engine.Autocommit, q)
}

// Urgent is autocommit for leases and session renewals.
func (s *DB) Urgent(ctx context.Context, what string, q func() *Statement) (n int64, err error) {
	return s.runSingle(ctx, what, s.Engine.Urgent, q)
}

func (s *DB) runSingle(
	ctx context.Context,
	what string,
	run func(context.Context, func(context.Context, Runner) error) error,
	q func() *Statement,
) (n int64, err error) {
	err = s.attempt(ctx, what, run, func(ctx context.Context, c Runner) error {
		var err error
		n, err = s.Exec(ctx, c, q())
		return err
	})
	return n, err
}

// Read runs reads. Each sees what was committed when it began.
func (s *DB) Read(
	ctx context.Context,
	what string,
	fn func(ctx context.Context, c sqlx.QueryerContext) error,
) error {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	if s.faults.wait(ctx).read {
		return timer.Unavailable(what, errInjected)
	}
	return s.Dialect.Translate(what, fn(ctx, s.Engine.Reader()))
}

// attempt runs fn with run, and repeats it if it was rolled back because of another transaction. It
// never repeats a commit whose answer was lost: only the caller knows the effect of a repetition. A
// dry run is a transaction that is rolled back.
//
// In a cluster, a commit may be refused as a deadlock, and so may a statement that commits by
// itself. No node has applied it then, so it may be repeated: fn reads what it decides by again.
func (s *DB) attempt(
	ctx context.Context,
	what string,
	run func(context.Context, func(context.Context, Runner) error) error,
	fn Work,
) error {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	// After a stall of the process, this may run before the context's timer does.
	if at, _ := ctx.Deadline(); !time.Now().Before(at) {
		return s.Dialect.Translate(what, context.DeadlineExceeded)
	}
	p := s.faults.wait(ctx)
	dry := store.IsDryRun(ctx)
	if dry {
		run, fn = s.Engine.Transact, s.dryRun(fn)
	}
	backoff := firstBackoff
	for try := 1; ; try++ {
		err := run(ctx, func(ctx context.Context, c Runner) error {
			if p.before {
				return timer.Unavailable(what, errInjected)
			}
			return fn(ctx, c)
		})
		switch {
		case dry && errors.Is(err, errDryRun):
			return nil
		case err == nil && p.after:
			return timer.Unavailable(what, errInjected)
		case err == nil || s.Dialect.ClassOf(err) != engine.ClassRepeat || try == maxTries || ctx.Err() != nil:
			translated := s.Dialect.Translate(what, err)
			s.noteWrite(ctx, err, translated)
			return translated
		}
		if !errors.Is(err, engine.ErrRepeat) {
			s.Log.Debug().Err(err).Str("doing", what).Int("try", try).Msg("transaction repeated")
		}
		pause(ctx, time.Duration(rand.Int64N(int64(backoff)))) // jitter
		backoff = min(2*backoff, maxBackoff)
	}
}

// Bounded adds the store's timeout to a context without an earlier deadline.
func (s *DB) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= s.Timeout {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(
		ctx,
		s.Timeout,
		fmt.Errorf("the store took longer than %v", s.Timeout),
	)
}
