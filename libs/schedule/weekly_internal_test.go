package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
)

var weeklyZones = []string{
	"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC",
	"Africa/Casablanca", "Asia/Tokyo", "America/Santiago",
}

// TestSearchByWeeksMatchesSingleSteps compares the search by weeks with one that looks at every
// instant, for random schedules and calendars with hardly any time in common.
func TestSearchByWeeksMatchesSingleSteps(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(21, 22))
	day := func() string {
		return time.Date(2026, 1, 1+r.IntN(600), 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	}
	anchor := time.Date(2026, 1, 1, 0, 0, r.IntN(3600), 0, time.UTC).UnixMilli()
	until := time.Date(2027, 9, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	found := 0
	for range 150 {
		s := timer.Schedule{Zone: weeklyZones[r.IntN(len(weeklyZones))]}
		if r.IntN(3) == 0 {
			s.Kind = timer.KindInterval
			s.Every = timer.Duration(time.Duration(1+r.IntN(40)) * 7 * time.Minute)
		} else {
			s.Kind = timer.KindCron
			s.Specs = []string{
				fmt.Sprintf(
					"%d %d-%d %s * %s",
					r.IntN(60),
					r.IntN(3),
					1+r.IntN(4),
					[]string{"*", "1-20", "L"}[r.IntN(3)],
					[]string{"*", "sun", "6-1", "fri#2"}[r.IntN(4)],
				),
			}
			s.Gap = []timer.GapPolicy{timer.GapShift, timer.GapSkip}[r.IntN(2)]
			s.Overlap = []timer.OverlapPolicy{timer.OverlapFirst, timer.OverlapSecond, timer.OverlapBoth}[r.IntN(3)]
		}
		var in Inputs
		for range 1 + r.IntN(3) {
			from := r.IntN(1380)
			c := timer.Calendar{
				Name: fmt.Sprint(len(in.Calendars)), Zone: weeklyZones[r.IntN(len(weeklyZones))],
				AllowedTimes: []timer.TimeRange{
					{From: clockTime(from), To: clockTime(min(1440, from+1+r.IntN(600)))},
					{From: "00:30", To: "03:30", Weekdays: []string{"sun", "fri"}[r.IntN(2):]},
				},
			}
			for range r.IntN(3) * 20 {
				c.ExcludedDates = append(c.ExcludedDates, day())
				c.IncludedDates = append(c.IncludedDates, day())
			}
			s.Calendars = append(s.Calendars, c.Name)
			in.Calendars = append(in.Calendars, c)
		}
		p, err := Parse(s, in)
		require.NoError(t, err)
		for at := anchor; at < until; {
			want := at
			for {
				want = p.candidate(want, anchor)
				if want >= until || p.calendars.Allows(floorDiv(want, 1000)) {
					break
				}
			}
			got := p.nextOf(p.parts, at, until, anchor)
			if want >= until {
				require.Equal(t, timer.NeverMS, got, "%+v %+v after %s", s, in, textMS(at))
				break
			}
			require.Equal(t, textMS(want), textMS(got), "%+v %+v after %s", s, in, textMS(at))
			found++
			at = want + r.Int64N(20)*86_400_000
		}
	}
	require.Greater(t, found, 1000)
}

func clockTime(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }

// TestNeverDueIsFoundAtOnce searches schedules whose instants are all in the gaps between the
// ranges of eight calendars: 384 gaps on each of 63,000 days.
func TestNeverDueIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func(second int) string {
		return fmt.Sprintf("%02d:%02d:%02d", second/3600, second/60%60, second%60)
	}
	for _, tt := range []struct {
		name string
		s    timer.Schedule
	}{
		{"interval", timer.Schedule{
			Kind: timer.KindInterval, Every: timer.Duration(225 * time.Second), Anchor: &midnight,
		}},
		{"fixed delay", timer.Schedule{
			Kind: timer.KindFixedDelay, Every: timer.Duration(225 * time.Second),
		}},
		{"cron", timer.Schedule{
			Kind: timer.KindCron, Zone: "Europe/Berlin",
			Specs: []string{"45 3,18,33,48 0-23 * * *", "0 0,15,30,45 * * * *"},
		}},
	} {
		for _, dates := range [][]string{nil, {"2050-01-01"}} {
			t.Run(fmt.Sprint(tt.name, len(dates)), func(t *testing.T) {
				t.Parallel()
				s, in := tt.s, Inputs{}
				for i, zone := range weeklyZones {
					c := timer.Calendar{Name: zone, Zone: zone, IncludedDates: dates}
					for from := i * 225; from < 86_400; from += 1800 {
						c.AllowedTimes = append(c.AllowedTimes, timer.TimeRange{
							From: clock(from + 2), To: clock(min(from+1800, 86_400)),
						})
					}
					s.Calendars = append(s.Calendars, zone)
					in.Calendars = append(in.Calendars, c)
				}
				p, err := Parse(s, in)
				require.NoError(t, err)
				require.Equal(t, timer.NeverMS, p.Next(midnight.UnixMilli(), midnight.UnixMilli()))
				if s.Kind == timer.KindFixedDelay { // it searches as an interval does
					return
				}
				steps := 0
				for _, part := range p.parts {
					search := p.calendars.Search(p.zone, weeklyTimes(part, midnight.UnixMilli()))
					for at := midnight.Unix(); at != calendar.Never; steps++ {
						at = search.Next(at+1, calendar.Never)
					}
				}
				require.Less(t, steps, 1000, "no more than the clock changes")
			})
		}
	}
}
