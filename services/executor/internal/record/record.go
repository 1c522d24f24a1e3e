package record

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/events"
	"github.com/carillon-timer/carillon/services/executor/internal/firetrace"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// maxUnrecorded is how many unwritten results stop new calls, about one second's worth. After a
// crash the unrecorded calls are repeated, so calls must not run far ahead of their records.
const maxUnrecorded = 8192

const (
	recorders = 2 // of results, and of idle: one prepares while the other waits for its commit
	// recordWait is how long a batch waits to fill. What is answered meanwhile is called again after
	// a crash. At 1,000 fires/s on real servers, 10 ms need a sixth less CPU than 4 ms.
	recordWait = 10 * time.Millisecond
	// serialWait is the same for outcomes for which other fires wait.
	serialWait     = 4 * time.Millisecond
	recordTimeout  = 10 * time.Second
	minRecordRetry = 200 * time.Millisecond // after an error; doubles up to maxRecordRetry
	maxRecordRetry = 5 * time.Second
)

type resultKind uint8

const (
	resultOutcome resultKind = iota // the fire has an outcome
	resultHold                      // a retry that stays in flight
	resultRelease                   // released, for a later retry or because this process stops
)

// result is what to write about an entry. The entry stays in flight until it is written.
type result struct {
	kind     resultKind
	entry    *inflight.Entry
	outcome  timer.Outcome // for resultOutcome
	attempts []timer.Attempt
}

// Store is the part of the store that a recorder uses.
type Store interface {
	store.Recorder
	RecordAttempts(
		ctx context.Context,
		session timer.ID,
		fires []timer.Fire,
		attempts []timer.Attempt,
	) (lost []timer.FireID, err error)
	Release(
		ctx context.Context,
		session timer.ID,
		fires []timer.Fire,
		attempts []timer.Attempt,
	) (released []timer.Fire, err error)
}

// Dispatcher dispatches fires that a record has released or created.
type Dispatcher interface {
	Committed(ctx context.Context, fires []timer.Fire)
}

// Options of a recorder. Its functions must not block.
type Options struct {
	Store    Store
	Dispatch Dispatcher
	Inflight *inflight.Set
	Events   *events.Publisher
	Ended    func(e *inflight.Entry)     // the fire has an outcome, not recorded yet
	Held     func(es ...*inflight.Entry) // the attempts of these fires are recorded
	Room     func()                      // the recorder is no longer full
	// Unconfirmed is told a fire that the session may still own, though it has left the in-flight set.
	Unconfirmed func(f timer.Fire)
	Traces      *firetrace.Traces // nil: tracing is off
	// Current returns whether a version is, as far as it is known, the present one of a timer that
	// is not deleted.
	Current func(id timer.ID, version int32) bool

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Recorder writes results in batches; results that arrive during a write go into the next batch.
type Recorder struct {
	opts    Options
	log     zerolog.Logger
	skips   zerolog.Logger // rate-limited
	met     *metrics
	timers  *timerMetrics
	results batchQueue
	serial  batchQueue // outcomes that pass on a concurrency slot or create a successor
	// idle has the releases of fires without an attempt to record. Any number of them may come at
	// once, as when this process stops, and a result behind them would come too late: its call would
	// be repeated. Nothing needs them in order with the results, because a fire has one unwritten
	// result at a time, and recorders write several batches at once anyway.
	idle    batchQueue
	writing atomic.Int64 // results that are being written
	// unrecorded counts the unwritten results.
	unrecorded atomic.Int64
	dispatches sync.WaitGroup
}

// New returns a recorder without results.
func New(o Options) *Recorder {
	newQueue := func(wait time.Duration) batchQueue {
		return batchQueue{wake: make(chan struct{}, 1), wait: wait}
	}
	r := &Recorder{
		opts: o,
		log:  o.Logger,
		skips: o.Logger.Sample(
			&zerolog.BurstSampler{Burst: logging.SkipLines, Period: time.Second},
		),
		results: newQueue(recordWait),
		serial:  newQueue(serialWait),
		idle:    newQueue(recordWait),
	}
	r.met = newMetrics(o.Registerer, r.Waiting)
	r.timers = newTimerMetrics(o.Registerer, o.Current, o.Logger)
	return r
}

// TimerChanged tells the recorder the present state of a timer that was changed.
func (r *Recorder) TimerChanged(s *timer.State) { r.timers.changed(s) }

// ChangesMissed tells the recorder that it may not have been told every change.
func (r *Recorder) ChangesMissed() { r.timers.clear() }

// End records the outcome of a fire, with attempts that are not recorded yet.
func (r *Recorder) End(o timer.Outcome, e *inflight.Entry, as ...timer.Attempt) {
	r.opts.Ended(e)
	r.opts.Traces.Decided(e)
	if !e.Canary() {
		r.opts.Events.Expect(e.Epoch, &o)
	}
	p := &r.results
	if o.Serial || o.Next != nil {
		p = &r.serial
	}
	r.unrecorded.Add(1)
	p.put(&result{kind: resultOutcome, entry: e, outcome: o, attempts: as})
}

// Hold records a retry that stays in flight.
func (r *Recorder) Hold(e *inflight.Entry, as ...timer.Attempt) {
	r.unrecorded.Add(1)
	r.results.put(&result{kind: resultHold, entry: e, attempts: as})
}

// Release gives a fire back to the store, with attempts that are not recorded yet.
func (r *Recorder) Release(e *inflight.Entry, as ...timer.Attempt) {
	r.opts.Traces.Decided(e)
	p := &r.idle
	if len(as) > 0 {
		p = &r.results
	}
	r.unrecorded.Add(1)
	p.put(&result{kind: resultRelease, entry: e, attempts: as})
}

// Full reports whether too many results are unwritten to start another call.
func (r *Recorder) Full() bool { return r.unrecorded.Load() >= maxUnrecorded }

// Waiting returns the number of unwritten results.
func (r *Recorder) Waiting() int {
	return r.results.len() + r.serial.len() + r.idle.len() + int(r.writing.Load())
}

// Run writes until ctx ends. Results not written by then are lost with the process, and their fires
// are called again.
func (r *Recorder) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range recorders {
		wg.Go(func() { r.loop(ctx, &r.results) })
		wg.Go(func() { r.loop(ctx, &r.idle) })
	}
	wg.Go(func() { r.loop(ctx, &r.serial) })
	wg.Wait()
	r.dispatches.Wait()
}

