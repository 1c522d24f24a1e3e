package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// gate is a store that counts reads, and can be unavailable.
type gate struct {
	Store

	mu     sync.Mutex
	away   bool
	reads  map[string]int // of calendars and backfills
	during func()         // a read of states
	copied bool           // log is the change log of a copy that lacks the last commits
	log    []store.Change
}

func (g *gate) read(what string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return errors.New("unavailable")
	}
	if g.reads == nil {
		g.reads = make(map[string]int)
	}
	g.reads[what]++
	return nil
}

func (g *gate) setAway(away bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = away
}

func (g *gate) Changes(ctx context.Context, after int64, limit int) ([]store.Change, error) {
	if err := g.read("changes"); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.copied {
		i := slices.IndexFunc(g.log, func(c store.Change) bool { return c.Seq > after })
		if i < 0 {
			return nil, nil
		}
		return g.log[i:], nil
	}
	return g.Store.Changes(ctx, after, limit)
}

func (g *gate) LastChange(ctx context.Context) (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.copied:
		return g.Store.LastChange(ctx)
	case len(g.log) == 0:
		return 0, nil
	}
	return g.log[len(g.log)-1].Seq, nil
}

// failOver replaces the change log by that of a copy.
func (g *gate) failOver(log []store.Change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.copied, g.log = true, log
}

func (g *gate) States(ctx context.Context, ids []timer.ID) ([]timer.State, error) {
	if err := g.read("states"); err != nil {
		return nil, err
	}
	states, err := g.Store.States(ctx, ids)
	if g.during != nil {
		g.during()
	}
	return states, err
}

func (g *gate) Definitions(
	ctx context.Context,
	keys []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	if err := g.read(fmt.Sprintf("%d definitions", len(keys))); err != nil {
		return nil, err
	}
	return g.Store.Definitions(ctx, keys)
}

func (g *gate) Calendar(_ context.Context, _, name string) (store.CalendarVersion, error) {
	return store.CalendarVersion{}, g.read("calendar " + name)
}

func (g *gate) Backfill(_ context.Context, _ string, id timer.ID) (store.Backfill, error) {
	err := g.read("backfill")
	if id == 1 {
		return store.Backfill{Status: store.BackfillCancelled}, err
	}
	return store.Backfill{}, err
}

// told are the changes that a cache has told.
type told struct {
	mu              sync.Mutex
	changed, logged []timer.Status
	missed          int
}

func (k *told) seen() (changed, logged []timer.Status, missed int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.changed), slices.Clone(k.logged), k.missed
}

func setup(t *testing.T, parts *servicetest.Parts) (*Cache, *gate, *told) {
	t.Helper()
	g, k := &gate{Store: parts.Store}, new(told)
	c := New(Options{
		Store:        g,
		Clock:        parts.Clock,
		SetLimits:    new(settings).Set,
		PollInterval: 500 * time.Millisecond,
		Changed: func(s *timer.State, _ time.Time) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.changed = append(k.changed, s.Status)
		},
		Logged: func(s *timer.State) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.logged = append(k.logged, s.Status)
		},
		Missed: func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.missed++
		},
		Logger: parts.Log,
	})
	return c, g, k
}

func run(t *testing.T, c *Cache) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

// create creates a timer and returns an entry of its first fire.
func create(parts *servicetest.Parts) *inflight.Entry {
	f := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[0]
	return &inflight.Entry{Fire: f}
}

func pause(t *testing.T, parts *servicetest.Parts, id timer.ID) {
	t.Helper()
	changed, err := parts.Store.SetStatus(t.Context(),
		[]store.StatusChange{{App: "a", ID: id, Status: timer.StatusInactive}}, parts.Plan)
	require.NoError(t, err)
	require.NoError(t, changed[0].Err)
}

