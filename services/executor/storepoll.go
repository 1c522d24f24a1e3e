package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const (
	pollEvery     = 250 * time.Millisecond // between polls while they find fires
	idlePollEvery = 4                      // polls once per so many ticks otherwise
	// noTasksAfter is how long after the last task the topics count as idle.
	noTasksAfter = time.Second
	// dispatchedWithin is how long after the last on-time task a burst is taken for one that a
	// trigger dispatched.
	dispatchedWithin = 5 * time.Second
	// freshTaskAge is the maximum age of tasks at their claim while the topics count as keeping up.
	// If tasks are older, unclaimed fires may still have theirs on a topic.
	freshTaskAge = 500 * time.Millisecond
	// eagerAfterMiss is how long, after a missing task, a fire is claimed at the first poll.
	eagerAfterMiss = 5 * time.Second
	// eagerAfterOutage is the same after a time without any tasks. Partitions recover one by one,
	// and a broker that has just started is slow.
	eagerAfterOutage = 15 * time.Second
	// catchUpAfter is how far past its run time a fire is catch-up, which yields to on-time
	// traffic.
	catchUpAfter = time.Second
	// otherShardsAfter is how late a fire of another executor's shard must be to be claimed too.
	otherShardsAfter = 2 * time.Second
	latePollEvery    = 2    // late fires are polled every so many ticks
	latePollMax      = 500  // late fires claimed per poll
	pollPage         = 4000 // fires read per bucket
	// burstSize is how many unclaimed fires of an app are a burst, whose tasks may be on the
	// low-priority topic.
	burstSize     = 2000
	expiredWithin = time.Minute
	pollTimeout   = 5 * time.Second
)

// storePoller claims fires from the store that no task brings: the bus, triggers or schedulers are
// unavailable, or a task was lost. A claim needs only the store. So every expanded fire is called
// on time while an executor reaches the store. Nothing is repeated after an outage, because
// triggers publish only unclaimed fires.
//
// Once a second it reads the fires due within PollAhead, and claims those still unclaimed at a
// second poll 250 ms later. A task is published a dispatch lead ahead and claimed within
// milliseconds. For a while after a missing task, one poll suffices. While the topics are behind,
// their tasks carry the unclaimed fires. Claiming those too would double the work under the highest
// load.
//
// Two at once: executors divide the buckets by the sessions they see alive. Where they disagree, or
// a task arrives after all, one claim wins. Crash after the claim: the session expires. Unanswered
// claim: it is unconfirmed and repeated, see confirmClaims.
type storePoller struct {
	onTime, low arrivals
	alive       atomic.Pointer[[]store.Session] // as of the last poll of the sessions
	// missed is when a fire was found unclaimed twice while other tasks came.
	missed      clock.Stamp
	tasksAbsent clock.Stamp // when fires were found and no tasks came
	// unclaimed are the fires found at the last poll, with their revision. This and the next belong
	// to pollStore.
	unclaimed map[timer.FireID]int32
	// bursts are the latest run times, in unix ms, of each app's burst while the low-priority topic
	// was behind.
	bursts map[int64]int64
}

// arrivals records when tasks arrive on one or more topics.
type arrivals struct {
	lastArrival clock.Stamp // tasks were received, or their claim ended
	mu          sync.Mutex
	next        int
	receivers   map[int]time.Time // receive calls, with their start
}

// receiving records that tasks arrived and are being handled until done is called.
func (b *storePoller) receiving(low bool) (done func()) {
	l := &b.onTime
	if low {
		l = &b.low
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.receivers == nil {
		l.receivers = make(map[int]time.Time)
	}
	l.next++
	id := l.next
	l.receivers[id] = time.Now()
	return func() {
		l.lastArrival.Set()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.receivers, id)
	}
}

// oldestWait returns how long received tasks have waited for their claim. some is false if there
// are none.
func (l *arrivals) oldestWait() (waits time.Duration, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, began := range l.receivers {
		waits = max(waits, time.Since(began))
	}
	return waits, len(l.receivers) > 0
}

// idle reports whether no tasks arrive.
func (l *arrivals) idle() bool {
	_, some := l.oldestWait()
	return !some && !l.lastArrival.Within(noTasksAfter)
}

