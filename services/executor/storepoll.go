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
)

const (
	pollEvery     = 250 * time.Millisecond // between looks while they find something
	idlePollEvery = 4                      // and so many times that otherwise
	// noTasksAfter is how long no task has come before none seem to come.
	noTasksAfter = time.Second
	// dispatchedWithin is how long after the last task of a lane of what is due now a flood is taken for
	// one that a trigger handed out.
	dispatchedWithin = 5 * time.Second
	// freshTaskAge is how old a task may be at its claim for the topics not to be behind: what nobody
	// has claimed may else be with them.
	freshTaskAge = 500 * time.Millisecond
	// eagerAfterMiss is how long one look is enough after a task was missed.
	eagerAfterMiss = 5 * time.Second
	// eagerAfterOutage is that after a time without any: not every partition of the topics is back at
	// once, and a broker that has just started is slow.
	eagerAfterOutage = 15 * time.Second
	// past its run a fire is catch-up, which gives way to what is due now;.
	catchUpAfter     = time.Second
	otherShardsAfter = 2 * time.Second // and past this what is another executor's share is taken too
	latePollEvery    = 2               // it is looked for at every so many looks
	latePollMax      = 500             // and so much of it taken at the most
	pollPage         = 4000            // fires of a bucket
	// unclaimed fires of an app: those of a flood may be on the low-priority topic.
	burstSize     = 2000
	expiredWithin = time.Minute
	pollTimeout   = 5 * time.Second
)

// storePoller takes fires from the store itself that no task brings: the bus is away, or triggers or
// schedulers are, or just that task was lost. A fire is the store's, and a claim there needs none
// of them: as long as an executor reaches the store, what was expanded is called, on time. Nothing
// is to be caught up when they are back: triggers hand out only what nobody has claimed.
//
// Once a second it looks at what is due within the next, and claims what nobody has claimed at a
// second look either, a quarter of a second later: tasks come a lead ahead and are claimed within
// milliseconds. For a while after that, one look is enough. While the topics are behind, what is
// unclaimed is with them, and is left to them: claims by both would be twice the work when there is
// most to do.
//
// Two at once: executors divide the buckets among the living, and where they disagree about who
// lives, or a task comes after all, the fire is claimed once. Dying after the claim: the session
// dies too. A claim without an answer is in doubt and is made again (reclaim).
type storePoller struct {
	onTime, low arrivals
	alive       atomic.Pointer[[]store.Session] // as of the last look at the sessions
	// a task was found missing among those that came: no doubt that it was.
	missed      clock.Stamp
	tasksAbsent clock.Stamp // tasks were, and none came
	// unclaimed at the last look, by revision; this and the next are pollStore's alone.
	unclaimed map[timer.FireID]int32
	// the latest run, in unix ms, of what apps had too much of at once while the low-priority topic
	// was behind.
	bursts map[int64]int64
}

// arrivals is how tasks come by a topic, or by several.
type arrivals struct {
	lastArrival clock.Stamp // tasks were received, or their claim was over
	mu          sync.Mutex
	next        int
	receivers   map[int]time.Time // receiving calls, and when each began
}

// receiving tells that tasks have come, until the function returned is called.
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

// oldestWait returns for how long tasks that were received wait for their claim, and whether any do.
func (l *arrivals) oldestWait() (waits time.Duration, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, began := range l.receivers {
		waits = max(waits, time.Since(began))
	}
	return waits, len(l.receivers) > 0
}

// idle tells whether no tasks come.
func (l *arrivals) idle() bool {
	_, some := l.oldestWait()
	return !some && !l.lastArrival.Within(noTasksAfter)
}

// behind tells whether what is unclaimed may be with the tasks that come: they were old when they
// were claimed last, or have waited here since before a look that did not find them claimed.
func (l *arrivals) behind(age *taskAge) bool {
	waits, _ := l.oldestWait()
	return waits >= pollEvery || !l.idle() && !age.fresh()
}

