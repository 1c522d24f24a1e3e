package executor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxUnrecorded is how many results may wait for their record before no more calls are begun: about
// a second's. The calls of an executor that dies are made again where they were not recorded, so
// they never run far ahead.
const maxUnrecorded = 8192

const (
	recorders      = 2                    // one prepares while the other waits for its commit
	recordWait     = 4 * time.Millisecond // for a batch to fill
	recordTimeout  = 10 * time.Second
	recordAgain    = 200 * time.Millisecond // after an error; doubles up to recordAgainMax
	recordAgainMax = 5 * time.Second
)

type resultKind uint8

const (
	resultEnd     resultKind = iota // an outcome
	resultHold                      // a retry that stays in hand
	resultRelease                   // given back, for a later retry or because this process stops
)

// result is what is to be written of an entry. It stays in hand until it is written.
type result struct {
	kind     resultKind
	entry    *held
	outcome  timer.Outcome // resultEnd
	attempts []timer.Attempt
}

// recorder writes results in batches: what comes while a batch is written goes into the next.
// Failed fires go a way of their own, since their dead letters wait for the bus, and no delivery
// shall wait with them.
type recorder struct {
	svc     *Service
	results pile
	linked  pile // outcomes that hand a turn on, or set off the next of a chain
	failed  pile
	writing atomic.Int64
	// results that wait, less the failed ones, which may wait for a broker that is away.
	behind atomic.Int64
}

func newRecorder(s *Service) *recorder {
	pileOf := func() pile { return pile{wake: make(chan struct{}, 1)} }
	return &recorder{svc: s, results: pileOf(), linked: pileOf(), failed: pileOf()}
}

func (r *recorder) end(o timer.Outcome, e *held, as ...timer.Attempt) {
	if !e.canary() {
		r.svc.events.expect(e.term, &o)
	}
	p := &r.results
	if o.Serial || o.Next != nil {
		p = &r.linked
	}
	if o.Kind == timer.Failed {
		p = &r.failed
	} else {
		r.behind.Add(1)
	}
	p.put(result{kind: resultEnd, entry: e, outcome: o, attempts: as})
}

func (r *recorder) hold(e *held, as ...timer.Attempt) {
	r.behind.Add(1)
	r.results.put(result{kind: resultHold, entry: e, attempts: as})
}

func (r *recorder) release(e *held, as ...timer.Attempt) {
	r.behind.Add(1)
	r.results.put(result{kind: resultRelease, entry: e, attempts: as})
}

// full tells whether too much waits for its record for another call.
func (r *recorder) full() bool { return r.behind.Load() >= maxUnrecorded }

// waiting returns how many results are not written yet.
func (r *recorder) waiting() int {
	return r.results.len() + r.linked.len() + r.failed.len() + int(r.writing.Load())
}

// run writes until ctx ends. A result that could not be written by then is lost with the process,
// and its fire called again.
func (r *recorder) run(ctx context.Context) {
	var wg sync.WaitGroup
	for range recorders {
		wg.Go(func() { r.loop(ctx, &r.results) })
	}
	wg.Go(func() { r.loop(ctx, &r.linked) })
	wg.Go(func() { r.loop(ctx, &r.failed) })
	wg.Wait()
}

func (r *recorder) loop(ctx context.Context, p *pile) {
	for {
		batch := p.next(ctx, &r.writing)
		if batch == nil {
			return
		}
		for term, kinds := range byTerm(batch) {
			for kind, rs := range kinds {
				if len(rs) > 0 {
					r.insist(ctx, term, resultKind(kind), rs)
				}
			}
		}
		r.writing.Add(-int64(len(batch)))
		if p != &r.failed && r.behind.Add(-int64(len(batch))) >= maxUnrecorded-int64(len(batch)) {
			r.svc.queue.wake()
		}
	}
}

func byTerm(batch []result) map[*session.Epoch]*[3][]result {
	groups := make(map[*session.Epoch]*[3][]result, 1)
	for _, x := range batch {
		g := groups[x.entry.term]
		if g == nil {
			g = new([3][]result)
			groups[x.entry.term] = g
		}
		g[x.kind] = append(g[x.kind], x)
	}
	return groups
}