// TestStatesAreFreshWhileTheLogIsPolled checks that a cached state serves only while the change log
// is read, and has its changes within a poll.
func TestStatesAreFreshWhileTheLogIsPolled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		c, g, k := setup(t, parts)
		e := create(parts)
		id := e.Fire.Timer
		same := &inflight.Entry{Fire: e.Fire}
		require.NoError(t, c.Timers.Load(t.Context(), []*inflight.Entry{e, same}))
		require.Equal(t, map[string]int{"states": 1, "1 definitions": 1}, g.reads)
		for _, e := range []*inflight.Entry{e, same} {
			require.Equal(t, timer.KindCron, e.Def.Schedule.Kind)
			require.NotEmpty(t, e.Endpoint)
		}
		_, _, ok := c.Timers.State(id)
		require.False(t, ok, "the log was not read yet")

		run(t, c)
		time.Sleep(time.Second)
		s, asOf, ok := c.Timers.State(id)
		require.True(t, ok)
		require.Equal(t, timer.StatusActive, s.Status)
		require.Less(t, time.Since(asOf), MaxAgeAtDecision)

		pause(t, parts, id)
		time.Sleep(600 * time.Millisecond) // longer than from one poll to the next
		s, _, ok = c.Timers.State(id)
		require.True(t, ok)
		require.Equal(t, timer.StatusInactive, s.Status)
		changed, logged, _ := k.seen()
		require.Contains(t, changed, timer.StatusInactive)
		require.Equal(t, changed, logged)

		g.setAway(true)
		time.Sleep(MaxAgeAtDecision)
		_, _, ok = c.Timers.State(id)
		require.False(t, ok, "it may have changed since")
		require.Equal(t, 1, g.reads["states"])
	})
}

// TestANotifiedTimerIsReadAtOnce checks that a change notification of a cached timer does not wait
// for the change log, and one of an unknown timer is left to it.
func TestANotifiedTimerIsReadAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		c, g, k := setup(t, parts)
		e := create(parts)
		id := e.Fire.Timer
		require.NoError(t, c.Timers.Load(t.Context(), []*inflight.Entry{e}))
		run(t, c)
		time.Sleep(10 * time.Millisecond)
		pause(t, parts, id)
		for _, changed := range []timer.ID{id, id + 1} {
			payload, err := proto.Marshal(&carillonv1.TimerChanged{TimerId: int64(changed)})
			require.NoError(t, err)
			c.TimerChanged(t.Context(), bus.Message{Payload: payload})
		}
		c.TimerChanged(t.Context(), bus.Message{Payload: []byte("no notification")})
		time.Sleep(10 * time.Millisecond)
		s, _, ok := c.Timers.State(id)
		require.True(t, ok)
		require.Equal(t, timer.StatusInactive, s.Status)
		_, logged, _ := k.seen()
		require.NotContains(t, logged, timer.StatusInactive)
		require.Equal(t, 2, g.reads["states"])
	})
}

// TestAfterALongPauseNothingIsKnown checks that a process forgets all states if the log may have
// lost entries that it has not read.
func TestAfterALongPauseNothingIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		c, g, k := setup(t, parts)
		e := create(parts)
		require.NoError(t, c.Timers.Load(t.Context(), []*inflight.Entry{e}))
		_, err := c.Apps.Of(t.Context(), AppQuestion{e.Fire.AppID, "a"})
		require.NoError(t, err)
		run(t, c)
		time.Sleep(1200 * time.Millisecond)
		g.setAway(true)
		time.Sleep(changesRetained)
		_, _, missed := k.seen()
		require.Zero(t, missed)
		require.NotNil(t, c.Apps.Known(e.Fire.AppID))
		time.Sleep(time.Second)
		_, _, missed = k.seen()
		require.Equal(t, 1, missed)
		require.Nil(t, c.Apps.Known(e.Fire.AppID))
		g.setAway(false)
		time.Sleep(time.Second)
		_, _, ok := c.Timers.State(e.Fire.Timer)
		require.False(t, ok)
	})
}

