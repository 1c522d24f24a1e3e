package executor_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// newerRelease is a store whose definitions have a value that this release does not know.
type newerRelease struct {
	executor.Store
	change func(*timer.Definition)
}

func (n newerRelease) Definitions(
	ctx context.Context,
	keys []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	defs, err := n.Store.Definitions(ctx, keys)
	for _, d := range defs {
		n.change(d)
	}
	return defs, err
}

// TestUnknownValueGivesTheFireBack checks that an executor neither calls nor ends a fire whose
// definition has a value of a newer release. It gives the fire back as it was, and an executor of
// that release calls it.
func TestUnknownValueGivesTheFireBack(t *testing.T) {
	t.Parallel()
	const unknown = "of a newer release"
	for name, change := range map[string]func(*timer.Definition){
		"misfire policy":     func(d *timer.Definition) { d.Misfire.Policy = unknown },
		"concurrency policy": func(d *timer.Definition) { d.Concurrency.Policy = unknown },
		"kind of schedule":   func(d *timer.Definition) { d.Schedule.Kind = unknown },
		"time zone of a fixed delay": func(d *timer.Definition) {
			d.Schedule = timer.Schedule{
				Kind: timer.KindFixedDelay, Every: timer.Duration(time.Second), Zone: unknown,
			}
		},
		"time zone of a calendar of a fixed delay": func(d *timer.Definition) {
			d.Schedule = timer.Schedule{
				Kind: timer.KindFixedDelay, Every: timer.Duration(time.Second),
				Calendars: []string{"newer"},
			}
		},
		"kind of target": func(d *timer.Definition) { d.Target.Kind = unknown },
		"mode": func(d *timer.Definition) {
			d.Mode, d.Targets = unknown, []timer.Target{d.Target, d.Target}
		},
		"kind of one of several targets": func(d *timer.Definition) {
			d.Mode, d.Targets = timer.ModeAll, []timer.Target{d.Target, d.Target}
			d.Targets[1].Kind = unknown
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				_, err := parts.Store.PutCalendar(
					t.Context(), "a", timer.Calendar{Name: "newer", Zone: unknown}, 0,
				)
				require.NoError(t, err)
				fires := everySecond(
					parts,
					100,
					func(d *timer.Definition) { d.Misfire.Policy = timer.MisfireFireAll },
				)
				time.Sleep(time.Until(time.UnixMilli(fires[99].DueMS)) + 900*time.Millisecond)
				before, after := &receiver{}, &receiver{}
				stop := start(t, parts, "old", before, func(o *executor.Options) {
					o.Store = newerRelease{o.Store, change}
				})
				require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
				time.Sleep(time.Minute)
				require.Empty(t, before.attempts())
				require.Equal(t, map[string]int{"open": 100}, reasons(t, parts, fires))
				for _, f := range fires {
					got, err := parts.Store.Fire(t.Context(), "a", f.FireID)
					require.NoError(t, err)
					require.Equal(t, f.RunAtMS, got.Open.RunAtMS)
					require.Equal(t, timer.FireReady, got.Open.State)
					require.Zero(t, got.Open.Attempt)
				}
				start(t, parts, "new", after, nil)
				time.Sleep(20 * time.Second)
				stop()
				time.Sleep(time.Minute)
				require.Equal(t, map[string]int{"delivered": 100}, reasons(t, parts, fires))
				require.Empty(t, before.attempts())
			})
		})
	}
}

// unreadable is a store that cannot read the first definition of one timer, until it is mended.
type unreadable struct {
	executor.Store
	timer  timer.ID
	mended *atomic.Bool
}

func (u unreadable) Definitions(
	ctx context.Context,
	keys []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	defs, err := u.Store.Definitions(ctx, keys)
	for k := range defs {
		if k == (store.VersionKey{Timer: u.timer, Version: 1}) && !u.mended.Load() {
			defs[k] = &timer.Definition{Unreadable: "damaged"}
		}
	}
	return defs, err
}

// TestUnreadableDefinitionsStopNoOther checks that the fires of a timer whose definition cannot be read
// are given back as they were, also while it is paused, and those of other timers are called. Once
// it can be read, the same executor calls them.
func TestUnreadableDefinitionsStopNoOther(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]timer.Status{
		"active": timer.StatusActive, "paused": timer.StatusPaused, "deleted": timer.StatusDeleted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				// A pause only defers a one-shot, but nobody knows that it is one.
				due := time.Now().Add(3 * time.Second)
				fires := parts.Create("a", servicetest.Once(due, "http://127.0.0.1/bad"),
					servicetest.Once(due, "http://127.0.0.1/good"))
				bad, good := fires[:1], fires[1:]
				var log bytes.Buffer
				var r receiver
				var mended atomic.Bool
				stop := start(t, parts, "one", &r, func(o *executor.Options) {
					o.Store = unreadable{o.Store, bad[0].Timer, &mended}
					o.Logger = zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.WarnLevel)
				})
				require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
				set := func(status timer.Status) {
					items := []store.StatusChange{{App: "a", ID: bad[0].Timer, Status: status}}
					out, err := parts.Store.SetStatus(t.Context(), items, parts.Plan)
					require.NoError(t, err)
					require.NoError(t, out[0].Err)
					parts.Dispatch.Committed(t.Context(), out[0].Fires)
				}
				set(status)
				time.Sleep(9500 * time.Millisecond)
				require.Equal(t, map[string]int{"delivered": 1}, reasons(t, parts, good))
				if status == timer.StatusDeleted {
					require.Equal(t, map[string]int{"skipped:deleted": 1}, reasons(t, parts, bad))
					return
				}
				time.Sleep(time.Minute)
				require.Equal(t, map[string]int{"open": 1}, reasons(t, parts, bad))
				got, err := parts.Store.Fire(t.Context(), "a", bad[0].FireID)
				require.NoError(t, err)
				require.Equal(t, bad[0].RunAtMS, got.Open.RunAtMS)
				require.Zero(t, got.Open.Attempt)

				mended.Store(true)
				set(timer.StatusActive)
				time.Sleep(time.Minute)
				stop()
				require.Equal(t, map[string]int{"delivered": 1}, reasons(t, parts, bad))
				first, _, _ := strings.Cut(log.String(), "\n")
				require.Contains(t, first, `"error":"damaged"`)
				require.Contains(t, first, bad[0].Timer.String())
			})
		})
	}
}

// TestUnreadableDefinitionsAreReplaced edits a timer whose definition cannot be read. The new one calls
// its fires, and the others that are due since then are superseded.
func TestUnreadableDefinitionsAreReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		fires := everySecond(parts, 20, nil)
		var r receiver
		stop := start(t, parts, "one", &r, func(o *executor.Options) {
			o.Store = unreadable{o.Store, fires[0].Timer, new(atomic.Bool)}
		})
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(time.Until(time.UnixMilli(fires[4].DueMS)) + 500*time.Millisecond)
		edited, err := parts.Store.Edit(t.Context(), []store.Edit{{
			App: "a", ID: fires[0].Timer,
			Definition: servicetest.Cron("*/5 * * * * *", "http://127.0.0.1/new"),
		}}, parts.Plan)
		require.NoError(t, err)
		require.NoError(t, edited[0].Err)
		parts.Dispatch.Committed(t.Context(), edited[0].Fires)
		continueReplans(t, parts)
		time.Sleep(time.Minute)
		stop()
		require.Equal(t, map[string]int{"open": 5}, reasons(t, parts, fires[:5]))
		require.Equal(t, map[string]int{"delivered": 3, "skipped:superseded": 12},
			reasons(t, parts, fires[5:]))
	})
}
