package calendar_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
)

func setOf(t testing.TB, calendars ...timer.Calendar) *calendar.Set {
	t.Helper()
	var rules []*calendar.Rules
	for i, c := range calendars {
		c.Name = fmt.Sprint(i)
		r, err := calendar.New(&c, nil)
		require.NoError(t, err)
		rules = append(rules, r)
	}
	return calendar.NewSet(rules...)
}

func hoursOf(zone, from, to string) timer.Calendar {
	return timer.Calendar{Zone: zone, AllowedTimes: []timer.TimeRange{{From: from, To: to}}}
}

func week() []string { return []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"} }

// TestNothingInCommonIsFoundInFewSteps counts steps: 174 years have 63,000 days per calendar.
func TestNothingInCommonIsFoundInFewSteps(t *testing.T) {
	t.Parallel()
	at := unix(t, "2026-01-01T00:00:00Z")
	holidays := timer.Calendar{
		ExcludedDates: []string{"2026-12-25"},
		IncludedDates: []string{"2026-12-27", "2031-01-01"},
	}
	only := timer.Calendar{
		Zone:             "Asia/Tokyo",
		ExcludedWeekdays: week(),
		IncludedDates:    []string{"2090-05-01", "1990-05-01"},
	}
	// The quarters of an hour of two zones have only Sundays in common, and these are excluded.
	quarters := func(zone string, odd int, sundays string) timer.Calendar {
		c := timer.Calendar{Zone: zone, AllowedTimes: []timer.TimeRange{
			{From: "00:00", To: "24:00", Weekdays: []string{"sun"}},
		}}
		for i := range 47 {
			from := 30*i + 15*odd
			c.AllowedTimes = append(c.AllowedTimes, timer.TimeRange{
				From: fmt.Sprintf("%02d:%02d", from/60, from%60),
				To:   fmt.Sprintf("%02d:%02d", (from+15)/60, (from+15)%60),
			})
		}
		sunday, err := time.Parse(time.DateOnly, sundays)
		require.NoError(t, err)
		for len(c.ExcludedDates) < timer.MaxCalendarDates {
			c.ExcludedDates = append(c.ExcludedDates, sunday.Format(time.DateOnly))
			sunday = sunday.AddDate(0, 0, 7)
		}
		return c
	}
	tests := []struct {
		name       string
		calendars  []timer.Calendar
		steps      int
		next, prev string
	}{
		{
			"hours of one zone",
			[]timer.Calendar{hoursOf("", "09:00", "10:00"), hoursOf("", "10:00", "11:00")},
			5,
			"never",
			"never",
		},
		{
			"hours of one zone and holidays",
			[]timer.Calendar{
				hoursOf("", "09:00", "10:00"),
				holidays,
				hoursOf("", "10:00", "11:00"),
			},
			5,
			"never",
			"never",
		},
		{
			"hours of two zones",
			[]timer.Calendar{
				hoursOf("Europe/Berlin", "09:00", "10:00"),
				hoursOf("Asia/Tokyo", "09:00", "10:00"),
			},
			1000,
			"never",
			"never",
		},
		{
			"hours of three zones",
			[]timer.Calendar{
				hoursOf(
					"Europe/Berlin",
					"09:00",
					"10:00",
				),
				hoursOf("America/New_York", "08:00", "18:00"),
				hoursOf("Australia/Lord_Howe", "09:00", "10:00"),
			},
			2500,
			"never",
			"never",
		},
		{
			"one included date of another zone",
			[]timer.Calendar{only, hoursOf("Europe/Berlin", "09:00", "10:00")},
			1000,
			"2090-05-01T07:00:00Z",
			"1990-05-01T07:59:59Z",
		},
		{
			"only where the clocks are an hour nearer",
			[]timer.Calendar{
				hoursOf("Europe/Berlin", "09:00", "10:00"),
				hoursOf("America/New_York", "04:00", "05:00"),
			},
			200,
			"2026-03-08T08:00:00Z",
			"2025-11-01T08:59:59Z",
		},
		{
			"only on excluded dates",
			[]timer.Calendar{
				quarters("Europe/Berlin", 0, "1990-01-07"),
				quarters("Asia/Tokyo", 1, "1990-01-07"),
			},
			12_000,
			"2085-11-03T15:00:00Z",
			"1989-12-31T22:59:59Z",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := setOf(t, tt.calendars...)
			require.LessOrEqual(t, s.Steps(at), tt.steps)
			require.LessOrEqual(t, s.StepsBack(at), tt.steps)
			require.Equal(t, tt.next, show(s.NextAllowed(at)))
			require.Equal(t, tt.prev, show(s.PrevAllowed(at)))
			require.Equal(t, tt.next, show(s.NextAllowed(at+3600)), "again")
		})
	}
}

