package migrator_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
	"github.com/carillon-timer/carillon/services/migrator"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// counter is a dispatcher that counts committed fires.
type counter struct {
	mu    sync.Mutex
	fires map[timer.FireID]int
}

func (c *counter) Committed(_ context.Context, fires []timer.Fire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range fires {
		c.fires[f.FireID]++
	}
}

func (c *counter) seen() map[timer.FireID]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.fires)
}

func start(
	t *testing.T,
	parts *servicetest.Parts,
	d migrator.Dispatcher,
	change ...func(*migrator.Options),
) (svc *migrator.Service, stop func()) {
	t.Helper()
	o := migrator.Options{
		Store:      parts.Store,
		Dispatch:   d,
		Bus:        parts.Bus("migrator"),
		Planner:    parts.Planner,
		Counts:     parts.Counts,
		Now:        time.Now,
		Batch:      7,
		Every:      5 * time.Second,
		Logger:     parts.Log,
		Registerer: prometheus.NewRegistry(),
	}
	for _, c := range change {
		c(&o)
	}
	svc, err := migrator.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return svc, stop
}

// checkEverySecond requires each due time of the timers exactly once, until past until.
func checkEverySecond(t *testing.T, got map[timer.FireID]int, timers int, until time.Time) {
	t.Helper()
	first, last, n := make(map[timer.ID]int64), make(map[timer.ID]int64), make(map[timer.ID]int64)
	for id, times := range got {
		require.Equal(t, 1, times, "fire %s", id)
		if f, ok := first[id.Timer]; !ok || id.DueMS < f {
			first[id.Timer] = id.DueMS
		}
		last[id.Timer] = max(last[id.Timer], id.DueMS)
		n[id.Timer]++
	}
	require.Len(t, n, timers)
	for id := range n {
		require.Equal(t, (last[id]-first[id])/1000+1, n[id], "no due time is missing")
		require.Greater(t, last[id], until.UnixMilli())
	}
}

func TestTwoMigratorsMakeEachFireOnce(t *testing.T) {
	t.Parallel()
	const timers = 15 // two full batches and a part of one
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		c := &counter{fires: make(map[timer.FireID]int)}
		for range timers {
			c.Committed(
				t.Context(),
				parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/")),
			)
		}
		svc, _ := start(t, parts, c)
		start(t, parts, c)
		time.Sleep(30 * time.Minute)
		require.NoError(t, svc.Ready())
		checkEverySecond(t, c.seen(), timers, time.Now())
	})
}

func TestOutageOfAllMigratorsLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		c := &counter{fires: make(map[timer.FireID]int)}
		d := servicetest.Cron("* * * * * *", "http://127.0.0.1/")
		d.Misfire = timer.Misfire{Policy: timer.MisfireFireAll, MaxFires: timer.MaxMisfireFires}
		c.Committed(t.Context(), parts.Create("a", d))
		_, stop := start(t, parts, c)
		time.Sleep(10 * time.Minute)
		stop()
		time.Sleep(2 * time.Hour)
		start(t, parts, c)
		time.Sleep(5 * time.Minute)
		checkEverySecond(t, c.seen(), 1, time.Now())
	})
}

func TestIntermittentStoreErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		made := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))
		parts.Store.SetFaults(
			sqlstore.Faults{
				Seed:       3,
				FailRead:   .1,
				FailBefore: .2,
				FailAfter:  .2,
				Delay:      50 * time.Millisecond,
			},
		)
		c := &counter{fires: make(map[timer.FireID]int)}
		start(t, parts, c)
		time.Sleep(20 * time.Minute)
		parts.Store.SetFaults(sqlstore.Faults{})
		// Fires of a commit with a lost answer were dispatched too.
		open, seen := 0, c.seen()
		minute := timer.MinuteOf(time.Now().UnixMilli())
		for m := minute - 25; m < minute+10; m++ {
			fires, err := parts.Store.LoadSlice(
				t.Context(),
				m,
				0,
				store.Position{},
				timer.NeverMS,
				1000,
			)
			require.NoError(t, err)
			open += len(fires)
			for _, f := range fires {
				known := seen[f.FireID] == 1 || f.DueMS <= made[len(made)-1].DueMS
				require.True(t, known, "fire %s was not dispatched", f.FireID)
			}
		}
		require.Greater(t, open, 20*60)
		for id, times := range c.seen() {
			require.Equal(t, 1, times, "fire %s", id)
		}
	})
}

// broken is a store that finds work for ever, and fails to do it.
type broken struct{ migrator.Store }

var errBroken = errors.New("broken")

func (broken) DueWork(context.Context) (store.DueWork, error) {
	return store.DueWork{Timers: true, Replans: true, Backfills: true}, nil
}

func (broken) Expand(context.Context, int, store.Planner) ([]timer.Fire, int, error) {
	return nil, 0, errBroken
}

func (broken) ContinueReplans(context.Context, store.Planner) ([]timer.Fire, bool, error) {
	return nil, false, errBroken
}

func (broken) ExpandBackfills(
	context.Context, int, store.BackfillPlanner,
) ([]timer.Fire, int, error) {
	return nil, 0, errBroken
}

