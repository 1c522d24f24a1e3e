package pickup_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/pickup"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/memstore"
	"github.com/carillon-timer/carillon/libs/timer"
)

// asked is a store that answers from lists of fires.
type asked struct {
	store.Sessions

	mu       sync.Mutex
	dueSoon  []timer.Fire
	buckets  int32         // of each minute; 0: as if 1
	loads    time.Duration // how long it takes to load a slice
	overdue  []timer.Fire
	owned    []timer.Fire
	expired  []store.Session
	queries  []store.OverdueQuery
	orphaned int   // questions for owned fires
	hangsTo  int64 // questions for owned fires from before this time on are not answered
	minutes  int   // questions for the buckets of minutes
	inVain   int   // those of them that had no time left
}

func (a *asked) MinuteCounts(
	ctx context.Context, from, to int64,
) (counts []slicing.MinuteCount, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.minutes++
	if ctx.Err() != nil {
		a.inVain++
	}
	for minute := from; minute <= to && a.buckets > 0; minute++ {
		counts = append(counts, slicing.MinuteCount{Minute: minute, Buckets: a.buckets})
	}
	return counts, ctx.Err()
}

func (a *asked) LoadSlice(
	ctx context.Context,
	minute int64,
	bucket int32,
	after store.Position,
	untilMS int64,
	limit int,
) (found []timer.Fire, err error) {
	a.mu.Lock()
	takes := a.loads
	a.mu.Unlock()
	if clock.Pause(ctx, takes); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.dueSoon { // in order of run time, then of due and id
		if f.RunAtMinute() == minute && f.Bucket == bucket &&
			f.RunAtMS <= untilMS && len(found) < limit &&
			(f.RunAtMS > after.RunAtMS || f.RunAtMS == after.RunAtMS &&
				timer.CompareFireIDs(f.FireID, after.FireID) > 0) {
			found = append(found, f)
		}
	}
	return found, nil
}

func (a *asked) Overdue(_ context.Context, q store.OverdueQuery) ([]timer.Fire, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queries = append(a.queries, q)
	return a.overdue[:min(len(a.overdue), q.Limit)], nil
}

func (a *asked) Owned(
	ctx context.Context, _ []timer.ID, fromMS, untilMS int64, limit int,
) (fires []timer.Fire, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.orphaned++
	if fromMS < a.hangsTo {
		a.mu.Unlock()
		<-ctx.Done()
		a.mu.Lock()
		return nil, ctx.Err()
	}
	for _, f := range a.owned {
		if f.RunAtMS >= fromMS && f.RunAtMS <= untilMS && len(fires) < limit {
			fires = append(fires, f)
		}
	}
	return fires, nil
}

func (a *asked) ExpiredSessions(context.Context, time.Duration) ([]store.Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.expired, nil
}

func (a *asked) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// claims are what a poller claimed, with the time.
type claims struct {
	mu   sync.Mutex
	at   map[timer.FireID]time.Time
	late map[timer.FireID]bool
	most int // at once
}

func (c *claims) claim(
	ctx context.Context, _ *session.Epoch, _ pickup.Question, fires []timer.Fire, late bool,
) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.most = max(c.most, len(fires))
	for _, f := range fires {
		if _, ok := c.at[f.FireID]; !ok {
			c.at[f.FireID], c.late[f.FireID] = time.Now(), late
		}
	}
	return nil
}

func (c *claims) of(f timer.Fire) (at time.Time, late, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok = c.at[f.FireID]
	return at, c.late[f.FireID], ok
}

func (c *claims) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.at)
}

