package order

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const (
	gatherFor = time.Millisecond // to collect late fires that arrive together
	// spacingMS is the time between first attempts of a timer, so that requests do not
	// overtake each other.
	spacingMS   = 2
	pollEvery   = 100 * time.Millisecond // between polls for the fires that late ones wait for
	pollTimeout = 5 * time.Second
	restShare   = 2 // the pause after a poll, in times of how long it took
	// frontMax is how many earlier fires per timer one poll reads again and claims.
	frontMax = 100
	readMax  = 20 * store.MaxBatch // fires read by one poll
	// claimMin is how many fires one poll may claim in any case: fires in flight may wait for
	// just these.
	claimMin = 10
	idleKept = 10 * time.Second // how long an empty sequence is kept
	// stallAfter is how long late fires wait without progress. That is longer than a lost session's
	// fires take to be claimed again, after an outage of the store too.
	stallAfter = session.Grace + 5*time.Second
	// blindStallAfter is the same while the store does not answer and the earliest fire is unknown.
	blindStallAfter = time.Minute
)

// poll is one poll of the store for all sequences.
type poll struct {
	q     *Sequencer
	now   time.Time
	seqs  map[timer.ID]*sequence   // at the start of the poll
	fresh map[timer.ID][]*LateFire // fires of sequences after knownMS, by due time
	ids   []timer.FireID           // fires to read
	known map[timer.ID]int64       // the knownMS of sequences once ids are read
}

// poll starts the fires that need not wait, and returns the time until the next poll.
func (q *Sequencer) poll(ctx context.Context) (after time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	q.storeStarted(ctx)
	l := &poll{
		q:     q,
		now:   time.Now(),
		seqs:  make(map[timer.ID]*sequence),
		fresh: make(map[timer.ID][]*LateFire),
		known: make(map[timer.ID]int64),
	}
	l.gather()
	if len(l.ids)+len(l.fresh) > 0 {
		rows, err := l.read(ctx)
		if err != nil {
			q.log.Debug().Err(err).Msg("order of late fires not read, fires delayed")
		}
		l.apply(rows, err == nil)
	}
	if free := q.claimable(l.now); len(free) > 0 {
		if err := q.opts.Claim(ctx, free); err != nil {
			q.log.Debug().Err(err).Msg("fires that late ones wait for not claimed")
		}
	}
	return q.release(l.now)
}

// storeStarted marks started fires in their rows. If that is lost, other executors wait until the
// attempt is recorded.
func (q *Sequencer) storeStarted(ctx context.Context) {
	q.mu.Lock()
	all := q.started
	q.started = nil
	q.mu.Unlock()
	if alive := q.opts.Alive(); alive != nil &&
		executorsOf(alive) < 2 { //nolint:mnd // one is alone
		return
	}
	bySession := make(map[timer.ID][]timer.Fire, 1)
	for _, b := range all {
		bySession[b.session] = append(bySession[b.session], b.fire)
	}
	for session, fires := range bySession {
		if err := q.opts.Store.Begin(ctx, session, fires); err != nil {
			q.log.Debug().Err(err).Msg("started late fires not marked")
		}
	}
}

func executorsOf(sessions []store.Session) (n int) {
	for i := range sessions {
		if sessions[i].Kind == store.ExecutorSession {
			n++
		}
	}
	return n
}

// gather chooses the fires to read: always those after knownMS, and periodically those that others
// wait for.
func (l *poll) gather() {
	q := l.q
	var dropped []*inflight.Entry
	q.mu.Lock()
	for id, seq := range q.sequences {
		seq.waiting = slices.DeleteFunc(seq.waiting, func(w *LateFire) bool {
			over := w.Epoch.Context().Err() != nil
			if over {
				dropped = append(dropped, w.Entry)
			}
			return over
		})
		if len(seq.waiting) == 0 {
			continue
		}
		l.seqs[id] = seq
		if fresh := seq.beyond(); len(fresh) > 0 && len(l.fresh) < readMax {
			l.fresh[id], l.known[id] = slices.Clone(fresh), seq.knownMS
		}
		if l.now.Sub(seq.polledAt) < pollEvery || len(l.ids) >= readMax/2 {
			continue // the rest is for new arrivals, which may wait for nothing
		}
		seq.polledAt = l.now
		for _, f := range seq.front() {
			l.ids = append(l.ids, f.FireID)
		}
	}
	q.mu.Unlock()
	q.opts.Inflight.Remove(dropped...)
}

// read returns the rows of open fires: those gathered, and those due between knownMS and the
// waiting fires.
func (l *poll) read(ctx context.Context) (rows map[timer.FireID]timer.Fire, err error) {
	if err := l.addFresh(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(l.ids, timer.CompareFireIDs)
	l.ids = slices.Compact(l.ids)
	rows = make(map[timer.FireID]timer.Fire)
	for part := range slices.Chunk(l.ids, store.MaxBatch) {
		open, err := l.q.opts.Store.OpenAmong(ctx, part)
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what failed
		}
		for _, f := range open {
			rows[f.FireID] = f
		}
	}
	return rows, nil
}

