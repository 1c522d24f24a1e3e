package calendar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

func unix(t testing.TB, s string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	require.NoError(t, err)
	return at.Unix()
}

func show(unix int64) string {
	switch unix {
	case calendar.Never, -calendar.Never:
		return "never"
	}
	return time.Unix(unix, 0).UTC().Format(time.RFC3339)
}

// office is nine to five on weekdays in Berlin, and on a make-up Saturday.
func office() timer.Calendar {
	return timer.Calendar{
		Name: "office",
		Zone: "Europe/Berlin",
		ExcludedDates: []string{
			"2026-05-15",
			"2026-05-14",
		},
		IncludedDates:    []string{"2026-05-16"},
		ExcludedWeekdays: []string{"sat", "Sun"},
		AllowedTimes: []timer.TimeRange{
			{From: "09:00", To: "12:00", Weekdays: []string{"mon", "tue", "wed", "thu", "fri"}},
			{From: "12:00", To: "17:00", Weekdays: []string{"mon", "tue", "wed", "thu", "fri"}},
		},
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	c := office()
	r, err := calendar.New(&c, nil)
	require.NoError(t, err)
	tests := []struct{ name, at, nextAllowed, nextExcluded, prevAllowed, why string }{
		{
			"in the morning",
			"2026-05-13T06:59:59Z",
			"2026-05-13T07:00:00Z",
			"2026-05-13T06:59:59Z",
			"2026-05-12T14:59:59Z",
			`calendar "office": 08:59:59 is not among the allowed times`,
		},
		{
			"the first second",
			"2026-05-13T07:00:00Z",
			"2026-05-13T07:00:00Z",
			"2026-05-13T15:00:00Z",
			"2026-05-13T07:00:00Z",
			"",
		},
		{
			"where two ranges meet",
			"2026-05-13T10:00:00Z",
			"2026-05-13T10:00:00Z",
			"2026-05-13T15:00:00Z",
			"2026-05-13T10:00:00Z",
			"",
		},
		{
			"at five",
			"2026-05-13T15:00:00Z",
			"2026-05-16T07:00:00Z",
			"2026-05-13T15:00:00Z",
			"2026-05-13T14:59:59Z",
			`calendar "office": 17:00:00 is not among the allowed times`,
		},
		{
			"a holiday",
			"2026-05-14T10:00:00Z",
			"2026-05-16T07:00:00Z",
			"2026-05-14T10:00:00Z",
			"2026-05-13T14:59:59Z",
			`calendar "office": 2026-05-14 is an excluded date`,
		},
		{
			"a make-up Saturday",
			"2026-05-16T10:00:00Z",
			"2026-05-16T10:00:00Z",
			"2026-05-16T15:00:00Z",
			"2026-05-16T10:00:00Z",
			"",
		},
		{
			"late on it",
			"2026-05-16T20:00:00Z",
			"2026-05-18T07:00:00Z",
			"2026-05-16T20:00:00Z",
			"2026-05-16T14:59:59Z",
			`calendar "office": 22:00:00 is not among the allowed times`,
		},
		{
			"a Sunday",
			"2026-05-17T10:00:00Z",
			"2026-05-18T07:00:00Z",
			"2026-05-17T10:00:00Z",
			"2026-05-16T14:59:59Z",
			`calendar "office": sun is an excluded weekday`,
		},
		{
			"in winter an hour later",
			"2026-12-01T07:30:00Z",
			"2026-12-01T08:00:00Z",
			"2026-12-01T07:30:00Z",
			"2026-11-30T15:59:59Z",
			`calendar "office": 08:30:00 is not among the allowed times`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			at := unix(t, tt.at)
			require.Equal(t, tt.why, r.Why(at))
			require.Equal(t, tt.why == "", r.Allows(at))
			for _, s := range []*calendar.Set{calendar.NewSet(r), calendar.NewSet(r, r)} {
				require.Equal(t, tt.nextAllowed, show(s.NextAllowed(at)))
				require.Equal(t, tt.nextExcluded, show(s.NextExcluded(at)))
				require.Equal(t, tt.prevAllowed, show(s.PrevAllowed(at)))
			}
		})
	}
}

