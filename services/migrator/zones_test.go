package migrator_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/peers"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
	"github.com/carillon-timer/carillon/libs/zone/zonetest"
	"github.com/carillon-timer/carillon/services/migrator"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// startBy starts a migrator with its own time zones. stop ends it and removes it from the store.
func startBy(
	t *testing.T,
	parts *servicetest.Parts,
	zones *zone.Database,
) (p *expansion.Planner, stop func()) {
	t.Helper()
	p, err := expansion.New(expansion.Options{Counts: parts.Counts, Zones: zones})
	require.NoError(t, err)
	w, err := peers.New(peers.Options{
		Store:      parts.Store,
		Zones:      zones,
		ID:         parts.IDs.Next(),
		Name:       zones.Version(),
		Expands:    true,
		Logger:     parts.Log,
		Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	require.NoError(t, w.Register(t.Context()))
	svc, err := migrator.New(migrator.Options{
		Store:      parts.Store,
		Dispatch:   &counter{fires: make(map[timer.FireID]int)},
		Bus:        parts.Bus("migrator"),
		Planner:    p,
		Counts:     parts.Counts,
		Now:        time.Now,
		Batch:      7,
		Every:      5 * time.Second,
		Logger:     parts.Log,
		Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{svc.Run, w.Run, w.Replan} {
		running.Go(func() { _ = run(ctx) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		require.NoError(t, w.Close(context.WithoutCancel(ctx)))
	})
	t.Cleanup(stop)
	return p, stop
}

// openFires returns a timer's coming open fires, by whether they have its current version.
func openFires(
	t *testing.T,
	parts *servicetest.Parts,
	tm *timer.Timer,
) (present, older []time.Time) {
	t.Helper()
	now := time.Now().UnixMilli()
	for m := timer.MinuteOf(now); m < timer.MinuteOf(now)+120; m++ {
		fires, err := parts.Store.LoadSlice(
			t.Context(),
			m,
			0,
			store.Position{},
			timer.NeverMS,
			1000,
		)
		require.NoError(t, err)
		for _, f := range fires {
			switch {
			case f.Timer != tm.ID || f.DueMS <= tm.VersionMS || f.DueMS <= now:
			case f.Version == tm.Version:
				present = append(present, time.UnixMilli(f.DueMS).UTC())
			default:
				older = append(older, time.UnixMilli(f.DueMS).UTC())
			}
		}
	}
	return present, older
}

// TestChangedZonesAreReplanned replaces migrators by ones with another version of the time zones,
// in which Berlin has India's offset, and back. Then hourly timers of Berlin are due at half past.
// Open fires at the full hour are left for executors to skip.
func TestChangedZonesAreReplanned(t *testing.T) {
	t.Parallel()
	doctored := zonetest.Database(t, "2031a", map[string]string{"Europe/Berlin": "Asia/Kolkata"})
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		by, stop := startBy(t, parts, zone.Embedded())
		hourly := func(name, zone string) timer.ID {
			t.Helper()
			d := servicetest.Cron("0 * * * *", "http://127.0.0.1/")
			d.Schedule.Zone = zone
			made, err := parts.Store.Create(
				t.Context(),
				[]store.NewTimer{{App: "a", Name: name, Definition: d, Activate: true}},
				by.Plan,
			)
			require.NoError(t, err)
			require.NoError(t, made[0].Err)
			return made[0].Timer.ID
		}
		var berlin []timer.ID
		for _, name := range []string{"1", "2", "3"} {
			berlin = append(berlin, hourly(name, "Europe/Berlin"))
		}
		paris := hourly("4", "Europe/Paris")
		requireAt := func(minute int, ids ...timer.ID) {
			t.Helper()
			for _, id := range ids {
				tm, err := parts.Store.Timer(t.Context(), "a", id)
				require.NoError(t, err)
				require.False(t, tm.Replan)
				require.Equal(t, minute, time.UnixMilli(tm.NextDueMS).UTC().Minute())
				present, older := openFires(t, parts, &tm)
				// Fires due within half an hour are expanded for sure.
				if (minute-time.Now().UTC().Minute()+60)%60 < 30 {
					require.NotEmpty(t, present)
				}
				for _, at := range present {
					require.Equal(t, minute, at.Minute())
				}
				for _, at := range older {
					require.NotEqual(t, minute, at.Minute())
				}
			}
		}
		time.Sleep(time.Hour + 40*time.Minute)
		requireAt(0, append(berlin, paris)...)

		_, stopNew := startBy(t, parts, doctored)
		time.Sleep(time.Minute)
		late := hourly("5", "Europe/Berlin")
		time.Sleep(2 * time.Hour) // both expand timers, in any order
		stop()
		time.Sleep(time.Minute)
		requireAt(30, append(berlin, late)...)
		requireAt(0, paris)
		tm, err := parts.Store.Timer(t.Context(), "a", paris)
		require.NoError(t, err)
		require.EqualValues(t, 1, tm.Version, "its zone did not change")
		time.Sleep(2*time.Hour + 25*time.Minute)
		requireAt(30, append(berlin, late)...)

		startBy(t, parts, zone.Embedded())
		stopNew()
		time.Sleep(time.Minute)
		requireAt(0, append(berlin, late, paris)...)
	})
}

// TestIntervalOfANewZoneGoesOn checks that a migrator without the time zone of an interval leaves the
// timer to one that has it.
func TestIntervalOfANewZoneGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		old := zonetest.Database(t, "2000a", map[string]string{"Europe/Berlin": ""})
		_, stop := startBy(t, parts, old)
		d := servicetest.Cron("", "http://127.0.0.1/")
		d.Schedule = timer.Schedule{
			Kind: timer.KindInterval, Every: timer.Duration(time.Second), Zone: "Europe/Berlin",
		}
		fires := parts.Create("a", d) // by an api that has it
		time.Sleep(10 * time.Minute)
		startBy(t, parts, zone.Embedded())
		time.Sleep(time.Minute)
		stop()
		time.Sleep(time.Hour)
		tm, err := parts.Store.Timer(t.Context(), "a", fires[0].Timer)
		require.NoError(t, err)
		require.Greater(t, tm.NextDueMS, time.Now().UnixMilli())
	})
}