// behind reports whether tasks still to be claimed may carry the unclaimed fires. Either the last
// tasks were old at their claim, or some have waited here since before the last poll.
func (l *arrivals) behind(age *taskAge) bool {
	waits, _ := l.oldestWait()
	return waits >= pollEvery || !l.idle() && !age.fresh()
}

// fresh reports whether the last tasks were claimed soon after their publication.
func (a *taskAge) fresh() bool {
	return a.at.Within(noTasksAfter) && a.ms.Load() < freshTaskAge.Milliseconds()
}

// pollStore polls the store until ctx ends.
func (s *Service) pollStore(ctx context.Context) error {
	if s.opts.PollAhead <= 0 {
		return nil
	}
	b := &s.storePoller
	b.onTime.lastArrival.Set() // give tasks time to arrive first
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		idle, active := b.onTime.idle(), b.missed.Within(eagerAfterMiss) ||
			b.tasksAbsent.Within(eagerAfterOutage)
		behind := b.onTime.behind(&s.taskAges[1])
		if behind && !active {
			b.unclaimed = nil
			continue
		}
		if !active && len(b.unclaimed) == 0 && n%idlePollEvery != 0 {
			continue
		}
		found, missed, err := s.poll(ctx, active, (idle || active) && n%latePollEvery == 0)
		if err != nil {
			s.log.Debug().Err(err).Msg("store not polled for fires without tasks")
		}
		if found == 0 {
			continue
		}
		s.met.polled.Add(float64(found))
		if !active {
			s.log.Warn().
				Int("fires", found).
				Msg("no tasks arrived for these fires, claimed from the store")
		}
		switch {
		case idle:
			b.tasksAbsent.Set()
		case !behind && missed:
			b.missed.Set()
		}
	}
}