// fresh tells whether the tasks that come had not waited.
func (a *taskAge) fresh() bool {
	return a.at.Within(noTasksAfter) && a.ms.Load() < freshTaskAge.Milliseconds()
}

// pollStore looks at the store, until ctx ends.
func (s *Service) pollStore(ctx context.Context) error {
	if s.opts.PollAhead <= 0 {
		return nil
	}
	b := &s.storePoller
	b.onTime.lastArrival.Set() // they get the time to come first
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
			s.log.Debug().Err(err).Msg("fires without tasks not looked for")
		}
		if found == 0 {
			continue
		}
		s.met.polled.Add(float64(found))
		if !active {
			s.log.Warn().
				Int("fires", found).
				Msg("fires are taken from the store, no tasks of theirs have come")
		}
		switch {
		case idle:
			b.tasksAbsent.Set()
		case !behind && missed:
			b.missed.Set()
		}
	}
}

// poll claims what is due soon and was nobody's at the last look either, or at once, and, if
// late, what is past its run, or a dead session's; nothing of what goes by the low-priority topic,
// floods too, while that is behind, which may take its time. It returns how many it tried to claim,
// and whether any of them was seen before.
func (s *Service) poll(
	ctx context.Context,
	atOnce, late bool,
) (found int, missed bool, err error) {
	before := s.storePoller.unclaimed
	s.storePoller.unclaimed = nil
	epoch := s.heartbeater.Epoch()
	if epoch == nil || !epoch.Valid() || s.inflight.crowded() {
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
	fires, err := l.read(ctx, overdue, ahead, s.opts.MaxInflight/crowdedShare, l.inShard)
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
	if err := s.claimPolled(ctx, epoch, fires, sourcePoll); err != nil || !late || lowBehind {
		return len(fires), missed, err
	}
	n, err := s.pollLate(ctx, l, now)
	return len(fires) + n, missed, err
}

// excludeLow returns the fires whose tasks are not on the low-priority topic. Of an app that has too
// much at once all may be there, up to the last that a look found, until that lane is done with it.
// Where no tasks have come for long (handed is false) what is found is nobody's: no trigger is
// there to publish it by any lane.
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

// splitSeen returns those of the fires that were seen before, and the others by revision.
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

// pollLate claims some of what is late, where there is room for it and the present begins on
// time.
func (s *Service) pollLate(ctx context.Context, l *storePoll, now time.Time) (int, error) {
	room := min(latePollMax, s.inflight.lateRoom())
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
		// who ended them could not publish these.
		more, err = session.OrphanedClaims(
			ctx,
			s.opts.Store,
			expiredWithin,
			overdue,
			room-len(fires),
		)
		fires = append(fires, more...)
	}
	return len(fires), cmp.Or(err, s.claimPolled(ctx, l.epoch, fires, sourceLatePoll))
}

func (s *Service) claimPolled(
	ctx context.Context,
	epoch *session.Epoch,
	fires []timer.Fire,
	source claimSource,
) error {
	for part := range slices.Chunk(fires, store.MaxBatch) {
		if _, err := s.claim(ctx, epoch, part, source); err != nil {
			return err
		}
	}
	return nil
}

// storePoll is one look at the store.
type storePoll struct {
	svc       *Service
	epoch     *session.Epoch
	from, to  int64 // minutes
	buckets   map[int64]int32
	shard, of int32
}

// loadBuckets reads how many buckets the minutes have, and finds this executor's place among the living.
func (l *storePoll) loadBuckets(ctx context.Context, from, to int64) error {
	counts, err := l.svc.opts.Store.MinuteCounts(ctx, from, to)
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
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

// read returns unclaimed fires with afterMS < run <= untilMS of the buckets wanted, at most limit.
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
				return nil, fmt.Errorf("looking for fires without tasks: %w", err)
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
