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
)

const (
	orderGather  = time.Millisecond       // for late fires that come together to be looked at together
	orderApart   = 2                      // ms between first attempts of a timer, so that nothing overtakes on the way out
	orderEvery   = 100 * time.Millisecond // between looks at what late fires wait for
	orderTimeout = 5 * time.Second
	orderFront   = 100                 // earlier fires of a timer that one look reads again, and claims
	orderAtOnce  = 20 * store.MaxBatch // fires that one look reads
	orderLeast   = 10                  // and claims in any case: what is in hand may wait for just these
	orderKept    = 10 * time.Second    // how long a sequence is kept that nothing waits in
	// orderStall is how long late fires wait without any headway. It is longer than a dead session
	// takes to end and its fires to be claimed again.
	orderStall = 10 * time.Second
	// orderBlind is the same while the store does not answer: nobody knows then what comes first.
	orderBlind = time.Minute
)

// sequencer lets the late fires of a timer with fire_all begin their first attempts in order of due.
// Late fires come in any order, by several topics, by store polls and by sweeps. Each joins the
// sequence of its timer, and begins once no earlier one is open that nobody has attempted.
//
// Which those may be, the schedule tells: expansion goes in order of due, so what is due earlier has
// had its row before. One goroutine asks the store for all sequences together, by primary key, and
// claims those that nobody owns: to wait for their tasks could take long. What the answer says stays
// true: a fire that was attempted, or has ended, never counts as unattempted again. An activation may
// bring deferred fires back, and begins the sequence anew.
//
// Two executors at once: the earliest fire of all waits for none, so they never wait in a circle. What
// one has begun it notes in the fire's row, for the others. Dying with fires that wait: the session
// dies too, and its claims are dispatched again. Where others make no headway for orderStall, the
// fire goes first. It then is counted.
type sequencer struct {
	svc  *Service
	wake chan struct{} // has room for one

	mu     sync.Mutex
	by     map[timer.ID]*sequence
	begun  []begun
	closed bool
}

// sequence is a timer's late fires, in order of due.
type sequence struct {
	epoch   int64
	knownMS int64         // the store was asked about every instant up to here
	open    []*timer.Fire // not attempted when last read, by due: they go before what is due later
	waiting []*lateFire   // by due
	passed  time.Time     // when the last fire has begun
	moved   time.Time     // its last headway, or when the first began to wait
	looked  time.Time     // the last look
	blind   bool          // which failed
}

// lateFire waits, and brings what tells the instants before it.
type lateFire struct {
	*claimedFire

	id                 timer.FireID // the fire is a worker's again once it begins
	timer              *timer.Timer // as far as the planner needs it
	untilMS, catchUpMS int64        // fires count whose run was planned before the first, and not before the second
	most               int          // and so many of the latest
}

// begun is a fire whose first attempt begins, for the other executors.
type begun struct {
	session timer.ID
	fire    timer.Fire
}

func newSequencer(s *Service) *sequencer {
	return &sequencer{svc: s, wake: make(chan struct{}, 1), by: make(map[timer.ID]*sequence)}
}

// inOrder tells whether a late fire of fire_all may begin now. If not, the fire waits in its sequence.
func (s *Service) inOrder(e *claimedFire, state *timer.State, m *timer.Misfire, nowMS int64) bool {
	if kind := e.def.Schedule.Kind; kind != timer.KindCron && kind != timer.KindInterval {
		return true // there is no other
	}
	ctx, cancel := context.WithTimeout(e.epoch.Context(), claimTimeout)
	defer cancel()
	calendars, err := s.calendars.of(ctx, e.app, e.def)
	if err != nil {
		s.log.Debug().Err(err).Msg("calendars of a late fire not read, it waits")
		s.recheckLater(e)
		return false
	}
	t := &timer.Timer{
		ID:         e.fire.Timer,
		AppID:      e.fire.AppID,
		Version:    e.fire.Version,
		Definition: *e.def,
		Calendars:  calendars,
		AnchorMS:   state.AnchorMS,
	}
	w := &lateFire{
		claimedFire: e,
		id:          e.fire.FireID,
		timer:       t,
		untilMS:     nowMS - m.MisfiredAfter().Milliseconds(),
		most:        m.MaxFires,
	}
	if m.CatchUpWindow > 0 {
		w.catchUpMS = nowMS - time.Duration(m.CatchUpWindow).Milliseconds()
	}
	return s.order.join(w, state.ActiveEpoch)
}

