package schedule_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

func preview(
	t *testing.T,
	s timer.Schedule,
	in schedule.Inputs,
	from string,
	count int,
) *schedule.Forecast {
	t.Helper()
	f, err := schedule.Preview(t.Context(), s, in, ms(t, from), ms(t, from), count)
	require.NoError(t, err)
	return f
}

func TestPreviewMatchesTheAPI(t *testing.T) {
	t.Parallel()
	s := cronOf("Europe/Berlin", "0 9 * * 1-5")
	s.Gap, s.Overlap = timer.GapShift, timer.OverlapFirst
	b, err := json.Marshal(preview(t, s, schedule.Inputs{}, "2026-03-28T00:00:00Z", 2))
	require.NoError(t, err)
	require.JSONEq(t, `{"fires":[{"due":"2026-03-30T07:00:00Z","local":"2026-03-30T09:00:00+02:00"},
		{"due":"2026-03-31T07:00:00Z","local":"2026-03-31T09:00:00+02:00"}],"excluded":[]}`, string(b))
}

func TestPreviewListsExclusions(t *testing.T) {
	t.Parallel()
	const berlin = "Europe/Berlin"
	policy := func(s timer.Schedule, gap timer.GapPolicy, overlap timer.OverlapPolicy) timer.Schedule {
		s.Gap, s.Overlap = gap, overlap
		return s
	}
	gap := `gap: this local time does not exist, and the policy is "skip"`
	tests := []struct {
		name     string
		s        timer.Schedule
		excluded timer.ExcludedPolicy
		with     []timer.Calendar
		from     string
		count    int
		want     []string // due, local, reason
	}{
		{
			"a gap that is skipped",
			policy(cronOf(berlin, "0,30 2 * * *"), "skip", ""),
			"",
			nil,
			"2026-03-28T12:00:00Z",
			1,
			[]string{
				"2026-03-29T01:00:00Z",
				"2026-03-29T02:00:00+01:00",
				gap,
				"2026-03-29T01:30:00Z",
				"2026-03-29T02:30:00+01:00",
				gap,
			},
		},
		{
			"a gap that is shifted excludes nothing",
			cronOf(berlin, "0,30 2 * * *"),
			"",
			nil,
			"2026-03-28T12:00:00Z",
			2,
			nil,
		},
		{
			"every hour has no gap",
			policy(cronOf(berlin, "0 * * * *"), "skip", "first"),
			"",
			nil,
			"2026-03-28T12:00:00Z",
			48,
			nil,
		},
		{
			"the second pass",
			cronOf(berlin, "30 2 * * *"),
			"",
			nil,
			"2026-10-24T12:00:00Z",
			2,
			[]string{
				"2026-10-25T01:30:00Z",
				"2026-10-25T02:30:00+01:00",
				`overlap: second pass of a repeated local time, and the policy is "first"`,
			},
		},
		{
			"the first pass",
			policy(cronOf(berlin, "30 2 * * *"), "", "second"),
			"",
			nil,
			"2026-10-24T12:00:00Z",
			2,
			[]string{
				"2026-10-25T00:30:00Z",
				"2026-10-25T02:30:00+02:00",
				`overlap: first pass of a repeated local time, and the policy is "second"`,
			},
		},
		{
			"both passes",
			policy(cronOf(berlin, "30 2 * * *"), "", "both"),
			"",
			nil,
			"2026-10-24T12:00:00Z",
			3,
			nil,
		},
		{
			"from within the overlap",
			cronOf(berlin, "0,30 2 * * *"),
			"",
			nil,
			"2026-10-25T01:15:00Z",
			1,
			[]string{
				"2026-10-25T01:30:00Z",
				"2026-10-25T02:30:00+01:00",
				`overlap: second pass of a repeated local time, and the policy is "first"`,
			},
		},
		{
			"a weekend",
			cronOf(berlin, "0 8 * * *"),
			"",
			[]timer.Calendar{weekdays()},
			"2026-05-15T12:00:00Z",
			1,
			[]string{
				"2026-05-16T06:00:00Z",
				"2026-05-16T08:00:00+02:00",
				`calendar "weekdays": sat is an excluded weekday`,
				"2026-05-17T06:00:00Z",
				"2026-05-17T08:00:00+02:00",
				`calendar "weekdays": sun is an excluded weekday`,
			},
		},
		{
			"a holiday that moves",
			cronOf(berlin, "0 8 * * 5"),
			"next_allowed",
			[]timer.Calendar{weekdays()},
			"2026-04-30T12:00:00Z",
			1,
			[]string{
				"2026-05-01T06:00:00Z",
				"2026-05-01T08:00:00+02:00",
				`calendar "weekdays": 2026-05-01 is an excluded date; moved to 2026-05-04T08:00:00+02:00`,
			},
		},
		{
			"a holiday that nothing follows",
			cronOf(berlin, "0 0 8 1 5 ? 2026"),
			"",
			[]timer.Calendar{weekdays()},
			"2026-04-30T12:00:00Z",
			1,
			[]string{
				"2026-05-01T06:00:00Z",
				"2026-05-01T08:00:00+02:00",
				`calendar "weekdays": 2026-05-01 is an excluded date`,
			},
		},
		{
			"out of hours",
			cronOf(berlin, "30 12 * * *"),
			"",
			[]timer.Calendar{weekdays(), hours()},
			"2026-05-14T00:00:00Z",
			1,
			[]string{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, in := under(tt.s, tt.excluded, tt.with...)
			got := []string{}
			f := preview(t, s, in, tt.from, tt.count)
			for _, e := range f.Excluded {
				got = append(got, e.Due.Format(time.RFC3339), e.Local, e.Reason)
			}
			if tt.name == "out of hours" {
				require.Empty(t, f.Fires)
				//nolint:testifylint // Len would show them all
				require.Equal(t, 366, len(f.Excluded), "up to a year ahead")
				return
			}
			require.Equal(t, append([]string{}, tt.want...), got)
		})
	}
}

