package order

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/hold"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// Store is the part of the store that a sequencer uses.
type Store interface {
	store.LateFires
	OldestOpen(ctx context.Context) (int64, error)
}

// Planner computes the due times before one.
type Planner interface {
	Before(t *timer.Timer, dueMS, fromMS, sinceMS, untilMS int64, n int) ([]int64, error)
}

// Options of a sequencer.
type Options struct {
	Store    Store
	Planner  Planner
	Clock    *clock.Clock
	Inflight *inflight.Set
	Wheel    *hold.Wheel // fires go there when they may start
	// Claim claims fires like a late store poll, without waiting for room.
	Claim func(ctx context.Context, fires []timer.Fire) error
	Room  func() int             // how many late fires may be claimed
	Alive func() []store.Session // as of the last poll of the sessions; nil: unknown

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Sequencer starts the first attempts of a timer's late fires in order of due time, for misfire
// policy fire_all. Late fires arrive in any order: by several topics, store polls. Each
// joins the sequence of its timer. It starts once no earlier open fire of the timer is without an
// attempt.
//
// The schedule gives the possible earlier fires. Expansion goes in order of due time, so their rows
// existed before. One goroutine reads the rows of all sequences together, by primary key. It claims
// the unowned ones, because their tasks could take long. An answer stays true, because a fire that
// was attempted or has ended never becomes unattempted again. An activation restarts the sequence.
//
// Fires that wait for ones that were deferred, because the timer is inactive, are decided again, and
// are deferred too. If the timer's pause has ended, and the store has not released the deferred
// fires yet, later fires wait for that.
//
// Two executors at once: the earliest fire waits for none, so they never wait for each other in a
// circle. Each marks the fires it has started in their rows for the others. After a crash the
// session expires, and other executors claim its fires. A fire that waits for stallAfter without
// progress starts out of order, and is counted. It waits as long as the earliest one is in flight in
// this process, where it may wait for a worker.
type Sequencer struct {
	opts      Options
	log       zerolog.Logger
	unordered prometheus.Counter
	wake      chan struct{} // capacity 1

	mu        sync.Mutex
	sequences map[timer.ID]*sequence
	started   []started
	closed    bool
}

// started is a fire whose first attempt starts, to be marked for other executors.
type started struct {
	session timer.ID
	fire    timer.Fire
}

// New returns a sequencer without fires.
func New(o Options) *Sequencer {
	return &Sequencer{
		opts: o,
		log:  o.Logger,
		unordered: promauto.With(o.Registerer).NewCounter(prometheus.CounterOpts{
			Name: "carillon_executor_unordered_fires_total",
			Help: "Late fires of fire_all that were called before an earlier one of their timer, after waiting in vain.",
		}),
		wake:      make(chan struct{}, 1),
		sequences: make(map[timer.ID]*sequence),
	}
}

// Join reports whether a fire may start. Otherwise the fire belongs to the sequence, which returns
// it to the wheel.
func (q *Sequencer) Join(w *LateFire, epoch int64) bool {
	w.id = w.Fire.FireID
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.opts.Wheel.Add(w.Entry) // the drain empties the wheel
		return false
	}
	seq := q.sequences[w.Fire.Timer]
	switch {
	case seq == nil:
		seq = &sequence{epoch: epoch}
		q.sequences[w.Fire.Timer] = seq
	case seq.epoch < epoch:
		seq = &sequence{
			epoch:      epoch,
			waiting:    seq.waiting,
			passed:     seq.passed,
			progressAt: seq.progressAt,
		}
		q.sequences[w.Fire.Timer] = seq
	}
	if len(seq.waiting) == 0 {
		seq.progressAt = time.Now()
	}
	i := seq.index(w.id.DueMS)
	seq.waiting = slices.Insert(seq.waiting, i, w)
	if !seq.ready() {
		q.signal()
		return false
	}
	next := seq.begin()
	if next == w.Entry && time.Since(seq.passed) >= spacingMS*time.Millisecond {
		return true
	}
	q.begin(next)
	return false
}

// begin starts a fire in a moment.
func (q *Sequencer) begin(e *inflight.Entry) {
	q.opts.Wheel.AddAt(q.opts.Clock.Now().UnixMilli()+spacingMS, e)
}

func (q *Sequencer) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Called records that the first attempt of a fire starts, also for other executors.
func (q *Sequencer) Called(e *inflight.Entry) {
	q.mu.Lock()
	q.started = append(q.started, started{e.Epoch.ID, e.Fire})
	q.mu.Unlock()
	q.signal()
	q.Passed(e.Fire.FireID)
}

// Passed lets the next fire start. This one starts, ends, or waits for a limit or a slot, which
// have their own order.
func (q *Sequencer) Passed(id timer.FireID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if seq := q.sequences[id.Timer]; seq != nil {
		seq.passed = time.Now()
		if seq.remove(id.DueMS); seq.ready() {
			q.begin(seq.begin())
		}
	}
}

// Leave is Passed for a fire that may have no sequence: it has ended, or waits for something else.
func (q *Sequencer) Leave(e *inflight.Entry) {
	if e.Ordered {
		q.Passed(e.Fire.FireID)
	}
}

// Close returns the waiting fires. After it no fire waits.
func (q *Sequencer) Close() (left []*inflight.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for id, seq := range q.sequences {
		for _, w := range seq.waiting {
			left = append(left, w.Entry)
		}
		delete(q.sequences, id)
	}
	return left
}

// Run polls the store until ctx ends. While polls take long, it pauses longer: late fires by the
// thousand, where the store is what is slow, would else cost more reads than calls.
func (q *Sequencer) Run(ctx context.Context) {
	again := time.NewTimer(idleKept)
	defer again.Stop()
	var rested time.Time
	for {
		select {
		case <-q.wake:
			clock.Pause(ctx, max(gatherFor, time.Until(rested)))
		case <-again.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		after := q.poll(ctx)
		rest := restShare * time.Since(began)
		rested = time.Now().Add(rest)
		again.Reset(max(after, rest))
	}
}
