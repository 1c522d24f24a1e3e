package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestWarnings(t *testing.T) {
	t.Parallel()
	const hour = timer.Duration(time.Hour)
	at := func(year int, month time.Month, day int) *time.Time {
		out := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		return &out
	}
	never := timer.Calendar{
		Name:             "never",
		ExcludedWeekdays: []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"},
	}
	morning := timer.Calendar{
		Name:         "morning",
		AllowedTimes: []timer.TimeRange{{From: "08:00", To: "12:00"}},
	}
	under := func(s timer.Schedule, policy timer.ExcludedPolicy) timer.Schedule {
		s.Calendars, s.Excluded = []string{"c"}, policy
		return s
	}
	from := func(s timer.Schedule, start, end *time.Time) timer.Schedule {
		s.StartAt, s.EndAt = start, end
		return s
	}
	gaps := cronOf("Europe/Berlin", "30 2 29 3 *")
	gaps.Gap = timer.GapSkip
	gaps.EndAt = at(2026, 4, 1)
	tests := []struct {
		name  string
		s     timer.Schedule
		c     *timer.Calendar
		field string // empty means no warning
		msg   string
	}{
		{"a cron", cronOf("", "* * * * *"), nil, "", ""},
		{
			"a past year",
			cronOf("", "0 0 0 1 1 * 2020"),
			nil,
			"schedule.specs",
			"match nothing after 2025-12-31T23:59:59.999Z",
		},
		{"the instant of the activation", cronOf("", "0 0 0 1 1 * 2026"), nil, "", ""},
		{"a later year", cronOf("", "0 0 0 2 1 * 2026"), nil, "", ""},
		{
			"a past year besides others",
			cronOf("", "@daily", "0 0 0 1 1 * 2020"),
			nil,
			"schedule.specs[1]",
			"match nothing after 2025-12-31T23:59:59.999Z",
		},
		{
			"an end that is past",
			from(cronOf("", "@daily"), nil, at(2025, 1, 1)),
			nil,
			"schedule.end_at",
			"2025-01-01T00:00:00Z",
		},
		{
			"an end before the next",
			from(cronOf("", "0 12 1 2 *"), nil, at(2026, 2, 1)),
			nil,
			"schedule.end_at",
			"first due at 2026-02-01T12:00:00Z",
		},
		{
			"a beginning behind the last",
			from(cronOf("", "0 0 0 1 1 * 2030"), at(2031, 1, 1), nil),
			nil,
			"schedule.start_at",
			"match nothing from 2031-01-01T00:00:00Z on",
		},
		{
			"a window between two",
			from(cronOf("", "0 0 1 1 *"), at(2026, 2, 1), at(2026, 3, 1)),
			nil,
			"schedule.end_at",
			"first due at 2027-01-01T00:00:00Z",
		},
		{
			"only in a gap that is skipped",
			gaps,
			nil,
			"schedule.end_at",
			"first due at 2027-03-29T00:30:00Z",
		},
		{
			"calendars without an allowed day",
			under(cronOf("", "@daily"), ""),
			&never,
			"schedule.calendars",
			"exclude every instant",
		},
		{
			"excluded times of day",
			under(cronOf("", "0 13 * * *"), timer.ExcludedSkip),
			&morning,
			"schedule.calendars",
			"exclude every instant",
		},
		{
			"excluded times of day that move",
			under(cronOf("", "0 13 * * *"), timer.ExcludedNext),
			&morning,
			"",
			"",
		},
		{
			"one of two is excluded",
			under(cronOf("", "0 9 * * *", "0 13 * * *"), timer.ExcludedSkip),
			&morning,
			"schedule.specs[1]",
			"calendars exclude",
		},
		{
			"moved out of the window",
			under(
				from(cronOf("", "0 13 * * *"), at(2026, 1, 1), at(2026, 1, 2)),
				timer.ExcludedNext,
			),
			&morning,
			"schedule.calendars",
			"exclude every instant",
		},
		{"a past instant", timer.Schedule{Kind: timer.KindAt, At: at(2020, 1, 1)}, nil, "", ""},
		{
			"an excluded instant",
			under(timer.Schedule{Kind: timer.KindAt, At: at(2027, 1, 1)}, ""),
			&morning,
			"schedule.calendars",
			"exclude every instant",
		},
		{"a delay", timer.Schedule{Kind: timer.KindDelay, Delay: hour}, nil, "", ""},
		{
			"an interval that ends before it begins",
			from(timer.Schedule{Kind: timer.KindInterval, Every: hour}, nil, at(2025, 12, 31)),
			nil,
			"schedule.end_at",
			"2025-12-31T00:00:00Z",
		},
		{
			"an interval that counts from behind its end",
			from(
				timer.Schedule{Kind: timer.KindInterval, Every: hour, Anchor: at(2030, 1, 1)},
				nil,
				at(2029, 1, 1),
			),
			nil,
			"schedule.end_at",
			"first due at 2030-01-01T00:00:00Z",
		},
		{
			"an interval at the end of all years",
			from(
				timer.Schedule{
					Kind:   timer.KindInterval,
					Every:  48 * hour,
					Anchor: at(2199, 12, 30),
				},
				at(2199, 12, 31),
				nil,
			),
			nil,
			"schedule.start_at",
			"schedules end with the year 2199",
		},
		{"a fixed delay", timer.Schedule{Kind: timer.KindFixedDelay, Every: hour}, nil, "", ""},
		{
			"a fixed delay that ends",
			from(timer.Schedule{Kind: timer.KindFixedDelay, Every: hour}, nil, at(2025, 6, 1)),
			nil,
			"schedule.end_at",
			"2025-06-01T00:00:00Z",
		},
		{
			"a fixed delay that is excluded",
			under(timer.Schedule{Kind: timer.KindFixedDelay, Every: hour}, ""),
			&never,
			"schedule.calendars",
			"exclude every instant",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := schedule.Inputs{}
			if tt.c != nil {
				in.Calendars = []timer.Calendar{*tt.c}
			}
			p, err := schedule.Parse(tt.s, in)
			require.NoError(t, err)
			now := at(2026, 1, 1).UnixMilli()
			got := p.Warnings(now-1, now)
			if tt.field == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Equal(t, tt.field, got[0].Field)
			require.Contains(t, got[0].Message, tt.msg)
			if len(tt.s.Specs) < 2 {
				require.Equal(t, timer.NeverMS, p.Next(now-1, now), "it is due after all")
			}
		})
	}
}

// TestWarningOfAnInstantThatIsPast checks that the last year of schedules is not the reason.
func TestWarningOfAnInstantThatIsPast(t *testing.T) {
	t.Parallel()
	instant := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	anchor, now := instant.AddDate(0, -1, 0).UnixMilli(), instant.AddDate(0, 1, 0).UnixMilli()
	for field, s := range map[string]timer.Schedule{
		"schedule.at":    {Kind: timer.KindAt, At: &instant},
		"schedule.delay": {Kind: timer.KindDelay, Delay: timer.Duration(time.Hour)},
	} {
		p, err := schedule.Parse(s, schedule.Inputs{})
		require.NoError(t, err)
		got := p.Warnings(now, anchor)
		require.Len(t, got, 1)
		require.Equal(t, field, got[0].Field)
		require.Equal(t, "the schedule is never due: its instant is past", got[0].Message)
	}
}