// TestAnotherLogIsNoticed checks that a process forgets all states when the database is a copy that
// lacks changes, though it may have numbered as many since. So what was lost decides nothing.
func TestAnotherLogIsNoticed(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(had []store.Change) []store.Change{
		"shorter": func([]store.Change) []store.Change { return nil },
		"as long": func(had []store.Change) []store.Change {
			other := slices.Clone(had)
			other[len(other)-1].AtMS += 5
			return other
		},
		"longer": func(had []store.Change) []store.Change {
			other := slices.Clone(had)
			for i := range other {
				other[i].State = timer.State{ID: 7}
			}
			return append(other, store.Change{Seq: other[len(other)-1].Seq + 1})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			parts := servicetest.New(t, servicetest.Options{})
			c, g, k := setup(t, parts)
			e := create(parts)
			id := e.Fire.Timer
			require.NoError(t, c.Timers.Load(t.Context(), []*inflight.Entry{e}))
			_, err := c.Apps.Of(t.Context(), AppQuestion{e.Fire.AppID, "a"})
			require.NoError(t, err)
			run(t, c)
			time.Sleep(time.Second)
			pause(t, parts, id)
			time.Sleep(time.Minute)
			s, _, ok := c.Timers.State(id)
			require.True(t, ok)
			require.Equal(t, timer.StatusInactive, s.Status)
			_, _, missed := k.seen()
			require.Zero(t, missed, "nothing is lost while nothing changes")

			had, err := parts.Store.Changes(t.Context(), 0, 100)
			require.NoError(t, err)
			require.NotEmpty(t, had)
			g.failOver(of(had))
			time.Sleep(time.Minute)
			_, _, ok = c.Timers.State(id)
			require.False(t, ok, name)
			_, ok = c.Timers.Definition(e.VersionKey())
			require.False(t, ok, "its version may have another definition: %s", name)
			require.Nil(t, c.Apps.Known(e.Fire.AppID))
			_, _, missed = k.seen()
			require.Equal(t, 1, missed, "once: %s", name)
		})
	}
}

// TestStatesReadBeforeTheChangeOfAnAppAreNotCached checks that a read that began before an app was
// frozen leaves no state behind, whatever it returned.
func TestStatesReadBeforeTheChangeOfAnAppAreNotCached(t *testing.T) {
	t.Parallel()
	parts := servicetest.New(t, servicetest.Options{})
	c, g, _ := setup(t, parts)
	id := create(parts).Fire.Timer
	entry := store.Change{Seq: 7, AppID: 1}
	g.during = func() { require.Equal(t, []int64{1}, c.Timers.apply([]store.Change{entry})) }
	states, err := c.Timers.Read(t.Context(), []timer.ID{id, id + 1})
	require.NoError(t, err)
	require.True(t, states[0].Exists())
	require.False(t, states[1].Exists())
	require.Empty(t, c.Timers.cached([]timer.ID{id}))
	g.during = func() {
		require.Empty(t, c.Timers.apply([]store.Change{entry}), "overlapping polls return it again")
	}
	_, err = c.Timers.Read(t.Context(), []timer.ID{id, id + 1})
	require.NoError(t, err)
	require.Equal(t, []timer.ID{id, id + 1}, c.Timers.cached([]timer.ID{id, id + 1, id + 2}))
	c.Timers.pruneAppChanges(7)
	require.Equal(t, []int64{1}, c.Timers.apply([]store.Change{entry}))
	require.Empty(t, c.Timers.cached([]timer.ID{id}))
}

// TestTheNewerStateStays checks that reads which return in another order than they were sent leave
// the newest state.
func TestTheNewerStateStays(t *testing.T) {
	t.Parallel()
	state := func(epoch int64, s timer.Status, version int32) timer.State {
		return timer.State{ID: 1, AppID: 1, ActiveEpoch: epoch, Status: s, Version: version}
	}
	ordered := []timer.State{
		state(1, timer.StatusActive, 1),
		state(1, timer.StatusActive, 2),
		state(1, timer.StatusPaused, 1),
		state(1, timer.StatusInactive, 3),
		state(2, timer.StatusActive, 1),
		state(2, timer.StatusDeleted, 1),
		{ID: 1}, // purged
	}
	for i := range ordered {
		for j := range ordered {
			b := newTimers(nil, nil, 0)
			b.put(ordered[i])
			require.Equal(t, ordered[max(i, j)], b.put(ordered[j]), "%d after %d", j, i)
		}
	}
}

// TestAPauseIsReplacedWhateverTheClock checks that a pause gives way to the status after it, although
// the database node that recorded that has an earlier clock.
func TestAPauseIsReplacedWhateverTheClock(t *testing.T) {
	t.Parallel()
	paused := timer.State{
		ID: 1, AppID: 1, ActiveEpoch: 1, Status: timer.StatusPaused, Version: 1,
		InactiveSinceMS: 20, PausedUntilMS: 100,
	}
	inactive := paused
	inactive.Status, inactive.InactiveSinceMS, inactive.PausedUntilMS = timer.StatusInactive, 15, 0
	b := newTimers(nil, nil, 0)
	b.put(paused)
	require.Equal(t, inactive, b.put(inactive))
}

// otherDatabase is a store whose database is replaced while it answers.
type otherDatabase struct {
	Store

	replace func()
}