// TestSearchPassesExcludedDatesWithClockChanges excludes days of 23 and of 25 hours.
func TestSearchPassesExcludedDatesWithClockChanges(t *testing.T) {
	t.Parallel()
	s := setOf(t, timer.Calendar{
		Zone: "Europe/Berlin", ExcludedDates: []string{"2026-03-29", "2026-10-25"},
	})
	for _, tt := range []struct{ at, next, prev string }{
		{"2026-03-29T00:30:00Z", "2026-03-29T22:00:00Z", "2026-03-28T22:59:59Z"},
		{"2026-03-29T12:00:00Z", "2026-03-29T22:00:00Z", "2026-03-28T22:59:59Z"},
		{"2026-10-25T00:30:00Z", "2026-10-25T23:00:00Z", "2026-10-24T21:59:59Z"},
		{"2026-10-25T12:00:00Z", "2026-10-25T23:00:00Z", "2026-10-24T21:59:59Z"},
	} {
		search := s.Search(nil, nil)
		require.Equal(t, tt.next, show(search.Next(unix(t, tt.at), calendar.Never)), tt.at)
		require.Equal(t, tt.prev, show(search.Prev(unix(t, tt.at))), tt.at)
	}
}

// TestIncludedDatesNeedNoWeeks searches tens of thousands of periods of a day or less, in which calendars of several
// zones include dates of their own.
func TestIncludedDatesNeedNoWeeks(t *testing.T) {
	t.Parallel()
	var calendars []timer.Calendar
	for i, zone := range []string{"Europe/Berlin", "Asia/Tokyo", "America/New_York"} {
		c := timer.Calendar{Zone: zone}
		for hour := range 24 {
			c.AllowedTimes = append(c.AllowedTimes, timer.TimeRange{
				From: fmt.Sprintf(
					"%02d:%02d",
					hour,
					15*i,
				),
				To: fmt.Sprintf("%02d:%02d", hour, 15*i+14),
			})
		}
		first := time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC)
		for n := range timer.MaxCalendarDates {
			day := first.AddDate(0, 0, 2*n).Format(time.DateOnly)
			c.IncludedDates = append(c.IncludedDates, day)
		}
		calendars = append(calendars, c)
	}
	search := setOf(t, calendars...).Search(nil, nil)
	require.Equal(t, calendar.Never, search.Next(unix(t, "2026-01-01T00:00:00Z"), calendar.Never))
	require.LessOrEqual(t, search.Weeks(), 16)
}

// TestSearchOfIncludedDatesMatchesSingleSteps compares both directions with steps of a minute, where
// most days are included by some calendar.
func TestSearchOfIncludedDatesMatchesSingleSteps(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	begin := unix(t, "2026-03-01T00:00:00Z")
	const days, minute = 60, 60
	found := 0
	for range 40 {
		var calendars []timer.Calendar
		for _, zone := range []string{"Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"} {
			c := timer.Calendar{Zone: zone}
			for hour := r.IntN(3); hour < 24; hour += 1 + r.IntN(2) {
				from := r.IntN(20)
				c.AllowedTimes = append(c.AllowedTimes, timer.TimeRange{
					From:     fmt.Sprintf("%02d:%02d", hour, from),
					To:       fmt.Sprintf("%02d:%02d", hour, from+20+r.IntN(20)),
					Weekdays: week()[r.IntN(5):],
				})
			}
			for n := range days {
				day := time.Unix(begin, 0).UTC().AddDate(0, 0, n).Format(time.DateOnly)
				switch r.IntN(6) {
				case 0, 2:
					c.IncludedDates = append(c.IncludedDates, day)
				case 1:
					c.ExcludedDates = append(c.ExcludedDates, day)
				}
			}
			calendars = append(calendars, c)
		}
		s := setOf(t, calendars...)
		search := s.Search(nil, nil)
		for range 20 {
			at := begin + r.Int64N(days*24*60)*minute
			next, prev := at, at-1
			for next < at+3*86_400 && !s.Allows(next) {
				next += minute
			}
			for prev > at-3*86_400 && !s.Allows(prev) {
				prev -= minute
			}
			if s.Allows(next) {
				found++
				require.Equal(t, show(next), show(search.Next(at, calendar.Never)), calendars)
			}
			if s.Allows(prev) {
				found++
				require.Equal(t, show(prev), show(search.Prev(at-1)), calendars)
			}
		}
	}
	require.Greater(t, found, 500)
}

