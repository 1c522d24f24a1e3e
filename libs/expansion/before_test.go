package expansion_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestBefore(t *testing.T) {
	t.Parallel()
	minutes := timer.Schedule{Kind: timer.KindCron, Specs: []string{"* * * * *"}}
	span := func(from, to int64) (all []int64) {
		for n := from; n <= to; n++ {
			all = append(all, minute(n))
		}
		return all
	}
	at := time.UnixMilli(minute(60)).UTC()
	for name, c := range map[string]struct {
		schedule timer.Schedule
		from     int64
		until    int64
		n        int
		want     []int64
	}{
		"all":                 {schedule: minutes, from: minute(1), until: minute(100), n: 1000, want: span(1, 59)},
		"the latest":          {schedule: minutes, from: 0, until: minute(100), n: 7, want: span(53, 59)},
		"more than one span":  {schedule: minutes, from: 0, until: minute(100), n: 59, want: span(1, 59)},
		"what was late":       {schedule: minutes, from: minute(50), until: minute(55), n: 1000, want: span(50, 54)},
		"from within a step":  {schedule: minutes, from: minute(57) + 1, until: minute(100), n: 1000, want: span(58, 59)},
		"none":                {schedule: minutes, from: minute(60), until: minute(100), n: 1000},
		"an interval":         {schedule: timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(time.Minute)}, from: minute(3), until: minute(100), n: 1000, want: span(3, 59)},
		"an interval's phase": {schedule: timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(2 * time.Minute), Phase: timer.Duration(time.Minute)}, from: minute(55), until: minute(100), n: 1000, want: []int64{minute(55), minute(57), minute(59)}},
		"a step of a cron's":  {schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{"@every 41s"}}, from: minute(58), until: minute(100), n: 1000, want: []int64{minute(0) + 85*41000, minute(0) + 86*41000, minute(0) + 87*41000}},
		"a one-shot":          {schedule: timer.Schedule{Kind: timer.KindAt, At: &at}, from: 0, until: minute(100), n: 1000},
		"a fixed delay":       {schedule: timer.Schedule{Kind: timer.KindFixedDelay, Every: timer.Duration(time.Minute)}, from: 0, until: minute(100), n: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tm := &timer.Timer{
				ID:         77,
				Version:    1,
				AnchorMS:   minute(0),
				Definition: timer.Definition{Schedule: c.schedule},
			}
			got, err := planner(
				t,
				expansion.Options{},
			).Before(tm, minute(60), c.from, 0, c.until, c.n)
			require.NoError(t, err)
			require.Equal(t, c.want, append([]int64(nil), got...))
		})
	}
	t.Run("by when they would run", func(t *testing.T) {
		t.Parallel()
		jittered := minutes
		jittered.Jitter = timer.Duration(5 * time.Minute)
		tm := &timer.Timer{ID: 77, Version: 1, Definition: timer.Definition{Schedule: jittered}}
		got, err := planner(
			t,
			expansion.Options{},
		).Before(tm, minute(60), minute(1), 0, minute(58), 1000)
		require.NoError(t, err)
		var want []int64
		for n := int64(1); n < 60; n++ {
			if minute(n)+schedule.Jitter(77, minute(n), jittered.Jitter) < minute(58) {
				want = append(want, minute(n))
			}
		}
		require.Equal(t, want, got)
		require.Less(t, len(got), 57)
	})
}