// run runs a poller with a valid session.
func run(t *testing.T, a *asked, change func(*pickup.Options)) (*pickup.Poller, *claims) {
	t.Helper()
	heartbeater, err := session.NewHeartbeater(session.Options{
		Store: memstore.New(time.Now), IDs: timer.NewIDs(time.Now),
		Kind: store.ExecutorSession, Logger: zerolog.Nop(),
	})
	require.NoError(t, err)
	c := &claims{at: make(map[timer.FireID]time.Time), late: make(map[timer.FireID]bool)}
	opts := pickup.Options{
		Store: a, Ahead: time.Second, Now: time.Now, Epoch: heartbeater.Epoch,
		Pressure: func() pickup.Pressure { return pickup.Pressure{Room: 1000, LateRoom: 100} },
		Claim:    c.claim, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&opts)
	}
	p, err := pickup.New(opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = heartbeater.Run(ctx) })
	running.Go(func() { _ = p.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	time.Sleep(10 * time.Millisecond)
	p.SetAlive([]store.Session{{ID: heartbeater.Epoch().ID, Kind: store.ExecutorSession}})
	return p, c
}

// fireAt returns a fire with its run time so long from now.
func fireAt(id timer.ID, after time.Duration) timer.Fire {
	run := time.Now().Add(after).UnixMilli()
	return timer.Fire{FireID: timer.FireID{Timer: id, DueMS: run}, RunAtMS: run, AppID: 1}
}

// TestEachFireIsClaimedBeforeItsRunTime checks that two polls see an unclaimed fire before its run
// time, whenever that is between two polls.
func TestEachFireIsClaimedBeforeItsRunTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := new(asked)
		_, c := run(t, a, nil)
		for id := timer.ID(1); id < 60; id++ {
			f := fireAt(id, 3*time.Second)
			a.set(func() { a.dueSoon = []timer.Fire{f} })
			time.Sleep(8*time.Second + 37*time.Millisecond) // no poll is eager after so long
			at, late, ok := c.of(f)
			require.True(t, ok)
			require.False(t, at.After(time.UnixMilli(f.RunAtMS)), "%s", at)
			require.False(t, late)
		}
	})
}

// TestFireBehindABurstIsClaimed: the burst of an app is on the low-priority topic, which is behind.
// A fire of another app in the same slice, without a task, is on time, whether or not the burst has one
// run time and the executor much room.
func TestFireBehindABurstIsClaimed(t *testing.T) {
	t.Parallel()
	for _, room := range []int{50_000, 3000} {
		for _, spread := range []time.Duration{0, time.Second / 2} {
			synctest.Test(t, func(t *testing.T) {
				a := new(asked)
				_, c := run(t, a, func(o *pickup.Options) {
					o.Pressure = func() pickup.Pressure {
						return pickup.Pressure{Room: room, Dispatched: true, LowBehind: true}
					}
				})
				const burst = 10_001
				var fires []timer.Fire
				for id := range burst {
					of := fireAt(timer.ID(id+2), time.Second+spread*time.Duration(id)/burst)
					of.AppID = 2
					fires = append(fires, of)
				}
				f := fireAt(1, 5*time.Second)
				fires = append(fires, f)
				a.set(func() { a.dueSoon = fires })
				time.Sleep(20 * time.Second)
				at, _, ok := c.of(f)
				require.True(t, ok)
				require.False(t, at.After(time.UnixMilli(f.RunAtMS)), "%s", at)
				require.Equal(t, 1, c.len(), "the burst is left to its topic: %d %s", room, spread)
			})
		}
	}
}

// TestEachBucketIsReadFromASlowStore checks that the fires of the first and the last bucket of a busy
// minute are claimed before they are overdue, although the store takes long for each slice. If it takes
// so long that not all are read in time, those that are read are claimed, and a warning tells.
func TestEachBucketIsReadFromASlowStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes  time.Duration
		second int           // of the minute: at the beginning, the minute before is read, too
		within time.Duration // from the run time
		all    bool
	}{
		"all are read":  {300 * time.Millisecond, 3, store.OverdueAfter, true},
		"half are read": {2 * time.Second, 20, 2 * store.OverdueAfter, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const buckets = 32
				var warned atomic.Int64
				a := &asked{buckets: buckets, loads: c.takes}
				_, got := run(t, a, func(o *pickup.Options) {
					o.Pressure = func() pickup.Pressure { return pickup.Pressure{Room: 50_000, LateRoom: 100} }
					o.Logger = zerolog.New(io.Discard).Hook(zerolog.HookFunc(
						func(_ *zerolog.Event, _ zerolog.Level, msg string) {
							if msg == "fires due soon not all read from the store, again" {
								warned.Add(1)
							}
						},
					))
				})
				begin := time.Now().Truncate(time.Minute)
				time.Sleep(time.Until(begin.Add(time.Duration(c.second) * time.Second)))
				first, last := fireAt(1, time.Second), fireAt(2, time.Second)
				last.Bucket = buckets - 1
				a.set(func() { a.dueSoon = []timer.Fire{first, last} })
				time.Sleep(time.Second + c.within)
				_, _, ok := got.of(first)
				require.True(t, ok)
				_, _, ok = got.of(last)
				require.Equal(t, c.all, ok)
				require.Equal(t, c.all, warned.Load() == 0)
			})
		})
	}
}

