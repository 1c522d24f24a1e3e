package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/timer"
)

// A transaction that was rolled back for another's sake is repeated so many times, after waits up
// to maxBackoff.
const (
	maxTries     = 20
	firstBackoff = 2 * time.Millisecond
	maxBackoff   = 100 * time.Millisecond
)

// engine is how a database runs what the store asks of it.
type engine interface {
	// transact runs fn in one transaction and commits it. An error of fn rolls back.
	transact(ctx context.Context, fn func(ctx context.Context, tx runner) error) error
	// alone runs fn, one statement, outside of any transaction of the store's: the database commits
	// it by itself.
	alone(ctx context.Context, fn func(ctx context.Context, c runner) error) error
	// urgent is alone for leases and proofs of life, which shall not wait behind batches.
	urgent(ctx context.Context, fn func(ctx context.Context, c runner) error) error
	// reader is where to read what is committed.
	reader() sqlx.QueryerContext
	close() error
}

type work = func(ctx context.Context, c runner) error

// write runs fn in a transaction. fn may run several times, each time from the start: it sets all
// that it hands out.
func (s *Store) write(ctx context.Context, what string, fn work) error {
	return s.attempt(ctx, what, s.engine.transact, fn)
}

// alone runs a single statement that commits by itself, and returns how many rows it matched.
func (s *Store) alone(ctx context.Context, what string, q func() *statement) (n int64, err error) {
	return s.single(ctx, what, s.engine.alone, q)
}

// urgent is alone for leases and proofs of life.
func (s *Store) urgent(ctx context.Context, what string, q func() *statement) (n int64, err error) {
	return s.single(ctx, what, s.engine.urgent, q)
}

func (s *Store) single(
	ctx context.Context,
	what string,
	run func(context.Context, func(context.Context, runner) error) error,
	q func() *statement,
) (n int64, err error) {
	err = s.attempt(ctx, what, run, func(ctx context.Context, c runner) error {
		var err error
		n, err = s.exec(ctx, c, q())
		return err
	})
	return n, err
}

// read runs reads, each of which sees what was committed when it began.
func (s *Store) read(
	ctx context.Context,
	what string,
	fn func(ctx context.Context, c sqlx.QueryerContext) error,
) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if s.faults.wait(ctx).read {
		return timer.Unavailable(what, errInjected)
	}
	return s.dialect.translate(what, fn(ctx, s.engine.reader()))
}

// attempt runs fn by run and repeats it where it was rolled back for another's sake. A commit whose
// answer was lost is not repeated: only the caller knows what that would do.
func (s *Store) attempt(
	ctx context.Context,
	what string,
	run func(context.Context, func(context.Context, runner) error) error,
	fn work,
) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	// a process that stood still may come here before its timers do.
	if at, _ := ctx.Deadline(); !time.Now().Before(at) {
		return s.dialect.translate(what, context.DeadlineExceeded)
	}
	p := s.faults.wait(ctx)
	backoff := firstBackoff
	for try := 1; ; try++ {
		err := run(ctx, func(ctx context.Context, c runner) error {
			if p.before {
				return timer.Unavailable(what, errInjected)
			}
			return fn(ctx, c)
		})
		switch {
		case err == nil && p.after:
			return timer.Unavailable(what, errInjected)
		case err == nil || s.dialect.classOf(err) != classRepeat || try == maxTries || ctx.Err() != nil:
			return s.dialect.translate(what, err)
		}
		if !errors.Is(err, errRepeat) {
			s.log.Debug().Err(err).Str("doing", what).Int("try", try).Msg("transaction repeated")
		}
		pause(ctx, time.Duration(rand.Int64N(int64(backoff)))) // jitter
		backoff = min(2*backoff, maxBackoff)
	}
}

// bounded gives a context that has no nearer deadline the store's own.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= s.timeout {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(
		ctx,
		s.timeout,
		fmt.Errorf("the store took longer than %v", s.timeout),
	)
}