// TestRulesMatchAModel compares the searches with a search minute by minute, through changes of the
// zone.
func TestRulesMatchAModel(t *testing.T) {
	t.Parallel()
	berlin := office()
	night := timer.Calendar{
		Name:         "night",
		Zone:         "Europe/Berlin",
		AllowedTimes: []timer.TimeRange{{From: "02:10", To: "02:40"}, {From: "23:00", To: "24:00"}},
	}
	apia := timer.Calendar{
		Name:             "apia",
		Zone:             "Pacific/Apia",
		ExcludedWeekdays: []string{"thu"},
		ExcludedDates:    []string{"2011-12-31"},
	}
	only := timer.Calendar{
		Name: "only", ExcludedWeekdays: []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"},
		IncludedDates: []string{"2026-03-29", "2026-10-25", "2011-12-30"},
	}
	for _, c := range []timer.Calendar{berlin, night, apia, only} {
		rules, err := calendar.New(&c, nil)
		require.NoError(t, err)
		r := calendar.NewSet(rules)
		for _, from := range []string{"2026-03-27T00:00:00Z", "2026-10-23T00:00:00Z", "2011-12-28T00:00:00Z"} {
			begin := unix(t, from)
			const minutes = 4 * 1440
			nextAllowed, nextExcluded := calendar.Never, calendar.Never
			for m := int64(minutes); m >= 0; m-- {
				at := begin + m*60
				if r.Allows(at) {
					nextAllowed = at
				} else {
					nextExcluded = at
				}
				if nextAllowed != calendar.Never {
					require.Equal(
						t,
						show(nextAllowed),
						show(r.NextAllowed(at)),
						"%s at %s",
						c.Name,
						show(at),
					)
				}
				if nextExcluded != calendar.Never {
					require.Equal(
						t,
						show(nextExcluded),
						show(r.NextExcluded(at)),
						"%s at %s",
						c.Name,
						show(at),
					)
				}
			}
			prev := -calendar.Never
			for m := int64(0); m <= minutes; m++ {
				at := begin + m*60
				if r.Allows(at) {
					prev = at
				}
				if prev == at {
					require.Equal(t, show(at), show(r.PrevAllowed(at)), c.Name)
				} else if prev != -calendar.Never {
					require.Equal(
						t,
						show(prev+59),
						show(r.PrevAllowed(at)),
						"%s at %s",
						c.Name,
						show(at),
					)
				}
			}
		}
	}
}

func TestCalendarsThatAllowNothingOrEverything(t *testing.T) {
	t.Parallel()
	week := []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
	nothing := timer.Calendar{Name: "nothing", ExcludedWeekdays: week}
	everything := timer.Calendar{Name: "everything"}
	half := timer.Calendar{Name: "half", ExcludedWeekdays: week[:5]}
	rest := timer.Calendar{Name: "rest", ExcludedWeekdays: week[5:]}
	at := unix(t, "2026-01-01T00:00:00Z")
	rules := func(calendars ...timer.Calendar) *calendar.Set {
		var out []*calendar.Rules
		for _, c := range calendars {
			r, err := calendar.New(&c, nil)
			require.NoError(t, err)
			out = append(out, r)
		}
		return calendar.NewSet(out...)
	}
	require.Equal(t, calendar.Never, rules(nothing).NextAllowed(at))
	require.Equal(t, -calendar.Never, rules(nothing).PrevAllowed(at))
	require.Equal(t, calendar.Never, rules(everything).NextExcluded(at))
	none := rules(half, rest)
	require.Equal(t, calendar.Never, none.NextAllowed(at), "each allows what the other excludes")
	require.Equal(t, -calendar.Never, none.PrevAllowed(at))
	require.Equal(t, at, rules().NextAllowed(at))
	require.True(t, rules().Allows(at))
	require.Equal(t, calendar.Never, rules().NextExcluded(at))
}

