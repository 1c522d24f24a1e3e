package executor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const (
	orderGather = time.Millisecond // to collect late fires that arrive together
	// orderSpacingMS is the time between first attempts of a timer, so that requests do not
	// overtake each other.
	orderSpacingMS = 2
	orderPollEvery = 100 * time.Millisecond // between polls for the fires that late ones wait for
	orderTimeout   = 5 * time.Second
	// orderFrontMax is how many earlier fires per timer one poll reads again and claims.
	orderFrontMax = 100
	orderReadMax  = 20 * store.MaxBatch // fires read by one poll
	// orderClaimMin is how many fires one poll may claim in any case: fires in flight may wait for
	// just these.
	orderClaimMin = 10
	orderIdleKept = 10 * time.Second // how long an empty sequence is kept
	// orderStall is how long late fires wait without progress. That is longer than an expired
	// session's fires take to be claimed again.
	orderStall = 10 * time.Second
	// orderBlind is the same while the store does not answer and the earliest fire is unknown.
	orderBlind = time.Minute
)

// sequencer starts the first attempts of a timer's late fires in order of due time, for misfire
// policy fire_all. Late fires arrive in any order: by several topics, store polls and sweeps. Each
// joins the sequence of its timer. It starts once no earlier open fire of the timer is without an
// attempt.
//
// The schedule gives the possible earlier fires. Expansion goes in order of due time, so their rows
// existed before. One goroutine reads the rows of all sequences together, by primary key. It claims
// the unowned ones, because their tasks could take long. An answer stays true, because a fire that
// was attempted or has ended never becomes unattempted again. Only an activation may bring deferred
// fires back; it restarts the sequence.
//
// Two executors at once: the earliest fire waits for none, so they never wait for each other in a
// circle. Each marks the fires it has started in their rows for the others. After a crash the
// session expires, and its claims are dispatched again. A fire that waits for orderStall without
// progress starts out of order, and is counted.
type sequencer struct {
	svc  *Service
	wake chan struct{} // capacity 1

	mu        sync.Mutex
	sequences map[timer.ID]*sequence
	started   []started
	closed    bool
}

// sequence holds a timer's late fires in order of due time.
type sequence struct {
	epoch      int64
	knownMS    int64         // all due times up to here have been read
	open       []*timer.Fire // not attempted when last read, by due time; later fires wait for them
	waiting    []*lateFire   // by due time
	passed     time.Time     // when the last fire started or ended
	progressAt time.Time     // last progress, or when the first fire began to wait
	polledAt   time.Time     // the last poll
	blind      bool          // the last poll failed
}

// lateFire is a waiting fire, with the data to find the due times before it.
type lateFire struct {
	*inflight.Entry

	id    timer.FireID // the fire belongs to a worker again once it starts
	timer *timer.Timer // as far as the planner needs it
	// Earlier fires count if catchUpMS <= planned run time < untilMS, and of those only the latest
	// limit ones.
	untilMS, catchUpMS int64
	limit              int
}

// started is a fire whose first attempt starts, to be marked for other executors.
type started struct {
	session timer.ID
	fire    timer.Fire
}

func newSequencer(s *Service) *sequencer {
	return &sequencer{svc: s, wake: make(chan struct{}, 1), sequences: make(map[timer.ID]*sequence)}
}

// inOrder reports whether a late fire of fire_all may start now. Otherwise the fire waits in its
// sequence.
func (s *Service) inOrder(
	e *inflight.Entry,
	state *timer.State,
	m *timer.Misfire,
	nowMS int64,
) bool {
	if kind := e.Def.Schedule.Kind; kind != timer.KindCron && kind != timer.KindInterval {
		return true // it has no other fires
	}
	ctx, cancel := context.WithTimeout(e.Epoch.Context(), claimTimeout)
	defer cancel()
	calendars, err := s.calendars.of(ctx, e.App, e.Def)
	if err != nil {
		s.log.Debug().Err(err).Msg("calendars of a late fire not read, fire delayed")
		s.recheckLater(e)
		return false
	}
	t := &timer.Timer{
		ID:         e.Fire.Timer,
		AppID:      e.Fire.AppID,
		Version:    e.Fire.Version,
		Definition: *e.Def,
		Calendars:  calendars,
		AnchorMS:   state.AnchorMS,
	}
	w := &lateFire{
		Entry:   e,
		id:      e.Fire.FireID,
		timer:   t,
		untilMS: nowMS - m.MisfiredAfter().Milliseconds(),
		limit:   m.MaxFires,
	}
	if m.CatchUpWindow > 0 {
		w.catchUpMS = nowMS - time.Duration(m.CatchUpWindow).Milliseconds()
	}
	return s.order.join(w, state.ActiveEpoch)
}

// join reports whether a fire may start. Otherwise the fire belongs to the sequence, which returns
// it to the wheel.
func (q *sequencer) join(w *lateFire, epoch int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.svc.wheel.Add(w.Entry) // the drain empties the wheel
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
	if next == w.Entry && time.Since(seq.passed) >= orderSpacingMS*time.Millisecond {
		return true
	}
	q.begin(next)
	return false
}

