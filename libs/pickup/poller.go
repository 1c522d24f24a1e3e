package pickup

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Timing of polls. What depends on another value is derived from it.
const (
	// Every is the time between polls while they find fires.
	Every = 250 * time.Millisecond
	// routineEvery is the longest time between polls for overdue and orphaned fires.
	routineEvery = 4 * Every
	// turnLength is how long an executor keeps its shard. A fire is seen twice in it.
	turnLength = 2 * routineEvery
	// eagerAfterMiss is how long, after a missing task, a fire is claimed at the first poll.
	eagerAfterMiss = 5 * routineEvery
	// eagerAfterOutage is the same after a time without any tasks. Partitions recover one by one,
	// and a broker that has just started is slow.
	eagerAfterOutage = 3 * eagerAfterMiss
	// maxThrottle is how long the question for overdue fires waits for executors that are
	// overloaded. Then their backlog is most of what it would find, and LateBatch of it costs little.
	maxThrottle = time.Minute
	oldTaskMS   = 2000 // age of a task at its claim by which an executor is overloaded

	// askOrphansFor is how long after the end of a session its claims are looked for. The question
	// for overdue fires finds the others.
	askOrphansFor = time.Minute
	// claimedAhead is how long before its run time a fire may be claimed: more than the longest lead
	// of tasks.
	claimedAhead = time.Minute
	// lateCommits is how long after its end a session's last claim may commit.
	lateCommits = 10 * time.Second
	// lateOrphansTimeout is for the question for late orphans, which scans all past open fires. The
	// on-time ones and the fires due soon wait for it.
	lateOrphansTimeout = routineEvery

	// LateBatch is how many late fires are claimed in one poll.
	LateBatch  = 500
	restFactor = 4    // after a question for orphans, so many times as long as its answer took
	slicePage  = 4000 // fires read of a slice at once
	orphanPage = 10_000
	// slicesAtOnce is how many slices are read at once: a busy minute has 256, and a store that
	// takes long for each would not come to the last ones within pollTimeout.
	slicesAtOnce = 8
	// behindBursts is how many fires one poll reads beyond its room, behind those whose tasks are on
	// the low-priority topic.
	behindBursts = 5 * slicePage
	burstSize    = 2000 // unclaimed fires of an app whose tasks may be on the low-priority topic
	pollTimeout  = 5 * time.Second
)

// Pressure is the load of an executor.
type Pressure struct {
	Room     int  // on-time fires that it may claim without a task
	LateRoom int  // late fires that it may claim; none while on-time fires start late
	Idle     bool // no tasks arrive
	// Dispatched says that a trigger has published on-time tasks lately, so a burst has tasks too.
	Dispatched bool
	// Behind says that tasks still to be claimed may carry the unclaimed fires. LowBehind says so
	// of the low-priority topic.
	Behind, LowBehind bool
}