// insist writes one group, again and again until it is written: a result in hand stays in hand.
// Each write may be repeated after an unknown result; the store says what was no longer ours. The
// session may be dead by now: what it did counts where nobody took over.
func (r *recorder) insist(ctx context.Context, term *session.Epoch, kind resultKind, rs []result) {
	wait := recordAgain
	for {
		call, cancel := context.WithTimeout(ctx, recordTimeout)
		err := r.write(call, term, kind, rs)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		r.svc.met.recordErrors.Inc()
		r.svc.log.Warn().Err(err).Int("results", len(rs)).Msg("results not recorded, trying again")
		clock.Pause(ctx, wait)
		wait = min(2*wait, recordAgainMax) //nolint:mnd // doubles
	}
}

func (r *recorder) write(
	ctx context.Context,
	term *session.Epoch,
	kind resultKind,
	rs []result,
) error {
	s := r.svc
	fires := make([]timer.Fire, len(rs))
	outcomes := make([]timer.Outcome, 0, len(rs))
	var attempts []timer.Attempt
	entries := make([]*held, len(rs))
	for i, x := range rs {
		fires[i], entries[i] = x.entry.fire, x.entry
		attempts = append(attempts, x.attempts...)
		if kind == resultEnd {
			outcomes = append(outcomes, x.outcome)
		}
	}
	s.met.recordBatch.Observe(float64(len(rs)))
	switch kind {
	case resultHold:
		lost, err := s.opts.Store.RecordAttempts(ctx, term.ID, fires, attempts)
		if err != nil {
			return err //nolint:wrapcheck // the store says what it was doing
		}
		kept, gone := split(entries, lost)
		s.hands.drop(gone...)
		s.wheel.add(kept...)
	case resultRelease:
		released, err := s.opts.Store.Release(ctx, term.ID, fires, attempts)
		if err != nil {
			return err //nolint:wrapcheck // the store says what it was doing
		}
		// Out of the hands first: its task may come back to this very process.
		s.hands.drop(entries...)
		s.opts.Dispatch.Committed(ctx, released)
	default:
		if err := s.bury(ctx, rs); err != nil {
			return err
		}
		lost, made, err := s.opts.Store.Record(ctx, term.ID, outcomes, attempts)
		if err != nil {
			return err //nolint:wrapcheck // the store says what it was doing
		}
		s.hands.drop(entries...)
		if len(made) > 0 {
			s.opts.Dispatch.Committed(ctx, made)
		}
		s.ended(rs, lost)
	}
	return nil
}

// ended counts and announces outcomes that were recorded.
func (s *Service) ended(rs []result, lost []timer.FireID) {
	gone := idSet(lost)
	s.met.outcomesLost.Add(float64(len(lost)))
	for i := range rs {
		o := &rs[i].outcome
		if rs[i].entry.canary() {
			continue
		}
		told := event{*o, rs[i].entry.app, rs[i].entry.term.ID, rs[i].entry.toEach()}
		if gone[o.FireID] {
			s.events.settle(told)
			continue
		}
		s.met.outcomes.WithLabelValues(string(o.Kind), string(o.Reason)).Inc()
		s.met.apps.recorded(rs[i].entry.app, o)
		s.events.put(told)
	}
}

func split(es []*held, lost []timer.FireID) (kept, gone []*held) {
	set := idSet(lost)
	for _, e := range es {
		if set[e.fire.FireID] {
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

// pile is a queue of results; the hands bound what can be in it.
type pile struct {
	mu    sync.Mutex
	items []result
	wake  chan struct{} // has room for one
}

func (p *pile) put(r result) {
	p.mu.Lock()
	p.items = append(p.items, r)
	p.mu.Unlock()
	p.ring()
}

func (p *pile) ring() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pile) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.items)
}

// next waits for results, gives a batch a moment to fill, and takes it, counting it in taken. It
// returns nil when ctx has ended.
func (p *pile) next(ctx context.Context, taken *atomic.Int64) []result {
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return nil
		}
		if p.len() < store.MaxBatch {
			clock.Pause(ctx, recordWait)
		}
		p.mu.Lock()
		n := min(store.MaxBatch, len(p.items))
		batch := append([]result(nil), p.items[:n]...)
		clear(p.items[:n])
		p.items = p.items[n:]
		if len(p.items) == 0 {
			p.items = nil
		}
		taken.Add(int64(n))
		left := len(p.items)
		p.mu.Unlock()
		if left > 0 {
			p.ring() // for the other recorder, or for this one's next turn
		}
		if n > 0 {
			return batch
		}
	}
}