func TestLongStretchesAreCached(t *testing.T) {
	t.Parallel()
	var dates []string
	for d := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); len(dates) < timer.MaxCalendarDates; d = d.AddDate(0, 0, 1) {
		dates = append(dates, d.Format(time.DateOnly))
	}
	at := unix(t, "2030-01-01T12:00:00Z")
	for _, first := range []string{"next", "prev"} {
		s := setOf(t, timer.Calendar{ExcludedDates: dates})
		require.Greater(t, s.Steps(at), 1000)
		if first == "next" {
			require.Equal(t, "2039-09-10T00:00:00Z", show(s.NextAllowed(at)))
		} else {
			require.Equal(t, "2025-12-31T23:59:59Z", show(s.PrevAllowed(at)))
		}
		for _, day := range []string{"2026-01-01T00:00:00Z", "2034-05-06T07:08:09Z", "2039-09-09T23:59:59Z"} {
			require.Zero(t, s.Steps(unix(t, day)), day)
			require.Equal(t, "2039-09-10T00:00:00Z", show(s.NextAllowed(unix(t, day))))
			require.Equal(t, "2025-12-31T23:59:59Z", show(s.PrevAllowed(unix(t, day))))
		}
		require.Equal(
			t,
			"2039-09-10T00:00:00Z",
			show(s.NextAllowed(unix(t, "2039-09-10T00:00:00Z"))),
		)
		require.Equal(
			t,
			"2025-12-31T23:59:59Z",
			show(s.PrevAllowed(unix(t, "2025-12-31T23:59:59Z"))),
		)
	}
	s := setOf(t, timer.Calendar{ExcludedWeekdays: week(), IncludedDates: dates})
	require.Equal(t, "2039-09-10T00:00:00Z", show(s.NextExcluded(at)))
	require.Equal(t, "2039-09-10T00:00:00Z", show(s.NextExcluded(at+1)))
	require.Equal(t, "2025-01-01T00:00:00Z", show(s.NextExcluded(unix(t, "2025-01-01T00:00:00Z"))))
}

// TestSetsMatchAModel compares sets of random calendars in several zones with a search minute by
// minute. The calendars have hardly any time in common, so that every kind of search is used.
func TestSetsMatchAModel(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	zones := []string{
		"Europe/Berlin",
		"America/New_York",
		"Australia/Lord_Howe",
		"Pacific/Apia",
		"UTC",
		"Africa/Casablanca",
	}
	begin := unix(t, "2026-01-05T00:00:00Z")
	const days = 90
	random := func() timer.Calendar {
		c := timer.Calendar{Zone: zones[r.IntN(len(zones))]}
		from := r.IntN(23)
		c.AllowedTimes = []timer.TimeRange{
			{
				From:     fmt.Sprintf("%02d:30", from),
				To:       fmt.Sprintf("%02d:00", min(24, from+1+r.IntN(8))),
				Weekdays: week()[r.IntN(3) : 3+r.IntN(4)],
			},
		}
		for range r.IntN(3) {
			c.IncludedDates = append(
				c.IncludedDates,
				time.Unix(begin+r.Int64N(days*86_400), 0).UTC().Format(time.DateOnly),
			)
			c.ExcludedDates = append(
				c.ExcludedDates,
				time.Unix(begin+r.Int64N(days*86_400), 0).UTC().Format(time.DateOnly),
			)
		}
		if r.IntN(3) == 0 {
			c.ExcludedWeekdays = week()[r.IntN(4) : 4+r.IntN(4)]
		}
		return c
	}
	for n := range 24 {
		calendars := []timer.Calendar{random(), random()}
		if n%3 == 0 {
			calendars = append(calendars, random())
		}
		fresh := func() *calendar.Set { return setOf(t, calendars...) }
		s := fresh()
		allowed := make([]bool, days*1440)
		for m := range allowed {
			allowed[m] = s.Allows(begin + int64(m)*60)
		}
		for range 300 {
			m := r.IntN(len(allowed))
			at := begin + int64(m)*60
			next, prev := m, m
			for next < len(allowed) && !allowed[next] {
				next++
			}
			for prev >= 0 && !allowed[prev] {
				prev--
			}
			if r.IntN(10) == 0 {
				s = fresh()
			}
			if got := s.NextAllowed(at); next < len(allowed) {
				require.Equal(
					t,
					show(begin+int64(next)*60),
					show(got),
					"%+v at %s",
					calendars,
					show(at),
				)
			} else {
				require.GreaterOrEqual(t, got, begin+int64(next)*60)
			}
			got := s.PrevAllowed(at)
			switch {
			case prev < 0:
				require.Less(t, got, begin)
			case prev == m:
				require.Equal(t, show(at), show(got))
			default:
				require.Equal(
					t,
					show(begin+int64(prev)*60+59),
					show(got),
					"%+v at %s",
					calendars,
					show(at),
				)
			}
		}
	}
}

// BenchmarkNothingInCommon is the cost of finding that calendars of three zones have no time in
// common up to 2199.
func BenchmarkNothingInCommon(b *testing.B) {
	s := setOf(
		b,
		hoursOf("Europe/Berlin", "09:00", "10:00"),
		hoursOf("America/New_York", "08:00", "18:00"),
		hoursOf("Australia/Lord_Howe", "09:00", "10:00"),
	)
	at := unix(b, "2026-01-01T00:00:00Z")
	b.ReportAllocs()
	for b.Loop() {
		s.Steps(at)
	}
}
