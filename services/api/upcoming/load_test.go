package upcoming_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/upcoming"
)

// active returns an active timer of a cron expression.
func active(id timer.ID, spec string) timer.Timer {
	return timer.Timer{
		ID: id, App: "shop", Status: timer.StatusActive, NextDueMS: 1, ActiveSinceMS: 1,
		Definition: timer.Definition{Schedule: timer.Schedule{
			Kind: timer.KindCron, Specs: []string{spec}, Zone: "UTC",
		}},
	}
}

// TestEstimatedLoad checks that the load of many timers is estimated to a few percent, whenever in a
// minute the request comes.
func TestEstimatedLoad(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		of    map[string]int // timers by cron expression
		over  time.Duration
		total float64
		more  func(*timer.Definition)
	}{
		"each minute": {
			of: map[string]int{"0 * * * * *": 200}, over: day, total: 200 * 1440,
		},
		"each second": {
			of: map[string]int{"* * * * * *": 10}, over: day, total: 10 * 86_400,
		},
		"at equal distances": {
			of:   map[string]int{"0 */5 * * * *": 173, "0 0 3 * * *": 227},
			over: 2 * day, total: 173*576 + 227*2,
		},
		"with jitter": {
			of: map[string]int{"0 * * * * *": 400}, over: time.Hour, total: 400 * 60,
			more: func(d *timer.Definition) { d.Schedule.Jitter = timer.Duration(30 * time.Minute) },
		},
		"at most": {
			of: map[string]int{"0 */2 * * * *": 400}, over: 2 * day, total: 400 * 100,
			more: func(d *timer.Definition) { d.Schedule.MaxFires = 100 },
		},
	} {
		for _, second := range []int{0, 1, 30, 59} {
			at := time.Date(2030, 1, 2, 10, 17, second, int(time.Millisecond), time.UTC)
			l := &upcoming.Load{
				FromMS: at.UnixMilli(), ToMS: at.Add(c.over).UnixMilli(), Budget: 20_000,
			}
			if name == "each minute" || name == "at equal distances" {
				l.Budget = 100_000
			}
			var timers []timer.Timer
			for spec, n := range c.of {
				for range n {
					tm := active(timer.ID(len(timers)+1000), spec)
					if c.more != nil {
						c.more(&tm.Definition)
						tm.NextDueMS = l.FromMS
					}
					timers = append(timers, tm)
				}
			}
			require.NoError(t, (&upcoming.Finder{}).Add(t.Context(), l, timers))
			total := int64(0)
			for _, n := range l.Minutes {
				total += n
			}
			require.InEpsilon(t, c.total, float64(total), 0.1, fmt.Sprint(name, " at ", second))
			require.Positive(t, l.Sampled, name)
		}
	}
}

// TestLoadOfPausedOneShots checks that one-shots which wait for the end of a pause are counted then,
// whether or not their fires exist.
func TestLoadOfPausedOneShots(t *testing.T) {
	t.Parallel()
	from := time.Date(2030, 1, 2, 8, 0, 0, 0, time.UTC)
	due, until := from.Add(10*time.Minute), from.Add(time.Hour)
	paused := func(dueAt time.Time, nextMS, lastMS int64) timer.Timer {
		return timer.Timer{
			ID: 1, App: "shop", Status: timer.StatusPaused, NextDueMS: nextMS, LastDueMS: lastMS,
			ActiveSinceMS: 1, InactiveSinceMS: from.UnixMilli(), PausedUntilMS: until.UnixMilli(),
			Definition: timer.Definition{Schedule: timer.Schedule{Kind: timer.KindAt, At: &dueAt}},
		}
	}
	before := from.Add(-time.Minute)
	later := until.Add(time.Minute)
	unreadable := paused(due, 1, 0)
	unreadable.Definition.Schedule.Zone = "No/Zone"
	l := &upcoming.Load{
		FromMS: from.UnixMilli(), ToMS: from.Add(2 * time.Hour).UnixMilli(), Budget: 1000,
	}
	f := &upcoming.Finder{Now: func() time.Time { return from }}
	timers := []timer.Timer{
		paused(due, due.UnixMilli(), 0),
		paused(due, timer.NeverMS, due.UnixMilli()),
		paused(before, timer.NeverMS, before.UnixMilli()), // probably called
		paused(later, timer.NeverMS, later.UnixMilli()),
		unreadable,
	}
	require.NoError(t, f.Add(t.Context(), l, timers))
	want := make([]int64, 120)
	want[60], want[61] = 2, 1
	require.Equal(t, want, l.Minutes)
	require.Equal(t, 1, l.Unreadable)
	dues, err := f.Upcoming(t.Context(), &timers[0], from.UnixMilli(), 10)
	require.NoError(t, err)
	require.Equal(t, []int64{until.UnixMilli()}, dues)
}

// leaves is the context of a caller who leaves after the context was asked so many times.
type leaves struct {
	context.Context

	after int
}

func (l *leaves) Err() error {
	if l.after--; l.after < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestLoadEndsWithItsCaller checks that the many instants of one timer are not computed for nobody.
func TestLoadEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 10, 0, 0, 0, time.UTC)
	for _, after := range []int{1, 5} { // in the first pass, and in the samples
		l := &upcoming.Load{
			FromMS: at.UnixMilli(), ToMS: at.Add(24 * time.Hour).UnixMilli(), Budget: 1000,
		}
		ctx := &leaves{t.Context(), after}
		err := (&upcoming.Finder{}).Add(ctx, l, []timer.Timer{active(1, "* * * * * *")})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

// TestNextPlannedReadsNoStore checks the timers whose next due instant needs their open fires.
func TestNextPlannedReadsNoStore(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 10, 0, 0, 0, time.UTC)
	s := &upcoming.Finder{Now: func() time.Time { return now }} // no store
	minutely := active(1, "0 * * * * *")
	minutely.Definition.Schedule.MaxFires, minutely.FiresCreated = 5, 5
	delayed := active(2, "")
	delayed.Definition.Schedule = timer.Schedule{
		Kind: timer.KindFixedDelay, Every: timer.Duration(time.Hour),
	}
	next := func(of timer.Timer, last time.Duration) int64 {
		t.Helper()
		of.LastDueMS = now.Add(last).UnixMilli()
		due, err := s.NextPlanned(t.Context(), &of)
		require.NoError(t, err)
		return due
	}
	require.Equal(t, now.Add(time.Minute).UnixMilli(), next(minutely, 3*time.Minute))
	require.Equal(t, timer.NeverMS, next(minutely, 30*time.Second))
	require.Equal(t, now.Add(time.Hour).UnixMilli(), next(delayed, time.Hour))
	require.Equal(t, timer.NeverMS, next(delayed, 0))
}