// TestSlicesReadAtOnceKeepToTheRoom checks that no more fires are claimed than there is room for,
// however many slices have them.
func TestSlicesReadAtOnceKeepToTheRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const buckets, each, room = 8, 1000, 3000
		a := &asked{buckets: buckets}
		_, c := run(t, a, func(o *pickup.Options) {
			o.Pressure = func() pickup.Pressure { return pickup.Pressure{Room: room} }
		})
		var fires []timer.Fire
		for i := range buckets * each {
			f := fireAt(timer.ID(i+1), 2*time.Second)
			f.Bucket = int32(i % buckets)
			fires = append(fires, f)
		}
		a.set(func() { a.dueSoon = fires })
		time.Sleep(3 * time.Second)
		c.mu.Lock()
		defer c.mu.Unlock()
		require.Equal(t, room, c.most)
	})
}

func TestP2OverdueFireIsClaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := new(asked)
		p, c := run(t, a, func(o *pickup.Options) { o.Ahead = 0 })
		f := fireAt(1, -365*24*time.Hour)
		a.set(func() { a.overdue = []timer.Fire{f} })
		time.Sleep(2 * time.Second)
		_, late, ok := c.of(f)
		require.True(t, ok)
		require.True(t, late, "it yields to on-time traffic")
		a.mu.Lock()
		defer a.mu.Unlock()
		require.Equal(t, []timer.ID{p.Alive()[0].ID}, a.queries[len(a.queries)-1].Live)
	})
}

// TestOverdueFiresWaitWhileExecutorsAreOverloaded checks that overload is not amplified, and that
// overdue fires do not wait forever.
func TestOverdueFiresWaitWhileExecutorsAreOverloaded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own   pickup.Pressure
		other store.Load
	}{
		"behind":                  {own: pickup.Pressure{LateRoom: 9, Behind: true}},
		"behind on the low topic": {own: pickup.Pressure{LateRoom: 9, LowBehind: true}},
		"no room":                 {},
		"another is full":         {own: pickup.Pressure{LateRoom: 9}, other: store.Load{InflightFull: true}},
		"another is behind":       {own: pickup.Pressure{LateRoom: 9}, other: store.Load{OldestTaskMS: 3000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := new(asked)
				p, got := run(t, a, func(o *pickup.Options) {
					o.Pressure = func() pickup.Pressure { return c.own }
				})
				other := store.Session{ID: 1, Kind: store.ExecutorSession, Load: c.other}
				p.SetAlive(append(p.Alive(), other))
				a.set(func() { a.overdue = []timer.Fire{fireAt(1, -time.Hour)} })
				time.Sleep(50 * time.Second)
				require.Zero(t, got.len())
				time.Sleep(20 * time.Second)
				require.Equal(t, 1, got.len())
				a.mu.Lock()
				defer a.mu.Unlock()
				last := a.queries[len(a.queries)-1]
				require.EqualValues(t, 1, last.Shards, "it asks for the buckets of all executors")
			})
		})
	}
}

// TestOrphansAreClaimedAtOnce checks that the claims of a lost executor are looked for as soon as
// its session is missing, and no more once it owns nothing.
func TestOrphansAreClaimedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := new(asked)
		p, c := run(t, a, nil)
		me := p.Alive()
		lost := store.Session{ID: 1, Kind: store.ExecutorSession}
		p.SetAlive(append(me[:1:1], lost))
		time.Sleep(2 * time.Second)
		f := fireAt(1, 20*time.Second)
		f.Owner = lost.ID
		a.set(func() { a.owned, a.expired = []timer.Fire{f}, []store.Session{lost} })
		seen := time.Now()
		p.SetAlive(me)
		synctest.Wait()
		at, _, ok := c.of(f)
		require.True(t, ok)
		require.Equal(t, seen, at)
		a.set(func() { a.owned = nil })
		time.Sleep(20 * time.Second)
		a.set(func() { a.orphaned = 0 })
		time.Sleep(20 * time.Second)
		require.Zero(t, a.orphaned)
	})
}

