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
	bypassEvery = 250 * time.Millisecond // between looks while they find something
	calmLooks   = 4                      // and so many times that otherwise
	// silentAfter is how long no task has come before none seem to come.
	silentAfter = time.Second
	// handedFor is how long after the last task of a lane of what is due now a flood is taken for
	// one that a trigger handed out.
	handedFor = 5 * time.Second
	// youngTask is how old a task may be at its claim for the topics not to be behind: what nobody
	// has claimed may else be with them.
	youngTask = 500 * time.Millisecond
	// bypassFor is how long one look is enough after a task was missed.
	bypassFor = 5 * time.Second
	// returnFor is that after a time without any: not every partition of the topics is back at
	// once, and a broker that has just started is slow.
	returnFor = 15 * time.Second
	// past its run a fire is catch-up, which gives way to what is due now;.
	bypassLate = time.Second
	othersLate = 2 * time.Second // and past this what is another executor's share is taken too
	lateLooks  = 2               // it is looked for at every so many looks
	lateAtOnce = 500             // and so much of it taken at the most
	pageAtOnce = 4000            // fires of a bucket
	// unclaimed fires of an app: those of a flood may be on the low-priority topic.
	floodAtLeast  = 2000
	endedWithin   = time.Minute
	bypassTimeout = 5 * time.Second
)

// bypass takes fires from the store itself that no task brings: the bus is away, or triggers or
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
type bypass struct {
	present, low lane
	living       atomic.Pointer[[]store.Session] // as of the last look at the sessions
	// a task was found missing among those that came: no doubt that it was.
	missed clock.Stamp
	absent clock.Stamp // tasks were, and none came
	// unclaimed at the last look, by revision; this and the next are goAround's alone.
	seen map[timer.FireID]int32
	// the latest run, in unix ms, of what apps had too much of at once while the low-priority topic
	// was behind.
	floods map[int64]int64
}

// lane is how tasks come by a topic, or by several.
type lane struct {
	came clock.Stamp // tasks were received, or their claim was over
	mu   sync.Mutex
	next int
	here map[int]time.Time // receiving calls, and when each began
}

// receiving tells that tasks have come, until the function returned is called.
func (b *bypass) receiving(low bool) (done func()) {
	l := &b.present
	if low {
		l = &b.low
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.here == nil {
		l.here = make(map[int]time.Time)
	}
	l.next++
	id := l.next
	l.here[id] = time.Now()
	return func() {
		l.came.Set()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.here, id)
	}
}

// oldest returns for how long tasks that were received wait for their claim, and whether any do.
func (l *lane) oldest() (waits time.Duration, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, began := range l.here {
		waits = max(waits, time.Since(began))
	}
	return waits, len(l.here) > 0
}

// silent tells whether no tasks come.
func (l *lane) silent() bool {
	_, some := l.oldest()
	return !some && !l.came.Within(silentAfter)
}

// behind tells whether what is unclaimed may be with the tasks that come: they were old when they
// were claimed last, or have waited here since before a look that did not find them claimed.
func (l *lane) behind(age *taskAge) bool {
	waits, _ := l.oldest()
	return waits >= bypassEvery || !l.silent() && !age.young()
}

// young tells whether the tasks that come had not waited.
func (a *taskAge) young() bool {
	return a.at.Within(silentAfter) && a.ms.Load() < youngTask.Milliseconds()
}

// goAround looks at the store, until ctx ends.
func (s *Service) goAround(ctx context.Context) error {
	if s.opts.PollAhead <= 0 {
		return nil
	}
	b := &s.bypass
	b.present.came.Set() // they get the time to come first
	tick := time.NewTicker(bypassEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		silent, active := b.present.silent(), b.missed.Within(bypassFor) ||
			b.absent.Within(returnFor)
		behind := b.present.behind(&s.ages[1])
		if behind && !active {
			b.seen = nil
			continue
		}
		if !active && len(b.seen) == 0 && n%calmLooks != 0 {
			continue
		}
		found, missed, err := s.lookAround(ctx, active, (silent || active) && n%lateLooks == 0)
		if err != nil {
			s.log.Debug().Err(err).Msg("fires without tasks not looked for")
		}
		if found == 0 {
			continue
		}
		s.met.bypassed.Add(float64(found))
		if !active {
			s.log.Warn().
				Int("fires", found).
				Msg("fires are taken from the store, no tasks of theirs have come")
		}
		switch {
		case silent:
			b.absent.Set()
		case !behind && missed:
			b.missed.Set()
		}
	}
}