// unpolled is a store that cannot say what is due.
type unpolled struct{ migrator.Store }

func (unpolled) DueWork(context.Context) (store.DueWork, error) {
	return store.DueWork{}, errBroken
}

// TestErrorsAreLogged checks that a log without debug lines says which work is not done, once a minute.
func TestErrorsAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		var log bytes.Buffer
		for _, st := range []migrator.Store{broken{parts.Store}, unpolled{parts.Store}} {
			_, stop := start(t, parts, parts.Dispatch, func(o *migrator.Options) {
				o.Store, o.Workers = st, 1
				o.Logger = zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.InfoLevel)
			})
			time.Sleep(10*time.Minute - time.Second)
			stop()
		}
		for _, what := range []string{
			"timers not expanded", "replan not continued", "backfills not expanded",
			"store not polled for work",
		} {
			line := `{"level":"warn","error":"broken","message":"` + what + `"}`
			require.InDelta(t, 10, strings.Count(log.String(), line), 1, what)
		}
	})
}

func TestCommittedFiresAreMarked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		fires := parts.Create("a", servicetest.Cron("* * * * *", "http://127.0.0.1/"))
		last := fires[len(fires)-1].DueMS
		start(t, parts, parts.Dispatch)
		time.Sleep(45 * time.Minute)
		next := window.Slice{Minute: timer.MinuteOf(last) + 1}
		page, err := parts.Window.Range(t.Context(), next, 0, timer.NeverMS, 10)
		require.NoError(t, err)
		require.Len(t, page.Fires, 1)
	})
}

// TestTheAuditTrailIsPurged keeps entries for their own retention.
func TestTheAuditTrailIsPurged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		ctx := store.WithActor(t.Context(), &store.Actor{Kind: store.ActorAnonymous})
		_, err := parts.Store.PutSettings(ctx, "a", store.AppSettings{Rate: 1}, 0)
		require.NoError(t, err)
		start(t, parts, parts.Dispatch, func(o *migrator.Options) {
			o.AuditRetention = 2 * time.Hour
		})
		entries := func() int {
			page, err := parts.Store.AuditTrail(t.Context(), store.AuditQuery{
				App: "a", Limit: 10, ScanLimit: 10,
			})
			require.NoError(t, err)
			return len(page.Entries)
		}
		time.Sleep(110 * time.Minute)
		require.Equal(t, 1, entries())
		time.Sleep(30 * time.Minute)
		require.Zero(t, entries())
	})
}

// moreExpired is a store whose first purges leave expired rows.
type moreExpired struct {
	migrator.Store
	left  atomic.Int32
	calls atomic.Int32
}

func (s *moreExpired) PurgeExpired(ctx context.Context, retention time.Duration) error {
	s.calls.Add(1)
	err := s.Store.PurgeExpired(ctx, retention)
	if s.left.Add(-1) >= 0 {
		return errors.Join(err, store.ErrMoreExpired)
	}
	return err
}

// TestPurgesGoOnWhileMoreHasExpired repeats a purge that could not remove all, without a warning.
func TestPurgesGoOnWhileMoreHasExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		log := new(bytes.Buffer)
		st := &moreExpired{Store: parts.Store}
		st.left.Store(20)
		start(t, parts, parts.Dispatch, func(o *migrator.Options) {
			o.Store, o.PurgeEvery = st, time.Hour
			o.Logger = zerolog.New(zerolog.SyncWriter(log))
		})
		time.Sleep(time.Minute)
		require.EqualValues(t, 21, st.calls.Load())
		require.NotContains(t, log.String(), "not purged")
		time.Sleep(time.Hour)
		require.EqualValues(t, 22, st.calls.Load())
	})
}

// unpurgeable is a store whose user may not remove expired rows.
type unpurgeable struct{ migrator.Store }

func (unpurgeable) PurgeExpired(context.Context, time.Duration) error {
	return errors.New("ALTER command denied")
}