func TestZoneOfTheSchedule(t *testing.T) {
	t.Parallel()
	tokyo, err := zone.Load("Asia/Tokyo")
	require.NoError(t, err)
	c := timer.Calendar{Name: "days", ExcludedDates: []string{"2026-01-02"}}
	r, err := calendar.New(&c, tokyo)
	require.NoError(t, err)
	require.Equal(
		t,
		"2026-01-01T15:00:00Z",
		show(calendar.NewSet(r).NextExcluded(unix(t, "2026-01-01T00:00:00Z"))),
	)
	c.Zone = "UTC"
	r, err = calendar.New(&c, tokyo)
	require.NoError(t, err)
	require.Equal(
		t,
		"2026-01-02T00:00:00Z",
		show(calendar.NewSet(r).NextExcluded(unix(t, "2026-01-01T00:00:00Z"))),
	)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	many := strings.Split(strings.Repeat("2026-01-01,", timer.MaxCalendarDates)+"2026-01-01", ",")
	ranges := func(r ...timer.TimeRange) timer.Calendar { return timer.Calendar{Name: "x", AllowedTimes: r} }
	tests := []struct {
		name       string
		c          timer.Calendar
		field, msg string
	}{
		{"good", office(), "", ""},
		{"no name", timer.Calendar{}, "name", "expected a name"},
		{"a long name", timer.Calendar{Name: strings.Repeat("x", 129)}, "name", "at most 128"},
		{
			"no zone",
			timer.Calendar{Name: "x", Zone: "Mars/Base"},
			"time_zone",
			"expected an IANA time zone",
		},
		{
			"no date",
			timer.Calendar{Name: "x", ExcludedDates: []string{"2026-01-01", "2026-02-29"}},
			"excluded_dates[1]",
			`found "2026-02-29"`,
		},
		{
			"no included date",
			timer.Calendar{Name: "x", IncludedDates: []string{"1969-12-31"}},
			"included_dates[0]",
			"expected a date",
		},
		{
			"too many dates",
			timer.Calendar{Name: "x", IncludedDates: many},
			"included_dates",
			"at most 5000",
		},
		{
			"no weekday",
			timer.Calendar{Name: "x", ExcludedWeekdays: []string{"monday"}},
			"excluded_weekdays[0]",
			`found "monday"`,
		},
		{
			"no time",
			ranges(timer.TimeRange{From: "9:00", To: "17:00"}),
			"allowed_times[0].from",
			`found "9:00"`,
		},
		{
			"too late",
			ranges(timer.TimeRange{From: "09:00", To: "24:01"}),
			"allowed_times[0].to",
			"expected a time",
		},
		{
			"minutes",
			ranges(timer.TimeRange{From: "09:60", To: "24:00"}),
			"allowed_times[0].from",
			"expected a time",
		},
		{
			"signs",
			ranges(timer.TimeRange{From: "+9:00", To: "24:00"}),
			"allowed_times[0].from",
			"expected a time",
		},
		{
			"through midnight",
			ranges(timer.TimeRange{From: "22:00", To: "06:00"}),
			"allowed_times[0].to",
			"is two",
		},
		{
			"a range's weekday",
			ranges(timer.TimeRange{From: "22:00", To: "23:00", Weekdays: []string{""}}),
			"allowed_times[0].weekdays[0]",
			"expected",
		},
		{"too many ranges", ranges(make([]timer.TimeRange, 49)...), "allowed_times", "at most 48"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := calendar.Check(&tt.c)
			if tt.field == "" {
				require.NoError(t, err)
				return
			}
			var e *timer.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, timer.CodeInvalid, e.Code)
			require.Equal(t, tt.field, e.Field)
			require.Contains(t, e.Msg, tt.msg)
		})
	}
}

func BenchmarkNextAllowed(b *testing.B) {
	c := office()
	r, err := calendar.New(&c, nil)
	require.NoError(b, err)
	s, at := calendar.NewSet(r), unix(b, "2026-05-13T15:00:00Z")
	b.ReportAllocs()
	for b.Loop() {
		s.NextAllowed(at)
	}
}