// begin starts a fire in a moment.
func (q *sequencer) begin(e *inflight.Entry) {
	q.svc.wheel.AddAt(q.svc.opts.Clock.Now().UnixMilli()+orderSpacingMS, e)
}

func (q *sequencer) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// ready reports whether the first waiting fire may start.
func (seq *sequence) ready() bool {
	return len(seq.waiting) > 0 && seq.waiting[0].id.DueMS <= seq.knownMS &&
		(len(seq.open) == 0 || seq.open[0].DueMS >= seq.waiting[0].id.DueMS)
}

// begin removes the first waiting fire. Later ones wait until it has started.
func (seq *sequence) begin() *inflight.Entry {
	w := seq.waiting[0]
	seq.waiting = seq.waiting[1:]
	w.Ordered = true
	seq.add(&w.Fire)
	seq.progressAt = time.Now()
	return w.Entry
}

func (seq *sequence) find(dueMS int64) (int, bool) {
	return slices.BinarySearchFunc(
		seq.open,
		dueMS,
		func(f *timer.Fire, due int64) int { return cmp.Compare(f.DueMS, due) },
	)
}

// add records a fire that later ones wait for.
func (seq *sequence) add(f *timer.Fire) {
	row := *f
	if i, there := seq.find(f.DueMS); there {
		seq.open[i] = &row
	} else {
		seq.open = slices.Insert(seq.open, i, &row)
	}
}

// remove records that nothing waits for a fire any more.
func (seq *sequence) remove(dueMS int64) {
	if i, there := seq.find(dueMS); there {
		seq.open = slices.Delete(seq.open, i, i+1)
		seq.progressAt = time.Now()
	}
}

// called records that the first attempt of a fire starts, also for other executors.
func (q *sequencer) called(e *inflight.Entry) {
	q.mu.Lock()
	q.started = append(q.started, started{e.Epoch.ID, e.Fire})
	q.mu.Unlock()
	q.signal()
	q.passed(e.Fire.FireID)
}

// passed lets the next fire start. This one starts, ends, or waits for a limit or a slot, which
// have their own order.
func (q *sequencer) passed(id timer.FireID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if seq := q.sequences[id.Timer]; seq != nil {
		seq.passed = time.Now()
		if seq.remove(id.DueMS); seq.ready() {
			q.begin(seq.begin())
		}
	}
}