// Options of a poller.
type Options struct {
	Store Store
	// Ahead is how long before its run time an unclaimed fire is found; 0: not until it is overdue.
	Ahead    time.Duration
	Now      func() time.Time // the store's clock
	Epoch    func() *session.Epoch
	Pressure func() Pressure
	// Claim claims fires that a question found. Late ones yield to on-time traffic.
	Claim func(
		ctx context.Context, epoch *session.Epoch, q Question, fires []timer.Fire, late bool,
	) error
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

func (o *Options) validate() error {
	c := options.Of("pickup")
	c.Need("Store", o.Store == nil)
	c.Need("Now", o.Now == nil)
	c.Need("Epoch", o.Epoch == nil)
	c.Need("Pressure", o.Pressure == nil)
	c.Need("Claim", o.Claim == nil)
	c.Need("Registerer", o.Registerer == nil)
	c.Refuse(
		o.Ahead < 0 || o.Ahead > 0 && o.Ahead < 2*Every,
		"Ahead is 0, or long enough for two polls before a fire's run time",
	)
	return c.Err()
}

// Poller claims the fires that no task brings.
type Poller struct {
	opts  Options
	met   *metrics
	alive atomic.Pointer[[]store.Session] // as of the last poll of the sessions
	wake  chan struct{}                   // capacity 1: an executor was lost

	missed clock.Stamp // when a fire was found unclaimed twice while other tasks came
	absent clock.Stamp // when fires were found and no tasks came
	// The rest belongs to Run. seen are the unclaimed fires of the last poll, with their revision.
	seen        map[timer.FireID]int32
	again       bool // the next poll asks the same shard for the fires in seen
	incomplete  int  // questions for fires due soon in a row that were not answered in full
	turn        int64
	bursts      bursts
	orphans     orphans
	nextOrphans time.Time
	sweptAt     time.Time // when overdue fires were last asked for
}

// New returns a poller that does nothing until Run.
func New(opts Options) (*Poller, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	return &Poller{
		opts: opts,
		met:  newMetrics(opts.Registerer),
		wake: make(chan struct{}, 1),
	}, nil
}

// Alive returns the alive sessions, nil while they are unknown.
func (p *Poller) Alive() []store.Session {
	if alive := p.alive.Load(); alive != nil {
		return *alive
	}
	return nil
}

// SetAlive sets the alive sessions. If an executor is missing, its claims are looked for at once.
func (p *Poller) SetAlive(alive []store.Session) {
	before := p.Alive()
	p.alive.Store(&alive)
	if !slices.ContainsFunc(before, func(b store.Session) bool {
		return b.Kind == store.ExecutorSession &&
			!slices.ContainsFunc(alive, func(l store.Session) bool { return l.ID == b.ID })
	}) {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run polls until ctx ends.
func (p *Poller) Run(ctx context.Context) error {
	tick := clock.NewTicker(Every)
	p.sweptAt = time.Now()
	idle := int(routineEvery / Every)
	if p.opts.Ahead > 0 { // each fire is seen twice before its run time
		idle = min(idle, int(p.opts.Ahead/Every)-1)
	}
	for n := 0; ; n++ {
		lost := false
		select {
		case <-time.After(tick.Until()):
			tick.Ticked()
		case <-p.wake:
			lost = true
			n--
		case <-ctx.Done():
			return nil
		}
		if err := p.poll(ctx, n%idle == 0, lost); err != nil && ctx.Err() == nil {
			p.opts.Logger.Debug().Err(err).Msg("store not polled for fires without tasks")
		}
	}
}

// poll asks the questions that are due. Each question and each claim has a time of its own: one that
// the store does not answer takes nothing from the others.
func (p *Poller) poll(ctx context.Context, routine, lost bool) error {
	epoch := p.opts.Epoch()
	if epoch == nil || !epoch.Valid() {
		p.seen = nil
		return nil
	}
	if p.again = p.again && len(p.seen) > 0; !p.again {
		p.turn = turnAt(p.opts.Now())
	}
	shard := ShardOf(p.Alive(), epoch.ID, p.turn)
	var err error
	if routine || lost {
		err = p.pollOrphans(ctx, epoch, shard, lost)
	}
	if lost {
		return err
	}
	err = errors.Join(err, p.pollDueSoon(ctx, epoch, shard, routine))
	if routine {
		err = errors.Join(err, p.pollOverdue(ctx, epoch, shard))
	}
	return err
}

// pollDueSoon claims fires due soon that were unclaimed at the last poll too. For a while after a
// missing task, one poll suffices. A task is published a dispatch lead ahead and claimed within
// milliseconds. While tasks are behind, they carry the unclaimed fires, and claiming those too
// would double the work under the highest load. If the store does not give all in time, those that it
// has given are claimed.
func (p *Poller) pollDueSoon(
	ctx context.Context, epoch *session.Epoch, shard Shard, routine bool,
) error {
	load, before, again := p.opts.Pressure(), p.seen, p.again
	active := p.missed.Within(eagerAfterMiss) || p.absent.Within(eagerAfterOutage)
	if p.opts.Ahead == 0 || load.Room <= 0 || load.Behind && !active {
		p.seen = nil
		return nil
	}
	if !active && len(before) == 0 && !routine {
		return nil
	}
	p.seen, p.again = nil, false
	counts := make(map[int64]int)
	now := p.opts.Now()
	asked, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	fires, err := dueSoon(
		asked,
		p.opts.Store,
		shard,
		now.Add(-store.OverdueAfter).UnixMilli(),
		now.Add(p.opts.Ahead).UnixMilli(),
		load.Room,
		func(kept, read []timer.Fire) []timer.Fire {
			return p.bursts.exclude(kept, read, counts, load.LowBehind, load.Dispatched)
		},
	)
	p.checkComplete(ctx, err)
	found, others := splitSeen(fires, before)
	missed := len(found) > 0
	if active {
		found = fires
	} else {
		p.seen, p.again = others, !again
	}
	if len(found) == 0 {
		return err
	}
	if load.Idle {
		p.absent.Set()
	} else if !load.Behind && missed {
		p.missed.Set()
	}
	if !active {
		p.opts.Logger.Warn().
			Int("fires", len(found)).
			Msg("no tasks arrived for these fires, claimed from the store")
	}
	return errors.Join(err, p.claim(ctx, epoch, DueSoon, found))
}

// checkComplete warns when it happens again that not all fires due soon were read. Those that were
// are claimed all the same; the others may be late.
func (p *Poller) checkComplete(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		p.incomplete = 0
		return
	}
	if p.incomplete++; p.incomplete == 2 {
		p.opts.Logger.Warn().Err(err).Msg("fires due soon not all read from the store, again")
	}
}

// pollOverdue claims some overdue fires. It is the proof that no fire is lost (P2), whatever lost
// its window entry, message, slice or claim.
func (p *Poller) pollOverdue(ctx context.Context, epoch *session.Epoch, shard Shard) error {
	limit := min(LateBatch, p.opts.Pressure().LateRoom)
	if p.congested() || limit <= 0 {
		if time.Since(p.sweptAt) < maxThrottle {
			p.met.throttled.Inc()
			return nil
		}
		// Questions so far apart may meet the same turn each time, and so leave out the other shards.
		limit, shard = LateBatch, Shard{Count: 1}
	}
	asked, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	fires, err := overdue(asked, p.opts.Store, shard, p.Alive(), limit)
	if err != nil {
		return err
	}
	p.sweptAt = time.Now()
	return p.claimAll(ctx, epoch, Overdue, fires, true)
}

// pollOrphans claims what recently expired sessions own. It rests longer the longer the answer
// takes, because the store reads all past open fires for it.
func (p *Poller) pollOrphans(
	ctx context.Context, epoch *session.Epoch, shard Shard, lost bool,
) error {
	began := time.Now()
	if began.Before(p.nextOrphans) && !lost {
		return nil
	}
	now := p.opts.Now()
	asked, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	fires, err := p.orphans.find(asked, p.opts.Store, now, now.Add(-dispatch.LateAfter))
	p.nextOrphans = time.Now().Add(restFactor * time.Since(began))
	fires = slices.DeleteFunc(fires, func(f timer.Fire) bool { return !shard.Has(f.Bucket) })
	return errors.Join(err, p.claim(ctx, epoch, Orphaned, fires))
}

// congested is the backpressure: executors have tasks to claim that may carry the late fires.
func (p *Poller) congested() bool {
	load := p.opts.Pressure()
	return load.Behind || load.LowBehind ||
		slices.ContainsFunc(p.Alive(), func(l store.Session) bool {
			return l.Kind == store.ExecutorSession &&
				(l.Load.InflightFull || l.Load.OldestTaskMS > oldTaskMS)
		})
}

// claim claims the on-time ones of fires, and as many late ones as there is room for.
func (p *Poller) claim(
	ctx context.Context, epoch *session.Epoch, q Question, fires []timer.Fire,
) error {
	late := p.opts.Now().Add(-dispatch.LateAfter).UnixMilli()
	onTime := slices.IndexFunc(fires, func(f timer.Fire) bool { return f.RunAtMS >= late })
	if onTime < 0 {
		onTime = len(fires)
	}
	err := p.claimAll(ctx, epoch, q, fires[onTime:], false)
	if err != nil || p.congested() {
		return err
	}
	room := max(0, min(onTime, LateBatch, p.opts.Pressure().LateRoom))
	return p.claimAll(ctx, epoch, q, fires[:room], true)
}

func (p *Poller) claimAll(
	ctx context.Context, epoch *session.Epoch, q Question, fires []timer.Fire, late bool,
) error {
	if len(fires) == 0 {
		return nil
	}
	p.met.found[q].Add(float64(len(fires)))
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	return p.opts.Claim(ctx, epoch, q, fires, late)
}

// splitSeen separates the fires that were found before from the others, which it returns with their
// revision.
func splitSeen(
	fires []timer.Fire,
	before map[timer.FireID]int32,
) (again []timer.Fire, others map[timer.FireID]int32) {
	others = make(map[timer.FireID]int32)
	for i := range fires {
		if rev, ok := before[fires[i].FireID]; ok && rev == fires[i].Rev {
			again = append(again, fires[i])
		} else {
			others[fires[i].FireID] = fires[i].Rev
		}
	}
	return again, others
}

// bursts are the latest run times, in unix ms, of each app's burst while the low-priority topic was
// behind.
type bursts map[int64]int64

// exclude leaves out the fires whose tasks are on the low-priority topic, while that is behind. All
// tasks of an app's burst may be there, up to the latest run time seen, until that topic has caught
// up. If no tasks were dispatched for long, no trigger publishes, and a burst is not on any topic.
// counts are what this poll has read of each app, to which those read now are added.
func (b *bursts) exclude(
	kept, read []timer.Fire, counts map[int64]int, lowBehind, dispatched bool,
) []timer.Fire {
	kept = append(kept, read...)
	if !lowBehind {
		*b = nil
		return kept
	}
	for i := range read {
		counts[read[i].AppID]++
	}
	if *b == nil {
		*b = make(bursts)
	}
	for i := range kept {
		if f := &kept[i]; dispatched && counts[f.AppID] >= burstSize {
			(*b)[f.AppID] = max((*b)[f.AppID], f.RunAtMS)
		}
	}
	return slices.DeleteFunc(kept, func(f timer.Fire) bool {
		last, burst := (*b)[f.AppID]
		return f.UsesLowPriorityTopic() || burst && f.RunAtMS <= last
	})
}