func (r *Recorder) loop(ctx context.Context, p *batchQueue) {
	for {
		batch := p.next(ctx, &r.writing)
		if batch == nil {
			return
		}
		for epoch, kinds := range byEpoch(batch) {
			for kind, rs := range kinds {
				if len(rs) > 0 {
					r.retryUntilWritten(ctx, epoch, resultKind(kind), rs)
				}
			}
		}
		r.writing.Add(-int64(len(batch)))
		if r.unrecorded.Add(-int64(len(batch))) >= maxUnrecorded-int64(len(batch)) {
			r.opts.Room()
		}
	}
}

func byEpoch(batch []*result) map[*session.Epoch]*[3][]*result {
	groups := make(map[*session.Epoch]*[3][]*result, 1)
	for _, x := range batch {
		g := groups[x.entry.Epoch]
		if g == nil {
			g = new([3][]*result)
			groups[x.entry.Epoch] = g
		}
		g[x.kind] = append(g[x.kind], x)
	}
	return groups
}

// retryUntilWritten writes one group of results and retries until it succeeds or ctx ends.
// Repeating a write after an unknown result is safe: the store reports the fires that this session
// no longer owns. After the session has expired, results still count for fires that nobody took
// over.
func (r *Recorder) retryUntilWritten(
	ctx context.Context,
	epoch *session.Epoch,
	kind resultKind,
	rs []*result,
) {
	wait := minRecordRetry
	for {
		call, cancel := context.WithTimeout(ctx, recordTimeout)
		err := r.write(call, epoch, kind, rs)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		r.met.errors.Inc()
		r.log.Warn().Err(err).Int("results", len(rs)).Msg("results not recorded, retrying")
		clock.Pause(ctx, wait)
		wait = min(2*wait, maxRecordRetry) //nolint:mnd // doubles
	}
}

func (r *Recorder) write(
	ctx context.Context,
	epoch *session.Epoch,
	kind resultKind,
	rs []*result,
) error {
	fires := make([]timer.Fire, len(rs))
	outcomes := make([]timer.Outcome, 0, len(rs))
	var attempts []timer.Attempt
	entries := make([]*inflight.Entry, len(rs))
	for i, x := range rs {
		fires[i], entries[i] = x.entry.Fire, x.entry
		attempts = append(attempts, x.attempts...)
		if kind == resultOutcome {
			outcomes = append(outcomes, x.outcome)
		}
	}
	r.met.batch.Observe(float64(len(rs)))
	switch kind {
	case resultHold:
		lost, err := r.opts.Store.RecordAttempts(ctx, epoch.ID, fires, attempts)
		if err != nil {
			return err //nolint:wrapcheck // the store says what failed
		}
		kept, gone := split(entries, lost)
		r.opts.Inflight.Remove(gone...)
		r.opts.Held(kept...)
	case resultRelease:
		released, err := r.opts.Store.Release(ctx, epoch.ID, fires, attempts)
		if err != nil {
			return err //nolint:wrapcheck // the store says what failed
		}
		for _, e := range entries {
			r.opts.Traces.Recorded(e, nil)
		}
		// First leave the in-flight set: the task may come back to this process.
		r.opts.Inflight.Remove(entries...)
		r.dispatch(ctx, released)
	case resultOutcome:
		lost, created, err := r.opts.Store.Record(ctx, epoch.ID, outcomes, attempts)
		if err != nil {
			return err //nolint:wrapcheck // the store says what failed
		}
		r.opts.Inflight.Remove(entries...)
		r.claimRefused(rs, lost)
		r.dispatch(ctx, created)
		r.countRecorded(rs, lost)
	}
	return nil
}