// close returns the waiting fires. After it no fire waits.
func (q *sequencer) close() (left []*inflight.Entry) {
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

// run polls the store until ctx ends.
func (q *sequencer) run(ctx context.Context) {
	again := time.NewTimer(orderIdleKept)
	defer again.Stop()
	for {
		select {
		case <-q.wake:
			clock.Pause(ctx, orderGather)
		case <-again.C:
		case <-ctx.Done():
			return
		}
		again.Reset(q.poll(ctx))
	}
}

// orderPoll is one poll of the store for all sequences.
type orderPoll struct {
	q     *sequencer
	now   time.Time
	seqs  map[timer.ID]*sequence   // at the start of the poll
	fresh map[timer.ID][]*lateFire // fires of sequences after knownMS, by due time
	ids   []timer.FireID           // fires to read
	known map[timer.ID]int64       // the knownMS of sequences once ids are read
}

// poll starts the fires that need not wait, and returns the time until the next poll.
func (q *sequencer) poll(ctx context.Context) (after time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	q.storeStarted(ctx)
	l := &orderPoll{
		q:     q,
		now:   time.Now(),
		seqs:  make(map[timer.ID]*sequence),
		fresh: make(map[timer.ID][]*lateFire),
		known: make(map[timer.ID]int64),
	}
	l.gather()
	if len(l.ids)+len(l.fresh) > 0 {
		rows, err := l.read(ctx)
		if err != nil {
			q.svc.log.Debug().Err(err).Msg("order of late fires not read, fires delayed")
		}
		l.apply(rows, err == nil)
	}
	if free := q.claimable(l.now); len(free) > 0 {
		if err := q.claim(ctx, free); err != nil {
			q.svc.log.Debug().Err(err).Msg("fires that late ones wait for not claimed")
		}
	}
	return q.release(l.now)
}

// storeStarted marks started fires in their rows. If that is lost, other executors wait until the
// attempt is recorded.
func (q *sequencer) storeStarted(ctx context.Context) {
	q.mu.Lock()
	all := q.started
	q.started = nil
	q.mu.Unlock()
	if alive := q.svc.storePoller.alive.Load(); alive != nil &&
		executorsOf(*alive) < 2 { //nolint:mnd // one is alone
		return
	}
	bySession := make(map[timer.ID][]timer.Fire, 1)
	for _, b := range all {
		bySession[b.session] = append(bySession[b.session], b.fire)
	}
	for session, fires := range bySession {
		if err := q.svc.opts.Store.Begin(ctx, session, fires); err != nil {
			q.svc.log.Debug().Err(err).Msg("started late fires not marked")
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
func (l *orderPoll) gather() {
	q := l.q
	var dropped []*inflight.Entry
	q.mu.Lock()
	for id, seq := range q.sequences {
		seq.waiting = slices.DeleteFunc(seq.waiting, func(w *lateFire) bool {
			over := w.Epoch.Context().Err() != nil
			if over {
				dropped = append(dropped, w.Entry)
			}
			return over
		})
		if len(seq.waiting) == 0 || len(l.ids) >= orderReadMax {
			continue
		}
		l.seqs[id] = seq
		if fresh := seq.beyond(); len(fresh) > 0 {
			l.fresh[id], l.known[id] = slices.Clone(fresh), seq.knownMS
		}
		if l.now.Sub(seq.polledAt) < orderPollEvery {
			continue
		}
		seq.polledAt = l.now
		for _, f := range seq.front() {
			l.ids = append(l.ids, f.FireID)
		}
	}
	q.mu.Unlock()
	q.svc.inflight.Remove(dropped...)
}

// beyond returns the waiting fires after knownMS.
func (seq *sequence) beyond() []*lateFire { return seq.waiting[seq.index(seq.knownMS+1):] }

// index returns the position of a due time among the waiting fires.
func (seq *sequence) index(dueMS int64) int {
	i, _ := slices.BinarySearchFunc(
		seq.waiting,
		dueMS,
		func(w *lateFire, due int64) int { return cmp.Compare(w.id.DueMS, due) },
	)
	return i
}

// front returns the first fires that others wait for.
func (seq *sequence) front() []*timer.Fire {
	if len(seq.waiting) == 0 {
		return nil
	}
	i, _ := seq.find(seq.waiting[0].id.DueMS)
	return seq.open[:min(i, orderFrontMax)]
}

// read returns the rows of open fires: those gathered, and those due between knownMS and the
// waiting fires.
func (l *orderPoll) read(ctx context.Context) (rows map[timer.FireID]timer.Fire, err error) {
	if err := l.addFresh(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(l.ids, timer.CompareFireIDs)
	l.ids = slices.Compact(l.ids)
	rows = make(map[timer.FireID]timer.Fire)
	for part := range slices.Chunk(l.ids, store.MaxBatch) {
		open, err := l.q.svc.opts.Store.OpenAmong(ctx, part)
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
func (l *orderPoll) addFresh(ctx context.Context) error {
	if len(l.fresh) == 0 {
		return nil
	}
	oldestMS, err := l.q.svc.opts.Store.OldestOpen(ctx)
	if err != nil {
		return err //nolint:wrapcheck // the store says what failed
	}
	if oldestMS == 0 {
		oldestMS = timer.NeverMS // by the store's clock no open fire is past its run time
	}
	for id, fresh := range l.fresh {
		for _, w := range fresh {
			if len(l.ids) >= orderReadMax {
				break
			}
			from := max(
				l.known[id]+1,
				max(
					oldestMS,
					w.catchUpMS,
				)-time.Duration(w.timer.Definition.Schedule.Jitter).
					Milliseconds(),
			)
			dues, err := l.q.svc.opts.Planner.Before(
				w.timer,
				w.id.DueMS,
				from,
				w.untilMS,
				w.limit,
			)
			if err != nil {
				l.q.svc.log.Warn().
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

// apply updates the sequences by the rows read.
func (l *orderPoll) apply(rows map[timer.FireID]timer.Fire, answered bool) {
	q := l.q
	began := q.svc.inflight.Began(l.ids)
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
}

// claimable returns fires that late ones wait for and that no alive session owns.
func (q *sequencer) claimable(now time.Time) (free []timer.Fire) {
	room := min(latePollMax, q.svc.inflight.LateRoom())
	if room < orderClaimMin || q.svc.catchUpThrottle.congested() {
		room = orderClaimMin
	}
	live := make(map[timer.ID]bool)
	alive := q.svc.storePoller.alive.Load()
	if alive != nil {
		for i := range *alive {
			live[(*alive)[i].ID] = true
		}
	}
	nowMS := q.svc.opts.Clock.Now().UnixMilli()
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

// claim claims fires like a late store poll, without waiting for room.
func (q *sequencer) claim(ctx context.Context, free []timer.Fire) error {
	epoch := q.svc.heartbeater.Epoch()
	if epoch == nil || !epoch.Valid() {
		return nil
	}
	return q.svc.claimPolled(ctx, epoch, free, inflight.FromOrder)
}

// release starts the fires that may start, and returns the time until the next poll.
func (q *sequencer) release(now time.Time) (after time.Duration) {
	after = orderIdleKept
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, seq := range q.sequences {
		if len(seq.waiting) == 0 {
			if now.Sub(seq.progressAt) >= orderIdleKept {
				delete(q.sequences, id)
			}
			continue
		}
		stall := orderStall
		if seq.blind {
			stall = orderBlind
		}
		if !seq.ready() && now.Sub(seq.progressAt) >= stall {
			due := seq.waiting[0].id.DueMS
			i, _ := seq.find(due)
			seq.open, seq.knownMS = slices.Delete(seq.open, 0, i), max(seq.knownMS, due)
			q.svc.met.unordered.Inc()
		}
		if seq.ready() {
			q.begin(seq.begin())
		}
		if len(seq.waiting) > 0 {
			after = orderPollEvery
		}
	}
	return after
}