func (o *otherDatabase) Backfill(context.Context, string, timer.ID) (store.Backfill, error) {
	if o.replace == nil {
		return store.Backfill{ID: 1, Status: store.BackfillRunning}, nil
	}
	o.replace()
	o.replace = nil
	return store.Backfill{ID: 1, Status: store.BackfillCancelled}, nil
}

// TestABackfillOfAnotherDatabaseIsNotCached checks that what was read from the database before is
// forgotten with everything else of it.
func TestABackfillOfAnotherDatabaseIsNotCached(t *testing.T) {
	t.Parallel()
	c, _, _ := setup(t, servicetest.New(t, servicetest.Options{}))
	c.Backfills.store = &otherDatabase{Store: c.opts.Store, replace: c.forgetAll}
	for _, want := range []bool{true, false} {
		cancelled, err := c.Backfills.Cancelled(t.Context(), BackfillQuestion{App: "a", ID: 1})
		require.NoError(t, err)
		require.Equal(t, want, cancelled)
	}
}

func TestPollsOverlap(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	require.EqualValues(t, -1, overlapStart(nil).last.seq)
	var positions []logPosition
	for s := range 30 {
		positions = append(
			trim(positions, at(s)),
			logPosition{at: at(s), last: logEntry{seq: int64(s)}},
		)
	}
	require.EqualValues(t, 19, overlapStart(positions).last.seq)
	require.EqualValues(t, 19, overlapStart(trim(positions, at(12))).last.seq)
	require.EqualValues(t, 29, overlapStart(trim(positions, at(100))).last.seq)
}

func TestCalendarsAreReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := new(gate)
		c := newCalendars(g)
		_, ok := c.Cached("a", []string{"x", "y"})
		require.False(t, ok)
		none, ok := c.Cached("a", nil)
		require.True(t, ok)
		require.Empty(t, none)
		for range 2 {
			found, err := c.Of(t.Context(), CalendarQuestion{"a", []string{"x", "y"}})
			require.NoError(t, err)
			require.Len(t, found, 2)
			found, ok = c.Cached("a", []string{"y", "x"})
			require.True(t, ok)
			require.Len(t, found, 2)
		}
		require.Equal(t, map[string]int{"calendar x": 1, "calendar y": 1}, g.reads)
		_, ok = c.Cached("b", []string{"x"})
		require.False(t, ok, "of another app")
		time.Sleep(calendarMaxAge + time.Millisecond)
		_, ok = c.Cached("a", []string{"x"})
		require.False(t, ok)
		g.setAway(true)
		_, err := c.Of(t.Context(), CalendarQuestion{"a", []string{"x"}})
		require.ErrorContains(t, err, `reading calendar "x"`)
	})
}

// TestACancelledBackfillStaysSo checks that a backfill is read again after a second unless it is
// cancelled, which is final.
func TestACancelledBackfillStaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := new(gate)
		b := newBackfills(g, clock.New(time.Now, nil))
		for range 3 {
			for id, want := range map[timer.ID]bool{1: true, 2: false} {
				for range 2 {
					cancelled, err := b.Cancelled(t.Context(), BackfillQuestion{"a", id})
					require.NoError(t, err)
					require.Equal(t, want, cancelled)
				}
			}
			time.Sleep(MaxAgeAtDecision)
		}
		require.Equal(t, 4, g.reads["backfill"])
		_, ok := b.Known(2)
		require.False(t, ok)
		cancelled, ok := b.Known(1)
		require.True(t, ok && cancelled)
	})
}

func TestLargeDefinitionsMakeRoomForOthers(t *testing.T) {
	t.Parallel()
	b := newTimers(nil, nil, 1)
	body := strings.Repeat("x", 1<<20)
	key := func(id int) store.VersionKey { return store.VersionKey{Timer: timer.ID(id), Version: 1} }
	for range 2 { // a definition that is cached already counts once
		for id := range 64 {
			b.addDefinition(key(id), &Definition{
				Definition: &timer.Definition{Target: timer.Target{Body: body}},
			})
		}
	}
	require.Equal(t, 64, b.defs.Len())
	b.addDefinition(key(64), &Definition{Definition: &timer.Definition{
		Target: timer.Target{Body: "x"},
	}})
	require.Equal(t, 64, b.defs.Len())
	_, ok := b.Definition(key(0))
	require.False(t, ok)
	b.reset()
	require.Zero(t, b.bodies)
}