// claimRefused has the fires claimed again that are not superseded after all, because their rows have
// moved. The store refuses their outcomes, and this session owns them still. Of a fire that has
// ended, or has another owner, the claim wins nothing.
func (r *Recorder) claimRefused(rs []*result, lost []timer.FireID) {
	gone := idSet(lost)
	for _, x := range rs {
		if x.outcome.Reason == timer.ReasonSuperseded && gone[x.outcome.FireID] {
			r.opts.Unconfirmed(x.entry.Fire)
		}
	}
}

// dispatch dispatches fires without waiting for it: while Pulsar or Redis is unavailable that takes
// seconds, in which other results would wait, and with them the fires that take their turn. A fire
// that is not dispatched is found by the store polls.
func (r *Recorder) dispatch(ctx context.Context, fires []timer.Fire) {
	if len(fires) > 0 {
		r.dispatches.Go(func() { r.opts.Dispatch.Committed(ctx, fires) })
	}
}

// countRecorded counts recorded outcomes and passes them to the event publisher.
func (r *Recorder) countRecorded(rs []*result, lost []timer.FireID) {
	gone := idSet(lost)
	r.met.fenced.Add(float64(len(lost)))
	for i := range rs {
		o := &rs[i].outcome
		if rs[i].entry.Canary() {
			continue
		}
		recorded := events.Event{
			Outcome:   *o,
			App:       rs[i].entry.App,
			Name:      rs[i].entry.Name,
			Session:   rs[i].entry.Epoch.ID,
			PerTarget: rs[i].entry.ToAllTargets(),
			LastError: rs[i].entry.LastError,
		}
		if gone[o.FireID] {
			r.opts.Traces.Recorded(rs[i].entry, nil)
			r.opts.Events.Settle(recorded)
			continue
		}
		r.opts.Traces.Recorded(rs[i].entry, o)
		r.logSkip(rs[i].entry, o)
		r.met.outcomes.WithLabelValues(string(o.Kind), string(o.Reason)).Inc()
		r.met.apps.recorded(rs[i].entry.App, o)
		r.timers.recorded(rs[i].entry, o)
		r.opts.Events.Put(recorded)
	}
}

// logSkip logs a fire that is not called. In a burst it logs some of them; the events have all.
func (r *Recorder) logSkip(e *inflight.Entry, o *timer.Outcome) {
	if o.Kind != timer.Skipped {
		return
	}
	line := r.skips.Info().
		Str(logging.App, e.App).
		Str(logging.TimerName, e.Name).
		Stringer(logging.Timer, o.Timer).
		Stringer(logging.Fire, o.FireID).
		Str(logging.Reason, string(o.Reason))
	if id := r.opts.Traces.SampledID(e); id != "" {
		line.Str(logging.TraceID, id)
	}
	line.Msg(logging.FireSkipped)
}

func split(es []*inflight.Entry, lost []timer.FireID) (kept, gone []*inflight.Entry) {
	set := idSet(lost)
	for _, e := range es {
		if set[e.Fire.FireID] {
			gone = append(gone, e)
		} else {
			kept = append(kept, e)
		}
	}
	return kept, gone
}

func idSet(ids []timer.FireID) map[timer.FireID]bool {
	if len(ids) == 0 {
		return nil
	}
	set := make(map[timer.FireID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// batchQueue is a queue of results. The size of the in-flight set bounds it.
type batchQueue struct {
	mu    sync.Mutex
	items []*result
	wake  chan struct{} // capacity 1
	wait  time.Duration // for a batch to fill
}

func (p *batchQueue) put(r *result) {
	p.mu.Lock()
	p.items = append(p.items, r)
	p.mu.Unlock()
	p.signal()
}

func (p *batchQueue) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *batchQueue) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.items)
}

// next waits for results, lets a batch fill, takes it, and adds its size to taken. It returns nil
// when ctx has ended.
func (p *batchQueue) next(ctx context.Context, taken *atomic.Int64) []*result {
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return nil
		}
		if p.len() < store.MaxBatch {
			clock.Pause(ctx, p.wait)
		}
		p.mu.Lock()
		n := min(store.MaxBatch, len(p.items))
		batch := append([]*result(nil), p.items[:n]...)
		clear(p.items[:n])
		p.items = p.items[n:]
		if len(p.items) == 0 {
			p.items = nil
		}
		taken.Add(int64(n))
		left := len(p.items)
		p.mu.Unlock()
		if left > 0 {
			p.signal() // for the other recorder, or for the next call
		}
		if n > 0 {
			return batch
		}
	}
}
