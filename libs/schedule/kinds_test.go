package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

func instant(t *testing.T, s string) *time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	require.NoError(t, err)
	return &at
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	const activation = "2026-01-01T00:00:00.25Z"
	hour := timer.Duration(time.Hour)
	tests := []struct {
		name, after string
		s           timer.Schedule
		want        []string
	}{
		{
			"from the activation, which is not due",
			activation,
			timer.Schedule{Every: hour},
			[]string{"2026-01-01T01:00:00.25Z", "2026-01-01T02:00:00.25Z"},
		},
		{
			"before the activation",
			"2025-12-01T00:00:00Z",
			timer.Schedule{Every: hour},
			[]string{"2026-01-01T01:00:00.25Z", "2026-01-01T02:00:00.25Z"},
		},
		{
			"with a phase, which is due",
			activation,
			timer.Schedule{Every: hour, Phase: hour / 4},
			[]string{"2026-01-01T00:15:00.25Z", "2026-01-01T01:15:00.25Z"},
		},
		{
			"an anchor of its own is due",
			"2025-12-01T00:00:00Z",
			timer.Schedule{Every: hour, Anchor: instant(t, "2026-01-01T00:00:00Z")},
			[]string{"2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"},
		},
		{
			"from an anchor long ago",
			activation,
			timer.Schedule{Every: 7 * hour, Anchor: instant(t, "2025-12-31T00:00:00Z")},
			[]string{"2026-01-01T04:00:00Z", "2026-01-01T11:00:00Z"},
		},
		{
			"anchor and phase",
			activation,
			timer.Schedule{
				Every:  7 * hour,
				Phase:  hour,
				Anchor: instant(t, "2025-12-31T00:00:00Z"),
			},
			[]string{"2026-01-01T05:00:00Z", "2026-01-01T12:00:00Z"},
		},
		{
			"an anchor to come",
			activation,
			timer.Schedule{Every: hour, Anchor: instant(t, "2030-01-01T00:00:00Z")},
			[]string{"2030-01-01T00:00:00Z", "2030-01-01T01:00:00Z"},
		},
		{
			"elapsed time, not the wall clock's",
			"2026-03-28T23:30:00Z",
			timer.Schedule{
				Every:  24 * hour,
				Zone:   "Europe/Berlin",
				Anchor: instant(t, "2026-03-01T08:00:00Z"),
			},
			[]string{"2026-03-29T08:00:00Z", "2026-03-30T08:00:00Z"},
		},
		{
			"a window",
			activation,
			timer.Schedule{
				Every:   hour,
				StartAt: instant(t, "2026-01-02T00:00:00.25Z"),
				EndAt:   instant(t, "2026-01-02T02:00:00.25Z"),
			},
			[]string{"2026-01-02T00:00:00.25Z", "2026-01-02T01:00:00.25Z"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.s.Kind = timer.KindInterval
			require.NoError(t, schedule.Check(&tt.s))
			p := parse(t, tt.s)
			n := 2
			if tt.s.EndAt != nil {
				n = 5
			}
			require.Equal(t, tt.want, nextN(p, ms(t, tt.after), ms(t, activation), n))
		})
	}
}

func TestFixedDelayHasOneInstant(t *testing.T) {
	t.Parallel()
	s := timer.Schedule{Kind: timer.KindFixedDelay, Every: timer.Duration(90 * time.Second)}
	p := parse(t, s)
	require.Equal(t, int64(91_000), p.Next(1000, 1000))
	require.Equal(t, int64(91_000), p.Next(90_999, 1000))
	require.Equal(t, timer.NeverMS, p.Next(91_000, 1000))
	require.Equal(t, int64(111_000), p.Next(91_000, 21_000), "the last fire ended later")

	s.StartAt, s.EndAt = new(time.UnixMilli(100_000)), new(time.UnixMilli(200_000))
	p = parse(t, s)
	require.Equal(t, int64(100_000), p.Next(0, 1000), "the first is not before the window")
	require.Equal(t, int64(199_999), p.Next(0, 109_999))
	require.Equal(t, timer.NeverMS, p.Next(0, 110_000), "what ends with the window is not in it")

	s = timer.Schedule{Kind: timer.KindFixedDelay, Every: timer.Duration(36 * time.Hour)}
	skip, in := under(s, "", weekdays())
	p, err := schedule.Parse(skip, in)
	require.NoError(t, err)
	require.Equal(
		t,
		ms(t, "2026-05-18T00:00:00Z"),
		p.Next(0, ms(t, "2026-05-15T00:00:00Z")),
		"the first delay that ends where it is allowed",
	)
}

