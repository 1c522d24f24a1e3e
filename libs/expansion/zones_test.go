package expansion_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone/zonetest"
)

// TestZonesComeFromThePlanner checks that schedules and their calendars use the time zones given to
// the planner.
func TestZonesComeFromThePlanner(t *testing.T) {
	t.Parallel()
	other := zonetest.Database(
		t,
		"2031a",
		map[string]string{"Europe/Berlin": "Europe/London", "Asia/Tokyo": ""},
	)
	daily := timer.Schedule{
		Kind:  timer.KindCron,
		Specs: []string{"0 9 * * *"},
		Zone:  "Europe/Berlin",
	}
	hourly := timer.Schedule{
		Kind:      timer.KindCron,
		Specs:     []string{"0 * * * *"},
		Calendars: []string{"office"},
	}
	nine := []timer.Calendar{
		{
			Name:         "office",
			Zone:         "Europe/Berlin",
			AllowedTimes: []timer.TimeRange{{From: "09:00", To: "09:01"}},
		},
	}
	first := func(s timer.Schedule, calendars []timer.Calendar, o expansion.Options) int64 {
		t.Helper()
		tm := &timer.Timer{
			ID:            7,
			Version:       1,
			Definition:    timer.Definition{Schedule: s},
			Calendars:     calendars,
			ActiveSinceMS: base,
			NextDueMS:     base,
		}
		p := planner(t, o).Plan(tm, base)
		require.NoError(t, p.Err)
		return p.NextDueMS
	}
	const hour = 60 * timer.MinuteMS
	require.Equal(
		t,
		first(daily, nil, expansion.Options{})+hour,
		first(daily, nil, expansion.Options{Zones: other}),
	)
	require.Equal(
		t,
		first(hourly, nine, expansion.Options{})+hour,
		first(hourly, nine, expansion.Options{Zones: other}),
	)

	// An unknown zone may come with the next tzdata, so the timer is planned again.
	daily.Zone = "Asia/Tokyo"
	tm := &timer.Timer{
		ID:            7,
		Version:       1,
		Definition:    timer.Definition{Schedule: daily},
		ActiveSinceMS: base,
		NextDueMS:     base,
	}
	p := planner(t, expansion.Options{Zones: other}).Plan(tm, base)
	require.ErrorContains(t, p.Err, "tzdata 2031a has no such zone")
	require.Zero(t, p.ExpandAtMS)
	daily.Zone, daily.Specs = "", []string{"no cron"}
	tm.Definition.Schedule = daily
	require.Equal(
		t,
		timer.NeverMS,
		planner(t, expansion.Options{Zones: other}).Plan(tm, base).ExpandAtMS,
	)
}