// lookAround claims what is due soon and was nobody's at the last look either, or at once, and, if
// late, what is past its run, or a dead session's; nothing of what goes by the low-priority topic,
// floods too, while that is behind, which may take its time. It returns how many it tried to claim,
// and whether any of them was seen before.
func (s *Service) lookAround(
	ctx context.Context,
	atOnce, late bool,
) (found int, missed bool, err error) {
	before := s.bypass.seen
	s.bypass.seen = nil
	term := s.keeper.Epoch()
	if term == nil || !term.Valid() || s.hands.crowded() {
		return 0, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, bypassTimeout)
	defer cancel()
	now := s.opts.Clock.Now()
	ahead, overdue := now.Add(s.opts.PollAhead).UnixMilli(), now.Add(-bypassLate).UnixMilli()
	l := &bypassLook{svc: s, term: term}
	if err := l.learn(ctx, timer.MinuteOf(overdue)-1, timer.MinuteOf(ahead)); err != nil {
		return 0, false, err
	}
	fires, err := l.read(ctx, overdue, ahead, s.opts.MaxInflight/crowdedShare, l.mine)
	if err != nil {
		return 0, false, err
	}
	lowBehind := s.bypass.low.behind(&s.ages[0])
	if lowBehind {
		fires = s.bypass.notLow(fires, s.bypass.present.came.Within(handedFor))
	} else {
		s.bypass.floods = nil
	}
	again, others := seenBefore(fires, before)
	missed = len(again) > 0
	if !atOnce {
		fires, s.bypass.seen = again, others
	}
	if err := s.claimFound(ctx, term, fires, byLook); err != nil || !late || lowBehind {
		return len(fires), missed, err
	}
	n, err := s.lookForLate(ctx, l, now)
	return len(fires) + n, missed, err
}

// notLow returns the fires whose tasks are not on the low-priority topic. Of an app that has too
// much at once all may be there, up to the last that a look found, until that lane is done with it.
// Where no tasks have come for long (handed is false) what is found is nobody's: no trigger is
// there to publish it by any lane.
func (b *bypass) notLow(fires []timer.Fire, handed bool) []timer.Fire {
	of := make(map[int64]int)
	for i := range fires {
		f := &fires[i]
		if of[f.AppID]++; handed && of[f.AppID] == floodAtLeast {
			if b.floods == nil {
				b.floods = make(map[int64]int64)
			}
			for k := range fires {
				if fires[k].AppID == f.AppID {
					b.floods[f.AppID] = max(b.floods[f.AppID], fires[k].RunAtMS)
				}
			}
		}
	}
	return slices.DeleteFunc(fires, func(f timer.Fire) bool {
		last, flood := b.floods[f.AppID]
		return f.Low() || flood && f.RunAtMS <= last
	})
}

// seenBefore returns those of the fires that were seen before, and the others by revision.
func seenBefore(
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

// lookForLate claims some of what is late, where there is room for it and the present begins on
// time.
func (s *Service) lookForLate(ctx context.Context, l *bypassLook, now time.Time) (int, error) {
	room := min(lateAtOnce, s.hands.lateRoom())
	if room <= 0 || s.pace.slow() {
		return 0, nil
	}
	overdue := now.Add(-bypassLate).UnixMilli()
	fires, err := l.read(ctx, 0, overdue, room, l.mine)
	if err == nil && len(fires) < room {
		var more []timer.Fire
		more, err = l.read(
			ctx,
			0,
			now.Add(-othersLate).UnixMilli(),
			room-len(fires),
			func(b int32) bool { return !l.mine(b) },
		)
		fires = append(fires, more...)
	}
	if err == nil && len(fires) < room {
		var more []timer.Fire
		// who ended them could not publish these.
		more, err = session.OrphanedClaims(ctx, s.opts.Store, endedWithin, overdue, room-len(fires))
		fires = append(fires, more...)
	}
	return len(fires), cmp.Or(err, s.claimFound(ctx, l.term, fires, byLateLook))
}

func (s *Service) claimFound(
	ctx context.Context,
	term *session.Epoch,
	fires []timer.Fire,
	by origin,
) error {
	for part := range slices.Chunk(fires, store.MaxBatch) {
		if _, err := s.claim(ctx, term, part, by); err != nil {
			return err
		}
	}
	return nil
}

// bypassLook is one look at the store.
type bypassLook struct {
	svc       *Service
	term      *session.Epoch
	from, to  int64 // minutes
	buckets   map[int64]int32
	place, of int32
}

// learn reads how many buckets the minutes have, and finds this executor's place among the living.
func (l *bypassLook) learn(ctx context.Context, from, to int64) error {
	counts, err := l.svc.opts.Store.MinuteCounts(ctx, from, to)
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	l.from, l.to, l.buckets = from, to, make(map[int64]int32, len(counts))
	for _, c := range counts {
		l.buckets[c.Minute] = c.Buckets
	}
	l.of = 1
	if living := l.svc.bypass.living.Load(); living != nil {
		l.place, l.of = session.Shard(*living, store.ExecutorSession, l.term.ID)
	}
	return nil
}

func (l *bypassLook) mine(bucket int32) bool { return bucket%l.of == l.place }

// read returns unclaimed fires with afterMS < run <= untilMS of the buckets wanted, at most limit.
func (l *bypassLook) read(
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
				min(limit-len(fires), pageAtOnce),
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