// join returns true for a fire that may begin; otherwise the fire is the sequence's, which gives it
// back to the queue.
func (q *sequencer) join(w *lateFire, epoch int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.svc.wheel.add(w.claimedFire) // which is being emptied
		return false
	}
	seq := q.by[w.fire.Timer]
	switch {
	case seq == nil:
		seq = &sequence{epoch: epoch}
		q.by[w.fire.Timer] = seq
	case seq.epoch < epoch:
		seq = &sequence{epoch: epoch, waiting: seq.waiting, passed: seq.passed, moved: seq.moved}
		q.by[w.fire.Timer] = seq
	}
	if len(seq.waiting) == 0 {
		seq.moved = time.Now()
	}
	i := seq.place(w.id.DueMS)
	seq.waiting = slices.Insert(seq.waiting, i, w)
	if !seq.ready() {
		q.ring()
		return false
	}
	next := seq.begin()
	if next == w.claimedFire && time.Since(seq.passed) >= orderApart*time.Millisecond {
		return true
	}
	q.begin(next)
	return false
}

// begin lets a fire begin in a moment.
func (q *sequencer) begin(e *claimedFire) {
	q.svc.wheel.addAt(q.svc.opts.Clock.Now().UnixMilli()+orderApart, e)
}

func (q *sequencer) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// ready tells whether the first that waits may begin.
func (seq *sequence) ready() bool {
	return len(seq.waiting) > 0 && seq.waiting[0].id.DueMS <= seq.knownMS &&
		(len(seq.open) == 0 || seq.open[0].DueMS >= seq.waiting[0].id.DueMS)
}

// begin takes out the first that waits. The others go on waiting for it.
func (seq *sequence) begin() *claimedFire {
	w := seq.waiting[0]
	seq.waiting = seq.waiting[1:]
	w.ordered = true
	seq.add(&w.fire)
	seq.moved = time.Now()
	return w.claimedFire
}

func (seq *sequence) find(dueMS int64) (int, bool) {
	return slices.BinarySearchFunc(
		seq.open,
		dueMS,
		func(f *timer.Fire, due int64) int { return cmp.Compare(f.DueMS, due) },
	)
}

// add notes a fire that others wait for.
func (seq *sequence) add(f *timer.Fire) {
	row := *f
	if i, there := seq.find(f.DueMS); there {
		seq.open[i] = &row
	} else {
		seq.open = slices.Insert(seq.open, i, &row)
	}
}

// remove notes that nobody waits for a fire any more.
func (seq *sequence) remove(dueMS int64) {
	if i, there := seq.find(dueMS); there {
		seq.open = slices.Delete(seq.open, i, i+1)
		seq.moved = time.Now()
	}
}

// called is passed for a fire whose first attempt begins. It tells the other executors.
func (q *sequencer) called(e *claimedFire) {
	q.mu.Lock()
	q.begun = append(q.begun, begun{e.epoch.ID, e.fire})
	q.mu.Unlock()
	q.ring()
	q.passed(e.fire.FireID)
}

// passed lets the next fire begin: this one does, or it ends, or it waits for a limit or a turn, which
// have an order of their own.
func (q *sequencer) passed(id timer.FireID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if seq := q.by[id.Timer]; seq != nil {
		seq.passed = time.Now()
		if seq.remove(id.DueMS); seq.ready() {
			q.begin(seq.begin())
		}
	}
}

// close returns what waits, and lets nothing wait any more.
func (q *sequencer) close() (left []*claimedFire) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for id, seq := range q.by {
		for _, w := range seq.waiting {
			left = append(left, w.claimedFire)
		}
		delete(q.by, id)
	}
	return left
}