// TestPreviewShowsTheSameInstantTwice tests zones whose offsets had seconds, which RFC 3339 cannot
// show.
func TestPreviewShowsTheSameInstantTwice(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string][]string{
		"Africa/Monrovia":     {"1972-01-06T20:44:30Z", "1972-01-06T20:00:30-00:44"},
		"Africa/Johannesburg": {"1972-01-06T18:00:00Z", "1972-01-06T20:00:00+02:00"},
		"UTC":                 {"1972-01-06T20:00:00Z", "1972-01-06T20:00:00Z"},
	} {
		s := cronOf(zone, "0 20 * * *")
		fire := preview(t, s, schedule.Inputs{}, "1972-01-06T00:00:00Z", 1).Fires[0]
		require.Equal(t, want, []string{fire.Due.Format(time.RFC3339), fire.Local})
		local, err := time.Parse(time.RFC3339, fire.Local)
		require.NoError(t, err)
		require.True(t, local.Equal(fire.Due), zone)
	}
	// at midnight of 1972-01-07 the clock was set forward by 44.5 minutes.
	s := cronOf("Africa/Monrovia", "0 0 * * *")
	s.Gap = timer.GapSkip
	f := preview(t, s, schedule.Inputs{}, "1972-01-06T22:00:00Z", 1)
	require.Len(t, f.Excluded, 1)
	local, err := time.Parse(time.RFC3339, f.Excluded[0].Local)
	require.NoError(t, err)
	require.True(t, local.Equal(f.Excluded[0].Due), f.Excluded[0].Local)
}

func TestPreviewIsBounded(t *testing.T) {
	t.Parallel()
	s, in := under(cronOf("", "* * * * * *"), "", weekdays())
	f := preview(t, s, in, "2026-05-15T23:59:00Z", schedule.MaxPreview)
	require.Len(t, f.Fires, schedule.MaxPreview)
	require.Len(t, f.Excluded, schedule.MaxPreviewExcluded)
	for _, count := range []int{0, -1, schedule.MaxPreview + 1} {
		_, err := schedule.Preview(t.Context(), s, in, 0, 0, count)
		require.ErrorContains(t, err, "count: expected a number from 1 to 1000")
	}
	_, err := schedule.Preview(t.Context(), cronOf("", "0 0 30 2 *"), schedule.Inputs{}, 0, 0, 1)
	require.ErrorContains(t, err, "never matches")
}