func TestWindowsOfCrons(t *testing.T) {
	t.Parallel()
	s := cronOf("", "0 * * * *")
	s.StartAt, s.EndAt = instant(t, "2026-01-01T01:00:00Z"), instant(t, "2026-01-01T03:00:00Z")
	p := parse(t, s)
	require.Equal(
		t,
		[]string{"2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"},
		nextN(p, 0, 0, 9),
		"the start is in the window, the end is not",
	)
	s.StartAt, s.EndAt = instant(
		t,
		"2026-01-01T01:00:00.0001Z",
	), instant(
		t,
		"2026-01-01T03:00:00.0001Z",
	)
	p = parse(t, s)
	require.Equal(t, []string{"2026-01-01T02:00:00Z", "2026-01-01T03:00:00Z"}, nextN(p, 0, 0, 9))

	s, in := under(cronOf("", "0 8 * * *"), "next_allowed", weekdays())
	s.StartAt, s.EndAt = instant(t, "2026-05-17T00:00:00Z"), instant(t, "2026-05-18T08:00:00Z")
	p, err := schedule.Parse(s, in)
	require.NoError(t, err)
	require.Equal(t, timer.NeverMS, p.Next(0, 0), "Sunday's moves out of the window")
	s.Excluded = timer.ExcludedPrevious
	p, err = schedule.Parse(s, in)
	require.NoError(t, err)
	require.Equal(t, timer.NeverMS, p.Next(0, 0), "Sunday's moves before the window")
}

// TestOneShotsUnderCalendars: one-shots have no end, and never move before the timer's activation.
func TestOneShotsUnderCalendars(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 16, 8, 0, 0, 0, time.UTC)
	next := func(policy timer.ExcludedPolicy, anchor string) int64 {
		s, in := under(timer.Schedule{Kind: timer.KindAt, At: &at}, policy, weekdays())
		p, err := schedule.Parse(s, in)
		require.NoError(t, err)
		return p.Next(ms(t, anchor)-1, ms(t, anchor))
	}
	require.Equal(t, timer.NeverMS, next("skip", "2026-05-01T00:00:00Z"))
	require.Equal(t, ms(t, "2026-05-18T08:00:00Z"), next("next_allowed", "2026-05-01T00:00:00Z"))
	require.Equal(
		t,
		ms(t, "2026-05-15T08:00:00Z"),
		next("previous_allowed", "2026-05-01T00:00:00Z"),
	)
	require.Equal(
		t,
		ms(t, "2026-05-15T20:00:00Z"),
		next("previous_allowed", "2026-05-15T20:00:00Z"),
		"at once",
	)
	require.Equal(
		t,
		ms(t, "2026-05-20T00:00:00Z"),
		next("skip", "2026-05-20T00:00:00Z"),
		"past at the activation: due then",
	)
}

func TestJitterIsStableAndUniform(t *testing.T) {
	t.Parallel()
	const limit = timer.Duration(10 * time.Second)
	var tally [10]int
	for i := range int64(100_000) {
		j := schedule.Jitter(timer.ID(i%100+1), 1_767_225_600_000+i/100*60_000, limit)
		require.Equal(
			t,
			j,
			schedule.Jitter(timer.ID(i%100+1), 1_767_225_600_000+i/100*60_000, limit),
		)
		require.GreaterOrEqual(t, j, int64(0))
		require.LessOrEqual(t, j, int64(10_000))
		tally[min(j/1000, 9)]++
	}
	for _, n := range tally {
		require.InDelta(t, 10_000, n, 500)
	}
	var low, high bool
	for i := range int64(1000) {
		j := schedule.Jitter(7, i, timer.Duration(time.Millisecond))
		low, high = low || j == 0, high || j == 1
	}
	require.True(t, low && high, "both ends are reached")
	require.Zero(t, schedule.Jitter(7, 1, 0))
}

func TestHashSpreadsAndStays(t *testing.T) {
	t.Parallel()
	next := func(id timer.ID, spec string) time.Time {
		p, err := schedule.Parse(cronOf("", spec), schedule.Inputs{Timer: id})
		require.NoError(t, err)
		return time.UnixMilli(p.Next(ms(t, "2026-02-01T00:00:00Z")-1, 0)).UTC()
	}
	minutes, hours, dates, stepped, within := map[int]bool{}, map[int]bool{}, map[int]bool{}, map[int]int{}, map[int]bool{}
	for id := timer.ID(1); id <= 2000; id++ {
		at := next(id, "H H H * *") //nolint:dupword // it is a spec
		minutes[at.Minute()], hours[at.Hour()], dates[at.Day()] = true, true, true
		stepped[next(id, "H/15 0 * * *").Minute()]++
		at = next(id, "H(10-12) H(8-17)/3 * * *")
		require.Contains(t, []int{10, 11, 12}, at.Minute())
		within[at.Hour()] = true
	}
	require.Len(t, minutes, 60)
	require.Len(t, hours, 24)
	require.Len(t, dates, 28, "never on a day that a month has not")
	require.Len(t, stepped, 15)
	require.Equal(t, map[int]bool{8: true, 9: true, 10: true}, within)
	p, err := schedule.Parse(cronOf("", "H/15 * * * *"), schedule.Inputs{Timer: 7})
	require.NoError(t, err)
	require.Len(
		t,
		between(p, ms(t, "2026-02-01T00:00:00Z"), ms(t, "2026-02-01T01:00:00Z")),
		4,
		"four an hour, wherever they begin",
	)
}