// run looks at the store for what waits, until ctx ends.
func (q *sequencer) run(ctx context.Context) {
	again := time.NewTimer(orderKept)
	defer again.Stop()
	for {
		select {
		case <-q.wake:
			clock.Pause(ctx, orderGather)
		case <-again.C:
		case <-ctx.Done():
			return
		}
		again.Reset(q.look(ctx))
	}
}

// orderLook is one look at the store, for all sequences.
type orderLook struct {
	q     *sequencer
	now   time.Time
	seqs  map[timer.ID]*sequence   // as they were
	fresh map[timer.ID][]*lateFire // of sequences, those beyond what is known, by due
	ids   []timer.FireID           // to be read
	known map[timer.ID]int64       // of sequences, once ids were read
}

// look lets fires begin that need not wait, and returns when to look again.
func (q *sequencer) look(ctx context.Context) (after time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	q.tell(ctx)
	l := &orderLook{
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
			q.svc.log.Debug().Err(err).Msg("order of late fires not read, they wait")
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

// tell notes in the rows of fires that their first attempts have begun. Whoever waits for one whose
// note is lost waits until its attempt is recorded.
func (q *sequencer) tell(ctx context.Context) {
	q.mu.Lock()
	all := q.begun
	q.begun = nil
	q.mu.Unlock()
	if living := q.svc.storePoller.alive.Load(); living != nil &&
		executorsOf(*living) < 2 { //nolint:mnd // one is alone
		return
	}
	by := make(map[timer.ID][]timer.Fire, 1)
	for _, b := range all {
		by[b.session] = append(by[b.session], b.fire)
	}
	for session, fires := range by {
		if err := q.svc.opts.Store.Begin(ctx, session, fires); err != nil {
			q.svc.log.Debug().Err(err).Msg("begun attempts of late fires not noted")
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

// gather chooses what to read: what is beyond what is known, and now and then what is waited for.
func (l *orderLook) gather() {
	q := l.q
	var dropped []*claimedFire
	q.mu.Lock()
	for id, seq := range q.by {
		seq.waiting = slices.DeleteFunc(seq.waiting, func(w *lateFire) bool {
			over := w.epoch.Context().Err() != nil
			if over {
				dropped = append(dropped, w.claimedFire)
			}
			return over
		})
		if len(seq.waiting) == 0 || len(l.ids) >= orderAtOnce {
			continue
		}
		l.seqs[id] = seq
		if fresh := seq.beyond(); len(fresh) > 0 {
			l.fresh[id], l.known[id] = slices.Clone(fresh), seq.knownMS
		}
		if l.now.Sub(seq.looked) < orderEvery {
			continue
		}
		seq.looked = l.now
		for _, f := range seq.front() {
			l.ids = append(l.ids, f.FireID)
		}
	}
	q.mu.Unlock()
	q.svc.inflight.remove(dropped...)
}

// beyond returns those that wait behind all that is known.
func (seq *sequence) beyond() []*lateFire { return seq.waiting[seq.place(seq.knownMS+1):] }

// place returns where a fire that is due then waits.
func (seq *sequence) place(dueMS int64) int {
	i, _ := slices.BinarySearchFunc(
		seq.waiting,
		dueMS,
		func(w *lateFire, due int64) int { return cmp.Compare(w.id.DueMS, due) },
	)
	return i
}

// front returns the first of those that are waited for.
func (seq *sequence) front() []*timer.Fire {
	if len(seq.waiting) == 0 {
		return nil
	}
	i, _ := seq.find(seq.waiting[0].id.DueMS)
	return seq.open[:min(i, orderFront)]
}

// read returns the rows of those that are open: all that was gathered, and what is due between what is
// known and what is waiting.
func (l *orderLook) read(ctx context.Context) (rows map[timer.FireID]timer.Fire, err error) {
	if err := l.addFresh(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(l.ids, timer.CompareFireIDs)
	l.ids = slices.Compact(l.ids)
	rows = make(map[timer.FireID]timer.Fire)
	for part := range slices.Chunk(l.ids, store.MaxBatch) {
		open, err := l.q.svc.opts.Store.OpenAmong(ctx, part)
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		for _, f := range open {
			rows[f.FireID] = f
		}
	}
	return rows, nil
}

// addFresh adds the fires to be read that may go before those that have just come. Nothing open runs
// before the oldest open fire, so a short backlog is a short look.
func (l *orderLook) addFresh(ctx context.Context) error {
	if len(l.fresh) == 0 {
		return nil
	}
	oldestMS, err := l.q.svc.opts.Store.OldestOpen(ctx)
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	if oldestMS == 0 {
		oldestMS = timer.NeverMS // by the store's clock none is past its run
	}
	for id, fresh := range l.fresh {
		for _, w := range fresh {
			if len(l.ids) >= orderAtOnce {
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
			dues, err := l.q.svc.opts.Planner.Before(w.timer, w.id.DueMS, from, w.untilMS, w.most)
			if err != nil {
				l.q.svc.log.Warn().
					Err(err).
					Stringer("fire", w.id).
					Msg("a late fire is called: the schedule of those before it cannot be read")
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

// apply enters what was read.
func (l *orderLook) apply(rows map[timer.FireID]timer.Fire, answered bool) {
	q := l.q
	began := q.svc.inflight.began(l.ids)
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, seq := range l.seqs {
		switch {
		case q.by[id] != seq:
			delete(l.seqs, id) // begun anew since
		case !answered:
			seq.blind = true
		case seq.blind:
			seq.blind, seq.moved = false, l.now
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
		case there || id.DueMS > seq.knownMS: // otherwise it has passed since
			seq.add(&row)
		}
	}
	for id, known := range l.known {
		if seq := l.seqs[id]; seq != nil {
			seq.knownMS = max(seq.knownMS, known)
		}
	}
}

// claimable returns fires that late ones wait for and nobody owns, or a session that has ended.
func (q *sequencer) claimable(now time.Time) (free []timer.Fire) {
	room := min(latePollMax, q.svc.inflight.lateRoom())
	if room < orderLeast || q.svc.catchUpThrottle.congested() {
		room = orderLeast
	}
	live := make(map[timer.ID]bool)
	living := q.svc.storePoller.alive.Load()
	if living != nil {
		for i := range *living {
			live[(*living)[i].ID] = true
		}
	}
	nowMS := q.svc.opts.Clock.Now().UnixMilli()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, seq := range q.by {
		if seq.blind || !seq.looked.Equal(now) {
			continue
		}
		for _, f := range seq.front() {
			if owned := f.Owner != 0 &&
				(living == nil || live[f.Owner]); len(free) < room && !owned &&
				f.RunAtMS <= nowMS {
				free = append(free, *f)
			}
		}
	}
	return free
}

// claim takes fires up as a store poll takes up late ones, but does not wait for room.
func (q *sequencer) claim(ctx context.Context, free []timer.Fire) error {
	epoch := q.svc.heartbeater.Epoch()
	if epoch == nil || !epoch.Valid() {
		return nil
	}
	return q.svc.claimPolled(ctx, epoch, free, sourceOrder)
}

// release lets begin what may, and returns when to look again.
func (q *sequencer) release(now time.Time) (after time.Duration) {
	after = orderKept
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, seq := range q.by {
		if len(seq.waiting) == 0 {
			if now.Sub(seq.moved) >= orderKept {
				delete(q.by, id)
			}
			continue
		}
		stall := orderStall
		if seq.blind {
			stall = orderBlind
		}
		if !seq.ready() && now.Sub(seq.moved) >= stall {
			due := seq.waiting[0].id.DueMS
			i, _ := seq.find(due)
			seq.open, seq.knownMS = slices.Delete(seq.open, 0, i), max(seq.knownMS, due)
			q.svc.met.unordered.Inc()
		}
		if seq.ready() {
			q.begin(seq.begin())
		}
		if len(seq.waiting) > 0 {
			after = orderEvery
		}
	}
	return after
}