// poll claims fires due soon that were unclaimed at the last poll too, or at once if atOnce is set.
// With late set it also claims late fires and those of expired sessions. It leaves low-priority
// fires and bursts to the low-priority topic while that is behind.
//
// It returns how many fires it tried to claim, and whether the last poll had found any of them.
func (s *Service) poll(
	ctx context.Context,
	atOnce, late bool,
) (found int, missed bool, err error) {
	before := s.storePoller.unclaimed
	s.storePoller.unclaimed = nil
	epoch := s.heartbeater.Epoch()
	if epoch == nil || !epoch.Valid() || s.inflight.Crowded() {
		return 0, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	now := s.opts.Clock.Now()
	ahead, overdue := now.Add(s.opts.PollAhead).UnixMilli(), now.Add(-catchUpAfter).UnixMilli()
	l := &storePoll{svc: s, epoch: epoch}
	if err := l.loadBuckets(ctx, timer.MinuteOf(overdue)-1, timer.MinuteOf(ahead)); err != nil {
		return 0, false, err
	}
	fires, err := l.read(ctx, overdue, ahead, s.opts.MaxInflight/inflight.CrowdedShare, l.inShard)
	if err != nil {
		return 0, false, err
	}
	lowBehind := s.storePoller.low.behind(&s.taskAges[0])
	if lowBehind {
		fires = s.storePoller.excludeLow(
			fires,
			s.storePoller.onTime.lastArrival.Within(dispatchedWithin),
		)
	} else {
		s.storePoller.bursts = nil
	}
	again, others := splitSeen(fires, before)
	missed = len(again) > 0
	if !atOnce {
		fires, s.storePoller.unclaimed = again, others
	}
	if err := s.claimPolled(
		ctx,
		epoch,
		fires,
		inflight.FromPoll,
	); err != nil || !late ||
		lowBehind {
		return len(fires), missed, err
	}
	n, err := s.pollLate(ctx, l, now)
	return len(fires) + n, missed, err
}

// excludeLow returns the fires whose tasks are not on the low-priority topic. All tasks of an app's
// burst may be there, up to the latest run time seen, until that topic has caught up. If no tasks
// were dispatched for long, no trigger publishes, and a burst is not on any topic.
func (b *storePoller) excludeLow(fires []timer.Fire, dispatched bool) []timer.Fire {
	of := make(map[int64]int)
	for i := range fires {
		f := &fires[i]
		if of[f.AppID]++; dispatched && of[f.AppID] == burstSize {
			if b.bursts == nil {
				b.bursts = make(map[int64]int64)
			}
			for k := range fires {
				if fires[k].AppID == f.AppID {
					b.bursts[f.AppID] = max(b.bursts[f.AppID], fires[k].RunAtMS)
				}
			}
		}
	}
	return slices.DeleteFunc(fires, func(f timer.Fire) bool {
		last, burst := b.bursts[f.AppID]
		return f.UsesLowPriorityTopic() || burst && f.RunAtMS <= last
	})
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

// pollLate claims some late fires if there is room and on-time fires are not congested.
func (s *Service) pollLate(ctx context.Context, l *storePoll, now time.Time) (int, error) {
	room := min(latePollMax, s.inflight.LateRoom())
	if room <= 0 || s.catchUpThrottle.congested() {
		return 0, nil
	}
	overdue := now.Add(-catchUpAfter).UnixMilli()
	fires, err := l.read(ctx, 0, overdue, room, l.inShard)
	if err == nil && len(fires) < room {
		var more []timer.Fire
		more, err = l.read(
			ctx,
			0,
			now.Add(-otherShardsAfter).UnixMilli(),
			room-len(fires),
			func(b int32) bool { return !l.inShard(b) },
		)
		fires = append(fires, more...)
	}
	if err == nil && len(fires) < room {
		var more []timer.Fire
		// The process that expired them could not publish these.
		more, err = session.OrphanedClaims(
			ctx,
			s.opts.Store,
			expiredWithin,
			overdue,
			room-len(fires),
		)
		fires = append(fires, more...)
	}
	return len(fires), cmp.Or(err, s.claimPolled(ctx, l.epoch, fires, inflight.FromLatePoll))
}

func (s *Service) claimPolled(
	ctx context.Context,
	epoch *session.Epoch,
	fires []timer.Fire,
	source inflight.Source,
) error {
	for part := range slices.Chunk(fires, store.MaxBatch) {
		if _, err := s.claim(ctx, epoch, part, source); err != nil {
			return err
		}
	}
	return nil
}

// storePoll is one poll of the store.
type storePoll struct {
	svc       *Service
	epoch     *session.Epoch
	from, to  int64 // minutes
	buckets   map[int64]int32
	shard, of int32
}

// loadBuckets reads the bucket counts of the minutes, and this executor's shard among the alive
// ones.
func (l *storePoll) loadBuckets(ctx context.Context, from, to int64) error {
	counts, err := l.svc.opts.Store.MinuteCounts(ctx, from, to)
	if err != nil {
		return err //nolint:wrapcheck // the store says what failed
	}
	l.from, l.to, l.buckets = from, to, make(map[int64]int32, len(counts))
	for _, c := range counts {
		l.buckets[c.Minute] = c.Buckets
	}
	l.of = 1
	if alive := l.svc.storePoller.alive.Load(); alive != nil {
		l.shard, l.of = session.Shard(*alive, store.ExecutorSession, l.epoch.ID)
	}
	return nil
}

func (l *storePoll) inShard(bucket int32) bool { return bucket%l.of == l.shard }

// read returns at most limit unclaimed fires of the wanted buckets with afterMS < run time <=
// untilMS.
func (l *storePoll) read(
	ctx context.Context,
	afterMS, untilMS int64,
	limit int,
	want func(bucket int32) bool,
) (fires []timer.Fire, err error) {
	for minute := max(l.from, timer.MinuteOf(afterMS)); minute <= min(l.to, timer.MinuteOf(untilMS)); minute++ {
		for bucket := range max(1, l.buckets[minute]) {
			if !want(bucket) || len(fires) >= limit {
				continue
			}
			page, err := l.svc.opts.Store.LoadSlice(
				ctx,
				minute,
				bucket,
				store.After(afterMS),
				untilMS,
				min(limit-len(fires), pollPage),
			)
			if err != nil {
				return nil, fmt.Errorf("reading fires without tasks: %w", err)
			}
			fires = append(fires, page...)
		}
	}
	slices.SortFunc(
		fires,
		func(a, b timer.Fire) int { return cmp.Or(cmp.Compare(a.RunAtMS, b.RunAtMS), timer.CompareFires(a, b)) },
	)
	return fires, nil
}
