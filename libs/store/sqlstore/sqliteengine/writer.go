package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// The largest group of calls that share one commit. The first of them waits for all.
const (
	maxGroup     = 64
	maxGroupTime = 200 * time.Millisecond // after it, only urgent calls join
)

// writer is the only goroutine that writes to a SQLite database. Calls that arrive during a commit
// form the next group, which is one transaction with one fsync. Each call has a savepoint in it, so
// a call that fails does not affect the others.
//
// Urgent calls come before others, so they wait for one large call and not for all that came before
// them.
type writer struct {
	db     *sqlx.DB
	conn   *sqlx.Conn // nil before the first group, and after an error
	jobs   chan *job
	urgent chan *job
	quit   chan struct{}
	once   sync.Once
	wait   sync.WaitGroup
}

// job is one call.
type job struct {
	ctx   context.Context
	fn    engine.Work
	taken atomic.Bool // set by the writer, or by a caller that gave up first
	err   error
	done  chan struct{}
}

func startWriter(db *sqlx.DB) *writer {
	w := &writer{
		db:     db,
		jobs:   make(chan *job, maxGroup),
		urgent: make(chan *job, maxGroup),
		quit:   make(chan struct{}),
	}
	w.wait.Go(w.loop)
	return w
}

// stop ends the goroutine after the current group. Waiting calls fail.
func (w *writer) stop() {
	w.once.Do(func() { close(w.quit) })
	w.wait.Wait()
}

// connect returns the connection, which is kept.
func (w *writer) connect(ctx context.Context) (*sqlx.Conn, error) {
	if w.conn != nil {
		return w.conn, nil
	}
	conn, err := w.db.Connx(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	w.conn = conn
	return w.conn, nil
}

// disconnect returns the connection to its pool.
func (w *writer) disconnect() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// do runs fn and returns after its commit. It does not run fn if the context ends before. Once fn
// runs, do waits for it: it is part of a group, and takes only as long as the disk.
func (w *writer) do(ctx context.Context, queue chan<- *job, fn engine.Work) error {
	j := &job{ctx: ctx, fn: fn, done: make(chan struct{})}
	select {
	case <-w.quit:
		return engine.ErrClosed
	default:
	}
	select {
	case queue <- j:
	case <-w.quit:
		return engine.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx) //nolint:wrapcheck // the cause says it
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		if j.taken.CompareAndSwap(false, true) {
			return fmt.Errorf("waiting for the writer: %w", ctx.Err())
		}
	case <-w.quit:
		if j.taken.CompareAndSwap(false, true) {
			return engine.ErrClosed
		}
	}
	<-j.done
	return j.err
}

func (w *writer) loop() {
	defer w.disconnect()
	for {
		select {
		case j := <-w.urgent: // before the others, if there are both
			w.group(j)
		default:
		}
		select {
		case <-w.quit:
			return
		case j := <-w.urgent:
			w.group(j)
		case j := <-w.jobs:
			w.group(j)
		}
	}
}

// group runs the first call and those that wait behind it, and answers all of them after the
// commit.
func (w *writer) group(first *job) {
	var ran []*job
	defer func() {
		for _, j := range ran {
			close(j.done)
		}
	}()
	if !first.taken.CompareAndSwap(false, true) {
		return
	}
	ran = append(ran, first)
	// No call's context reaches the database. Its end would interrupt the connection and with it
	// the whole group.
	ctx := context.WithoutCancel(first.ctx)
	runtime.Gosched() // callers that are ready to run at the same tick join the group
	conn, err := w.connect(ctx)
	if err != nil {
		first.err = err
		return
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		w.disconnect()
		first.err = err
		return
	}
	began := time.Now()
	fatal := runInSavepoint(conn, first)
	for fatal == nil && len(ran) < maxGroup {
		j := w.next(time.Since(began) >= maxGroupTime)
		if j == nil {
			break
		}
		ran = append(ran, j)
		fatal = runInSavepoint(conn, j)
	}
	committing := fatal == nil
	if committing {
		_, fatal = conn.ExecContext(ctx, "COMMIT")
	}
	if fatal == nil {
		return
	}
	// This fails if the database has already rolled back by itself, which does no harm.
	_, _ = conn.ExecContext(ctx, "ROLLBACK")
	w.disconnect()
	for i, j := range ran {
		// What a call was refused for may be what another one of the group wrote, and is undone. Only
		// the call that made the group fail tells its own error.
		if j.err == nil || i < len(ran)-1 || committing {
			j.err = fmt.Errorf("committing: %w", fatal)
		}
	}
}

// next returns a waiting call, or nil. Urgent ones come first.
func (w *writer) next(onlyUrgent bool) *job {
	if j := take(w.urgent); j != nil || onlyUrgent {
		return j
	}
	return take(w.jobs)
}

// take returns a call of a queue whose caller has not given up, or nil.
func take(queue <-chan *job) *job {
	for {
		select {
		case j := <-queue:
			if j.taken.CompareAndSwap(false, true) {
				return j
			}
		default:
			return nil
		}
	}
}

// whyNoSavepoint returns why a call's savepoint could not be rolled back. On a full disk, for example,
// SQLite rolls back the whole transaction, and then there is no savepoint. The error of the call says
// so, and the others of the group need it: they may be repeated later.
func whyNoSavepoint(call, rollback error) error {
	cause, ok := errors.AsType[*sqlite.Error](call)
	if ok && Classify(cause) == engine.ClassUnavailable { // others are about the call's own rows
		return cause
	}
	return rollback
}

// runInSavepoint runs a call and stores its error. It returns an error if the whole transaction has
// failed, for example because the disk is full.
func runInSavepoint(conn *sqlx.Conn, j *job) error {
	ctx := context.WithoutCancel(j.ctx)
	if _, err := conn.ExecContext(ctx, "SAVEPOINT call"); err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	if j.err = j.fn(ctx, conn); j.err != nil {
		if _, err := conn.ExecContext(ctx, "ROLLBACK TO call"); err != nil {
			return fmt.Errorf("rolling back: %w", whyNoSavepoint(j.err, err))
		}
	}
	if _, err := conn.ExecContext(ctx, "RELEASE call"); err != nil {
		return fmt.Errorf("releasing: %w", err)
	}
	return nil
}