// TestPreviewWhereNothingIsEverAllowed lists exclusions of calendars that have no time in common.
func TestPreviewWhereNothingIsEverAllowed(t *testing.T) {
	t.Parallel()
	nine, ten := hours(), hours()
	nine.Name, nine.AllowedTimes = "nine", []timer.TimeRange{{From: "09:00", To: "10:00"}}
	ten.Name, ten.AllowedTimes = "ten", []timer.TimeRange{{From: "10:00", To: "11:00"}}
	for _, zone := range []string{"", "Asia/Tokyo"} {
		ten.Zone = zone
		for policy, exclusionResult := range map[timer.ExcludedPolicy]string{
			"": "", timer.ExcludedNext: "; there is no allowed instant to move it to", timer.ExcludedPrevious: "; there is no allowed instant to move it to",
		} {
			s, in := under(cronOf("", "* * * * *"), policy, nine, ten)
			f := preview(t, s, in, "2026-01-01T00:00:00Z", 1)
			require.Empty(t, f.Fires)
			require.Len(t, f.Excluded, schedule.MaxPreviewExcluded)
			require.Equal(
				t,
				`calendar "nine": 00:01:00 is not among the allowed times`+exclusionResult,
				f.Excluded[0].Reason,
			)
		}
	}
}

func TestPreviewEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, in := under(cronOf("", "* * * * *"), "", weekdays())
	_, err := schedule.Preview(ctx, s, in, 0, 0, 1)
	require.ErrorIs(t, err, context.Canceled)
}

func TestPreviewOfOtherKinds(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 16, 8, 0, 0, 0, time.UTC)
	dues := func(f *schedule.Forecast) (out []string) {
		for _, fire := range f.Fires {
			out = append(out, fire.Local)
		}
		return out
	}
	f := preview(
		t,
		timer.Schedule{Kind: timer.KindAt, At: &at, Zone: "Asia/Tokyo"},
		schedule.Inputs{},
		"2026-05-15T00:00:00Z",
		5,
	)
	require.Equal(t, []string{"2026-05-16T17:00:00+09:00"}, dues(f))
	f = preview(
		t,
		timer.Schedule{Kind: timer.KindDelay, Delay: timer.Duration(90 * time.Second)},
		schedule.Inputs{},
		"2026-05-15T00:00:00Z",
		5,
	)
	require.Equal(t, []string{"2026-05-15T00:01:30Z"}, dues(f))
	f = preview(
		t,
		timer.Schedule{
			Kind:     timer.KindInterval,
			Every:    timer.Duration(1500 * time.Millisecond),
			MaxFires: 2,
		},
		schedule.Inputs{},
		"2026-05-15T00:00:00Z",
		5,
	)
	require.Equal(
		t,
		[]string{"2026-05-15T00:00:01.5Z", "2026-05-15T00:00:03Z"},
		dues(f),
		"no more than max_fires",
	)
	s, in := under(timer.Schedule{Kind: timer.KindAt, At: &at}, "next_allowed", weekdays())
	f = preview(t, s, in, "2026-05-15T00:00:00Z", 5)
	require.Equal(t, []string{"2026-05-18T08:00:00Z"}, dues(f))
	require.Equal(
		t,
		`calendar "weekdays": sat is an excluded weekday; moved to 2026-05-18T08:00:00Z`,
		f.Excluded[0].Reason,
	)
	s, in = under(
		timer.Schedule{Kind: timer.KindFixedDelay, Every: timer.Duration(36 * time.Hour)},
		"next_allowed",
		weekdays(),
	)
	f = preview(t, s, in, "2026-05-15T00:00:00Z", 5)
	require.Equal(t, []string{"2026-05-18T12:00:00Z"}, dues(f))
	require.Equal(
		t,
		`calendar "weekdays": sat is an excluded weekday; moved to 2026-05-18T12:00:00Z`,
		f.Excluded[0].Reason,
	)
}
