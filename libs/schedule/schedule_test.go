package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

func ms(t *testing.T, s string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	require.NoError(t, err)
	return at.UnixMilli()
}

func cronOf(zone string, specs ...string) timer.Schedule {
	return timer.Schedule{Kind: timer.KindCron, Specs: specs, Zone: zone}
}

func parse(t *testing.T, s timer.Schedule) *schedule.Parsed {
	t.Helper()
	p, err := schedule.Parse(s, schedule.Inputs{})
	require.NoError(t, err)
	return p
}

// nextN returns up to n instants after an instant, as RFC 3339 in UTC.
func nextN(p *schedule.Parsed, after, since int64, n int) []string {
	var out []string
	for range n {
		if after = p.Next(after, since); after == timer.NeverMS {
			break
		}
		out = append(out, time.UnixMilli(after).UTC().Format("2006-01-02T15:04:05.999Z"))
	}
	return out
}

func TestNextOfCron(t *testing.T) {
	t.Parallel()
	const berlin, lordHowe, cairo = "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo"
	tests := []struct {
		name, zone, spec, after string
		want                    []string
	}{
		{
			"five fields",
			"",
			"*/20 * * * *",
			"2026-01-01T00:00:00Z",
			[]string{"2026-01-01T00:20:00Z", "2026-01-01T00:40:00Z", "2026-01-01T01:00:00Z"},
		},
		{
			"six fields",
			"",
			"*/30 * * * * *",
			"2026-01-01T00:00:00.5Z",
			[]string{"2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"},
		},
		{
			"just before an instant",
			"",
			"0 * * * *",
			"2026-01-01T00:59:59.999Z",
			[]string{"2026-01-01T01:00:00Z"},
		},
		{
			"seven fields, one year",
			"",
			"0 30 9 1 2 * 2030",
			"2026-01-01T00:00:00Z",
			[]string{"2030-02-01T09:30:00Z"},
		},
		{
			"seven fields, years",
			"",
			"0 0 0 1 1 ? 2028,2030-2034/2",
			"2026-01-01T00:00:00Z",
			[]string{
				"2028-01-01T00:00:00Z",
				"2030-01-01T00:00:00Z",
				"2032-01-01T00:00:00Z",
				"2034-01-01T00:00:00Z",
			},
		},
		{"a year that is over", "", "0 0 0 1 1 * 2020", "2026-01-01T00:00:00Z", nil},
		{"@hourly", "", "@hourly", "2026-01-01T00:00:00Z", []string{"2026-01-01T01:00:00Z"}},
		{"@daily", "", "@daily", "2026-01-01T00:00:00Z", []string{"2026-01-02T00:00:00Z"}},
		{"@midnight", "", "@midnight", "2026-01-01T00:00:00Z", []string{"2026-01-02T00:00:00Z"}},
		{"@weekly", "", "@weekly", "2026-01-01T00:00:00Z", []string{"2026-01-04T00:00:00Z"}},
		{"@monthly", "", "@monthly", "2026-01-01T00:00:00Z", []string{"2026-02-01T00:00:00Z"}},
		{"@yearly", "", "@yearly", "2026-01-01T00:00:00Z", []string{"2027-01-01T00:00:00Z"}},
		{"@annually", "", "@annually", "2026-01-01T00:00:00Z", []string{"2027-01-01T00:00:00Z"}},
		{"names", "", "0 12 * feb Mon", "2026-01-01T00:00:00Z", []string{"2026-02-02T12:00:00Z"}},
		{
			"Sunday is 7",
			"",
			"0 0 * * 7",
			"2026-01-01T00:00:00Z",
			[]string{"2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"},
		},
		{
			"a range up to Sunday",
			"",
			"0 0 * * 6-7",
			"2026-01-01T00:00:00Z",
			[]string{"2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-10T00:00:00Z"},
		},
		{
			"a stepped range up to Sunday",
			"",
			"0 0 * * mon-7/3",
			"2026-01-01T00:00:00Z",
			[]string{"2026-01-04T00:00:00Z", "2026-01-05T00:00:00Z", "2026-01-08T00:00:00Z"},
		},
		{
			"both day fields: either",
			"",
			"0 0 13 * 5",
			"2026-01-01T00:00:00Z",
			[]string{"2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"},
		},
		{
			"a leap day after the year 2100",
			"",
			"0 0 29 2 *",
			"2096-03-01T00:00:00Z",
			[]string{"2104-02-29T00:00:00Z"},
		},
		{
			"a Monday leap day",
			"",
			"0 0 0 29 2 ? 2040-2199",
			"2026-01-01T00:00:00Z",
			[]string{"2040-02-29T00:00:00Z", "2044-02-29T00:00:00Z"},
		},
		{
			"the end of time",
			"",
			"0 0 1 1 *",
			"2198-12-31T00:00:00Z",
			[]string{"2199-01-01T00:00:00Z"},
		},
		{"a zone", berlin, "0 9 * * *", "2026-01-01T00:00:00Z", []string{"2026-01-01T08:00:00Z"}},
		{
			"in the spring gap: when it ends",
			berlin,
			"30 2 * * *",
			"2026-03-28T00:00:00Z",
			[]string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		},
		{
			"in the autumn fold: once",
			berlin,
			"30 2 * * *",
			"2026-10-24T22:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		},
		{
			"behind a fold of half an hour",
			lordHowe,
			"0 2 * * *",
			"2026-04-04T12:00:00Z",
			[]string{"2026-04-04T15:30:00Z", "2026-04-05T15:30:00Z"},
		},
		{
			"a day without midnight",
			cairo,
			"0 12 * * 5",
			"2026-04-23T12:00:00Z",
			[]string{"2026-04-24T09:00:00Z", "2026-05-01T09:00:00Z"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := parse(t, cronOf(tt.zone, tt.spec))
			require.Equal(t, tt.want, nextN(p, ms(t, tt.after), 0, max(len(tt.want), 1)))
		})
	}
}

func TestSpecsThatCoincideAreOneInstant(t *testing.T) {
	t.Parallel()
	p := parse(t, cronOf("", "*/20 * * * *", "*/30 * * * *", "@hourly"))
	require.Equal(t, []string{
		"2026-01-01T00:20:00Z",
		"2026-01-01T00:30:00Z",
		"2026-01-01T00:40:00Z",
		"2026-01-01T01:00:00Z",
		"2026-01-01T01:20:00Z",
	}, nextN(p, ms(t, "2026-01-01T00:00:00Z"), 0, 5))
}

func TestEveryCountsFromTheAnchor(t *testing.T) {
	t.Parallel()
	p := parse(t, cronOf("", "@every 90s"))
	since := ms(t, "2026-01-01T00:00:00.25Z")
	want := []string{
		"2026-01-01T00:01:30.25Z",
		"2026-01-01T00:03:00.25Z",
		"2026-01-01T00:04:30.25Z",
	}
	require.Equal(t, want, nextN(p, since, since, 3))
	require.Equal(t, want, nextN(p, since-1, since, 3), "the anchor itself is not due")
	require.Equal(t, want[:1], nextN(p, 0, since, 1))
	require.Equal(
		t,
		want[1:],
		nextN(p, ms(t, "2026-01-01T00:01:30.25Z"), since, 2),
		"strictly after",
	)
}

func TestAtAndDelayHaveOneInstant(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 12, 0, 0, 1, time.UTC)
	p := parse(t, timer.Schedule{Kind: timer.KindAt, At: &at})
	before, after := at.UnixMilli()-5000, at.UnixMilli()+5000
	require.Equal(t, at.UnixMilli()+1, p.Next(before, before), "rounded up: never early")
	require.Equal(t, timer.NeverMS, p.Next(at.UnixMilli()+1, before))
	require.Equal(t, after, p.Next(after-1, after), "an instant that is past is due at the anchor")
	require.Equal(t, timer.NeverMS, p.Next(after, after))

	p = parse(t, timer.Schedule{Kind: timer.KindDelay, Delay: timer.Duration(90 * time.Second)})
	require.Equal(t, int64(91_000), p.Next(999, 1000))
	require.Equal(t, timer.NeverMS, p.Next(91_000, 1000))
}

func TestNothingAfterTheEndOfTime(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"* * * * * *", "@every 1s"} {
		p := parse(t, cronOf("America/New_York", spec))
		require.Equal(t, timer.NeverMS, p.Next(timer.NeverMS, 0))
		require.Equal(t, timer.NeverMS, p.Next(timer.NeverMS-1, 0))
		require.Equal(t, timer.NeverMS, p.Next(ms(t, "2200-01-01T00:00:00Z"), 0))
	}
}