// TestLateOrphansHideNoOther checks that the on-time claims of a lost executor are found behind very
// many late ones, which wait while executors are congested.
func TestLateOrphansHideNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := new(asked)
		p, c := run(t, a, func(o *pickup.Options) {
			o.Pressure = func() pickup.Pressure { return pickup.Pressure{LowBehind: true} }
		})
		me, lost := p.Alive(), store.Session{ID: 1, Kind: store.ExecutorSession}
		p.SetAlive(append(me[:1:1], lost))
		var owned []timer.Fire
		for i := range 11_000 {
			owned = append(owned, fireAt(timer.ID(i+2), -time.Minute))
		}
		f := fireAt(1, 2*time.Second)
		owned = append(owned, f)
		a.set(func() { a.owned, a.expired = owned, []store.Session{lost} })
		p.SetAlive(me)
		time.Sleep(2 * time.Second)
		at, _, ok := c.of(f)
		require.True(t, ok)
		require.False(t, at.After(time.UnixMilli(f.RunAtMS)))
		require.Equal(t, 1, c.len(), "late ones wait")
	})
}

// TestSlowOrphansDelayNothingElse checks that the on-time claims of a lost executor are claimed while
// the store does not answer for its late ones, for as long as it does not, and that fires due soon are
// found meanwhile, also while it answers for no claims at all.
func TestSlowOrphansDelayNothingElse(t *testing.T) {
	t.Parallel()
	for name, onTime := range map[string]bool{"late ones": true, "all": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := new(asked)
				p, c := run(t, a, nil)
				me, lost := p.Alive(), store.Session{ID: 1, Kind: store.ExecutorSession}
				p.SetAlive(append(me[:1:1], lost))
				f := fireAt(1, 2*time.Second)
				a.set(func() {
					a.expired, a.owned = []store.Session{lost}, []timer.Fire{f}
					if a.hangsTo = timer.NeverMS; onTime {
						a.hangsTo = 1
					}
				})
				p.SetAlive(me)
				time.Sleep(20 * time.Second)
				at, _, ok := c.of(f)
				require.Equal(t, onTime, ok)
				require.False(t, at.After(time.UnixMilli(f.RunAtMS)))
				a.set(func() { a.owned, a.orphaned = nil, 0 })
				time.Sleep(30 * time.Second)
				a.set(func() {
					require.NotZero(t, a.orphaned, "what the late ones are is not known yet")
					require.NotZero(t, a.minutes)
					require.Zero(t, a.inVain, "questions for fires due soon without time")
				})
			})
		})
	}
}

// TestShardsTakeTurns checks that executors divide the buckets at any time, and that each bucket
// comes to each of them.
func TestShardsTakeTurns(t *testing.T) {
	t.Parallel()
	alive := []store.Session{
		{ID: 3, Kind: store.ExecutorSession},
		{ID: 5, Kind: store.SchedulerSession},
		{ID: 9, Kind: store.ExecutorSession},
	}
	owners := make(map[timer.ID]bool)
	for turn := range int64(2) {
		first, second := pickup.ShardOf(alive, 3, turn), pickup.ShardOf(alive, 9, turn)
		for bucket := range int32(8) {
			require.NotEqual(t, first.Has(bucket), second.Has(bucket))
		}
		if first.Has(0) {
			owners[3] = true
		} else {
			owners[9] = true
		}
	}
	require.Len(t, owners, 2)
	require.Equal(t, pickup.Shard{Count: 1}, pickup.ShardOf(alive, 4, 1), "not among the alive")
	require.Equal(t, pickup.Shard{Count: 1}, pickup.ShardOf(nil, 3, 1))
}

func TestAheadLeavesTimeForTwoPolls(t *testing.T) {
	t.Parallel()
	_, err := pickup.New(pickup.Options{Ahead: pickup.Every})
	require.ErrorContains(t, err, "Ahead is 0, or long enough for two polls")
}