// addFresh adds the fires that may precede new arrivals. None is older than the oldest open fire,
// so a short backlog takes few reads.
func (l *poll) addFresh(ctx context.Context) error {
	if len(l.fresh) == 0 {
		return nil
	}
	oldestMS, err := l.q.opts.Store.OldestOpen(ctx)
	if err != nil {
		return err //nolint:wrapcheck // the store says what failed
	}
	if oldestMS == 0 {
		oldestMS = timer.NeverMS // by the store's clock no open fire is past its run time
	}
	for id, fresh := range l.fresh {
		for _, w := range fresh {
			if len(l.ids) >= readMax {
				break
			}
			from := w.CatchUpMS
			if !w.Deferred { // a deferred fire is not overdue, so the oldest open fire may be younger
				from = max(from, oldestMS)
			}
			from -= time.Duration(w.Timer.Definition.Schedule.Jitter).Milliseconds()
			dues, err := l.before(w, max(from, l.known[id]+1))
			if err != nil {
				l.q.log.Warn().
					Err(err).
					Stringer("fire", w.id).
					Msg("schedule not readable, late fire is called")
			}
			for _, due := range dues {
				l.ids = append(l.ids, timer.FireID{Timer: id, DueMS: due})
			}
			l.ids = append(l.ids, w.id)
			l.known[id] = w.id.DueMS
		}
	}
	return nil
}

// before returns the earlier instants that a fire may wait for: the latest of the backlog that
// misfire.max_fires counts, and those of an outage before its pause.
func (l *poll) before(w *LateFire, fromMS int64) ([]int64, error) {
	read := func(sinceMS int64) ([]int64, error) {
		from := max(
			fromMS,
			sinceMS-time.Duration(w.Timer.Definition.Schedule.Jitter).Milliseconds(),
		)
		return l.q.opts.Planner.Before(w.Timer, w.id.DueMS, from, sinceMS, w.UntilMS, w.Limit)
	}
	all, err := read(0)
	if err != nil || w.SinceMS == 0 {
		return all, err
	}
	counted, err := read(w.SinceMS)
	return append(all, counted...), err
}

// apply updates the sequences by the rows read.
func (l *poll) apply(rows map[timer.FireID]timer.Fire, answered bool) {
	q := l.q
	began := q.opts.Inflight.Began(l.ids)
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, seq := range l.seqs {
		switch {
		case q.sequences[id] != seq:
			delete(l.seqs, id) // restarted meanwhile
		case !answered:
			seq.blind = true
		case seq.blind:
			seq.blind, seq.progressAt = false, l.now
		}
	}
	if !answered {
		return
	}
	for _, id := range l.ids {
		seq := l.seqs[id.Timer]
		if seq == nil {
			continue
		}
		row, open := rows[id]
		_, there := seq.find(id.DueMS)
		switch {
		case !open || row.Attempt > 0 || row.FirstLatenessMS > 0 || row.State != timer.FireReady || began[id]:
			seq.remove(id.DueMS)
		case there || id.DueMS > seq.knownMS: // otherwise it has started or ended meanwhile
			seq.add(&row)
		}
	}
	for id, known := range l.known {
		if seq := l.seqs[id]; seq != nil {
			seq.knownMS = max(seq.knownMS, known)
		}
	}
	for _, seq := range l.seqs {
		if seq.heldBack() {
			q.decideAgain(seq)
		}
	}
}

// decideAgain returns the waiting fires of a timer that has become inactive. They are deferred too,
// or join again.
func (q *Sequencer) decideAgain(seq *sequence) {
	at := q.opts.Clock.Now().Add(pollEvery).UnixMilli()
	for _, w := range seq.waiting {
		q.opts.Wheel.AddAt(at, w.Entry)
	}
	seq.waiting, seq.open, seq.knownMS = nil, nil, 0
}

// claimable returns fires that late ones wait for and that no alive session owns.
func (q *Sequencer) claimable(now time.Time) (free []timer.Fire) {
	room := max(claimMin, q.opts.Room())
	live := make(map[timer.ID]bool)
	alive := q.opts.Alive()
	for i := range alive {
		live[alive[i].ID] = true
	}
	nowMS := q.opts.Clock.Now().UnixMilli()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, seq := range q.sequences {
		if seq.blind || !seq.polledAt.Equal(now) {
			continue
		}
		for _, f := range seq.front() {
			if owned := f.Owner != 0 &&
				(alive == nil || live[f.Owner]); len(free) < room && !owned &&
				f.RunAtMS <= nowMS {
				free = append(free, *f)
			}
		}
	}
	return free
}

// release starts the fires that may start, and returns the time until the next poll.
func (q *Sequencer) release(now time.Time) (after time.Duration) {
	after = idleKept
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, seq := range q.sequences {
		if len(seq.waiting) == 0 {
			if now.Sub(seq.progressAt) >= idleKept {
				delete(q.sequences, id)
			}
			continue
		}
		stall := stallAfter
		if seq.blind {
			stall = blindStallAfter
		}
		if !seq.blind && len(seq.open) > 0 && q.opts.Inflight.Has(seq.open[0].FireID) {
			seq.progressAt = now // it is not lost: it waits for a worker here
		}
		due := seq.waiting[0].id.DueMS
		// A poll with too much to read has left this one out: it may not stall at all.
		unread := !seq.blind && (seq.knownMS < due || !seq.polledAt.Equal(now))
		if !seq.ready() && !unread && now.Sub(seq.progressAt) >= stall {
			i, _ := seq.find(due)
			seq.open, seq.knownMS = slices.Delete(seq.open, 0, i), max(seq.knownMS, due)
			q.unordered.Inc()
		}
		if seq.ready() {
			q.begin(seq.begin())
		}
		if len(seq.waiting) > 0 {
			after = pollEvery
		}
	}
	return after
}
