package lookup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/services/executor/internal/hold"
)

// ErrClosed answers the questions left when a reader closes.
var ErrClosed = errors.New("lookup is closed")

// Options configure a Reader.
type Options struct {
	Max         int           // questions per round trip; at least 1
	Concurrency int           // concurrent round trips; at least 1
	Wait        time.Duration // how long the first question of a batch waits for others
	Timeout     time.Duration // of one round trip; 0 means none
	// PerApp puts the questions of only one app into a batch, and makes one round trip per app at a
	// time. So an app whose answers do not come delays no other app.
	PerApp bool
}

// Answer is the answer to one question.
type Answer[A any] struct {
	Value A
	Sent  time.Time // when the round trip began: the answer is at least as new
	Err   error
}

// Reader answers questions of one kind in batches. Asking never blocks, so a question costs no
// goroutine while it waits. The fires in flight bound the number of questions. Questions of higher
// priority go first by weight, and within a priority apps take turns.
type Reader[Q, A any] struct {
	opts Options
	read func(context.Context, []Q) ([]A, error)

	ctx   context.Context //nolint:containedctx // of the round trips, until Close
	close context.CancelFunc
	trips sync.WaitGroup

	mu      sync.Mutex
	groups  map[int64]*group[Q, A] // by app, or a single one; those with questions or round trips
	waiting []*group[Q, A]         // those that may begin a round trip
	running int                    // round trips
	pending int                    // questions without an answer
	closed  bool
}

// group holds the questions whose round trips do not delay those of other groups.
type group[Q, A any] struct {
	app       int64
	queue     hold.Queue[question[Q, A]]
	running   int
	gathering int  // of the running ones: those that have not taken their questions yet
	waiting   bool // in Reader.waiting
}

type question[Q, A any] struct {
	q    Q
	done func(Answer[A])
}

// New returns a reader without questions. read gets between 1 and Max questions, and returns one
// answer for each, in order, or one error for all.
func New[Q, A any](
	opts Options,
	read func(context.Context, []Q) ([]A, error),
) *Reader[Q, A] {
	opts.Max, opts.Concurrency = max(opts.Max, 1), max(opts.Concurrency, 1)
	r := &Reader[Q, A]{opts: opts, read: read, groups: make(map[int64]*group[Q, A])}
	r.ctx, r.close = context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	return r
}

// Ask asks a question for a fire of an app. done gets the answer, exactly once, on a goroutine of
// the reader. It must not block, because the other answers of the batch wait for it.
func (r *Reader[Q, A]) Ask(app int64, p limit.Priority, q Q, done func(Answer[A])) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		done(Answer[A]{Err: ErrClosed})
		return
	}
	defer r.mu.Unlock()
	at := int64(0)
	if r.opts.PerApp {
		at = app
	}
	l := r.groups[at]
	if l == nil {
		l = &group[Q, A]{app: at}
		r.groups[at] = l
	}
	l.queue.Push(p, app, question[Q, A]{q, done})
	r.pending++
	r.begin(l)
}

// Pending returns the number of questions without an answer.
func (r *Reader[Q, A]) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending
}

// Close ends the round trips, answers all questions with an error, and waits until that is done.
func (r *Reader[Q, A]) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.close()
	r.trips.Wait()
	r.mu.Lock()
	var left []question[Q, A]
	for _, l := range r.groups {
		for l.queue.Len() > 0 {
			left = append(left, l.queue.Pop())
		}
	}
	clear(r.groups)
	r.mu.Unlock()
	for _, q := range left {
		q.done(Answer[A]{Err: ErrClosed})
	}
	r.mu.Lock()
	r.pending -= len(left)
	r.mu.Unlock()
}

// begin begins the round trips that the group needs, as far as the limits allow, and those of other
// groups before it. The caller holds the lock.
func (r *Reader[Q, A]) begin(l *group[Q, A]) {
	most := r.opts.Concurrency
	if r.opts.PerApp {
		most = 1
	}
	if l.running < most && l.queue.Len() > l.gathering*r.opts.Max && !l.waiting {
		l.waiting = true
		r.waiting = append(r.waiting, l)
	}
	for len(r.waiting) > 0 && r.running < r.opts.Concurrency && !r.closed {
		next := r.waiting[0]
		r.waiting = r.waiting[1:]
		next.waiting = false
		next.running++
		next.gathering++
		r.running++
		r.trips.Go(func() { r.trip(next) })
	}
}

// trip makes one round trip, and lets the next begin.
func (r *Reader[Q, A]) trip(l *group[Q, A]) {
	if r.opts.Max > 1 && r.opts.Wait > 0 {
		clock.Pause(r.ctx, r.opts.Wait)
	}
	r.mu.Lock()
	asked := make([]question[Q, A], 0, min(r.opts.Max, l.queue.Len()))
	for len(asked) < r.opts.Max && l.queue.Len() > 0 {
		asked = append(asked, l.queue.Pop())
	}
	l.gathering--
	r.begin(l)
	r.mu.Unlock()
	if len(asked) > 0 {
		r.answer(asked)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending -= len(asked)
	l.running--
	r.running--
	if l.queue.Len() == 0 && l.running == 0 && !l.waiting {
		delete(r.groups, l.app)
	}
	r.begin(l)
}

func (r *Reader[Q, A]) answer(asked []question[Q, A]) {
	ctx, cancel := r.ctx, context.CancelFunc(func() {})
	if r.opts.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, r.opts.Timeout)
	}
	defer cancel()
	questions := make([]Q, len(asked))
	for i := range asked {
		questions[i] = asked[i].q
	}
	sent := time.Now()
	answers, err := r.read(ctx, questions)
	if err == nil && len(answers) != len(asked) {
		err = fmt.Errorf("lookup of %d questions returned %d answers", len(asked), len(answers))
	}
	for i := range asked {
		a := Answer[A]{Sent: sent, Err: err}
		if err == nil {
			a.Value = answers[i]
		}
		asked[i].done(a)
	}
}