// TestFailedPurgesAreCounted repeats a purge that failed every minute, and counts it.
func TestFailedPurgesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		reg := prometheus.NewRegistry()
		start(t, parts, parts.Dispatch, func(o *migrator.Options) {
			o.Store, o.PurgeEvery, o.Registerer = unpurgeable{parts.Store}, time.Hour, reg
		})
		time.Sleep(10*time.Minute + time.Second)
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP carillon_purge_errors_total Purges of expired rows that failed and are repeated.
# TYPE carillon_purge_errors_total counter
carillon_purge_errors_total 11
`), "carillon_purge_errors_total"))
	})
}

// stuckPurges is a store of which two purges run into their time limit.
type stuckPurges struct{ migrator.Store }

func (stuckPurges) PurgeExpired(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err() //nolint:wrapcheck // as the store does
}

func (stuckPurges) PurgeAudit(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err() //nolint:wrapcheck // as the store does
}

// TestEachFailedPurgeIsCounted checks that purges which run into their time limit count when they do,
// each of them: the alert wants more than three within any half an hour.
func TestEachFailedPurgeIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		reg := prometheus.NewRegistry()
		start(t, parts, parts.Dispatch, func(o *migrator.Options) {
			o.Store, o.Registerer = stuckPurges{parts.Store}, reg
		})
		var before []float64
		for range 12 { // of ten minutes each
			time.Sleep(10 * time.Minute)
			before = append(before, counted(t, reg, "carillon_purge_errors_total"))
		}
		for i := 3; i < len(before); i++ {
			require.Greater(t, before[i]-before[i-3], 3., "in half an hour, %v", before)
		}
	})
}

// counted returns the value of a counter without labels.
func counted(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// TestEndedTimersAreRemoved keeps called one-shots for their retention, and deleted timers for two
// days after the audit trail's.
func TestEndedTimersAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		start(t, parts, parts.Dispatch, func(o *migrator.Options) {
			o.Every, o.PurgeEvery, o.GaugeEvery = time.Hour, time.Hour, time.Hour
			o.Retention, o.AuditRetention = 24*time.Hour, 5*24*time.Hour
			o.OneShotRetention = 3 * 24 * time.Hour
		})
		once := servicetest.Once(time.Now().Add(time.Minute), "http://127.0.0.1/")
		fires := parts.Create("a", once, once)
		called, deleted := fires[0].Timer, fires[1].Timer
		_, err := parts.Store.SetStatus(t.Context(), []store.StatusChange{
			{App: "a", ID: deleted, Status: timer.StatusDeleted},
		}, parts.Planner.Plan)
		require.NoError(t, err)
		stays := func(id timer.ID) bool {
			k := store.VersionKey{Timer: id, Version: 1}
			defs, err := parts.Store.Definitions(t.Context(), []store.VersionKey{k})
			require.NoError(t, err)
			return defs[k] != nil
		}
		time.Sleep(4 * 24 * time.Hour)
		require.True(t, stays(called), "its fire is open")
		session := timer.ID(7)
		ctx := t.Context()
		require.NoError(
			t,
			parts.Store.OpenSession(
				ctx,
				store.Session{ID: session, Kind: store.ExecutorSession, Name: "x"},
			),
		)
		won, err := parts.Store.Claim(ctx, session, fires)
		require.NoError(t, err)
		var outcomes []timer.Outcome
		for _, f := range won {
			outcomes = append(outcomes, timer.Outcome{
				Fire: f, Kind: timer.Delivered, Count: 1, Attempts: 1,
				FinishedMS: time.Now().UnixMilli(), UntilMS: f.DueMS,
			})
		}
		lost, _, err := parts.Store.Record(ctx, session, outcomes, nil)
		require.NoError(t, err)
		require.Empty(t, lost)
		time.Sleep(2 * time.Hour)
		require.False(t, stays(called))
		time.Sleep(66 * time.Hour)
		require.True(t, stays(deleted))
		time.Sleep(8 * time.Hour)
		require.False(t, stays(deleted))
	})
}

// TestRunsKeepTheirOneShot runs an old one-shot again and again. It stays until the last of its fires
// has ended.
func TestRunsKeepTheirOneShot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		start(t, parts, parts.Dispatch, func(o *migrator.Options) {
			o.Every, o.PurgeEvery, o.GaugeEvery = time.Hour, time.Hour, time.Hour
			o.OneShotRetention = 3 * 24 * time.Hour
		})
		ctx := t.Context()
		session := timer.ID(7)
		require.NoError(
			t,
			parts.Store.OpenSession(
				ctx,
				store.Session{ID: session, Kind: store.ExecutorSession, Name: "x"},
			),
		)
		call := func(fires []timer.Fire) {
			won, err := parts.Store.Claim(ctx, session, fires)
			require.NoError(t, err)
			for _, f := range won {
				_, _, err := parts.Store.Record(ctx, session, []timer.Outcome{{
					Fire: f, Kind: timer.Delivered, Count: 1, Attempts: 1,
					FinishedMS: time.Now().UnixMilli(), UntilMS: f.DueMS,
				}}, nil)
				require.NoError(t, err)
			}
		}
		once := servicetest.Once(time.Now().Add(time.Minute), "http://127.0.0.1/")
		fires := parts.Create("a", once)
		id := fires[0].Timer
		run := func() []timer.Fire {
			now := time.Now().UnixMilli()
			made, err := parts.Store.AddFires(ctx, "a", id, []timer.Fire{{
				FireID:  timer.FireID{Timer: id, DueMS: now, Series: now},
				RunAtMS: now, Cause: timer.CauseRunNow,
			}})
			require.NoError(t, err)
			return made
		}
		stays := func() bool {
			_, err := parts.Store.Timer(ctx, "a", id)
			if err != nil {
				require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))
			}
			return err == nil
		}
		time.Sleep(time.Hour)
		call(fires)
		time.Sleep(70 * time.Hour)
		call(run())
		time.Sleep(23*time.Hour + 59*time.Minute)
		last := run()
		for range 50 {
			time.Sleep(time.Hour)
			require.True(t, stays(), "a fire is open")
		}
		call(last)
		time.Sleep(2 * time.Hour)
		require.False(t, stays())
	})
}
