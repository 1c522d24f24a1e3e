package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// under returns a schedule under calendars, and the matching inputs.
func under(
	s timer.Schedule,
	policy timer.ExcludedPolicy,
	calendars ...timer.Calendar,
) (timer.Schedule, schedule.Inputs) {
	s.Excluded = policy
	for _, c := range calendars {
		s.Calendars = append(s.Calendars, c.Name)
	}
	return s, schedule.Inputs{Calendars: calendars}
}

func weekdays() timer.Calendar {
	return timer.Calendar{
		Name:             "weekdays",
		ExcludedWeekdays: []string{"sat", "sun"},
		ExcludedDates:    []string{"2026-05-01", "2026-12-25"},
		IncludedDates:    []string{"2026-05-09"},
	}
}

func hours() timer.Calendar {
	return timer.Calendar{
		Name:         "hours",
		AllowedTimes: []timer.TimeRange{{From: "09:00", To: "12:00"}, {From: "13:00", To: "17:00"}},
	}
}

func TestExcludedInstants(t *testing.T) {
	t.Parallel()
	const berlin = "Europe/Berlin"
	every := func(d time.Duration) timer.Schedule {
		anchor := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		return timer.Schedule{
			Kind:   timer.KindInterval,
			Every:  timer.Duration(d),
			Anchor: &anchor,
			Zone:   berlin,
		}
	}
	tests := []struct {
		name      string
		s         timer.Schedule
		policy    timer.ExcludedPolicy
		calendars []timer.Calendar
		after     string
		want      string
	}{
		{
			"a weekend is skipped",
			cronOf(berlin, "0 8 * * *"),
			"",
			[]timer.Calendar{weekdays()},
			"2026-04-30T12:00:00Z",
			"2026-05-04T06:00:00Z 2026-05-05T06:00:00Z",
		},
		{
			"a make-up Saturday is not",
			cronOf(berlin, "0 8 * * 6"),
			"skip",
			[]timer.Calendar{weekdays()},
			"2026-04-30T12:00:00Z",
			"2026-05-09T06:00:00Z",
		},
		{
			"a holiday moves to its time of the next workday",
			cronOf(berlin, "0 8 * * 5"),
			"next_allowed",
			[]timer.Calendar{weekdays()},
			"2026-04-30T12:00:00Z",
			"2026-05-04T06:00:00Z 2026-05-08T06:00:00Z",
		},
		{
			"a holiday moves to its time of the workday before",
			cronOf(berlin, "0 8 1 5 *"),
			"previous_allowed",
			[]timer.Calendar{weekdays()},
			"2026-04-01T12:00:00Z",
			"2026-04-30T06:00:00Z 2027-04-30T06:00:00Z",
		},
		{
			"what moves onto another is one with it",
			cronOf(berlin, "0 8 * * *"),
			"next_allowed",
			[]timer.Calendar{weekdays()},
			"2026-04-30T12:00:00Z",
			"2026-05-04T06:00:00Z 2026-05-05T06:00:00Z",
		},
		{
			"what moves back onto another is one with it",
			cronOf(berlin, "0 8 * * *"),
			"previous_allowed",
			[]timer.Calendar{weekdays()},
			"2026-04-29T12:00:00Z",
			"2026-04-30T06:00:00Z 2026-05-04T06:00:00Z",
		},
		{
			"Saturday and Sunday move to Monday",
			cronOf(berlin, "0 8 * * 6", "0 7 * * 0", "0 9 * * 1"),
			"next_allowed",
			[]timer.Calendar{weekdays()},
			"2026-05-15T12:00:00Z",
			"2026-05-18T05:00:00Z 2026-05-18T06:00:00Z 2026-05-18T07:00:00Z 2026-05-25T05:00:00Z",
		},
		{
			"Saturday and Sunday move to Friday",
			cronOf(berlin, "0 8 * * 6", "0 7 * * 0", "0 9 * * 5"),
			"previous_allowed",
			[]timer.Calendar{weekdays()},
			"2026-05-14T12:00:00Z",
			"2026-05-15T05:00:00Z 2026-05-15T06:00:00Z 2026-05-15T07:00:00Z 2026-05-22T05:00:00Z",
		},
		{
			"before opening moves to opening",
			cronOf(berlin, "30 8 * * *"),
			"next_allowed",
			[]timer.Calendar{hours()},
			"2026-05-14T00:00:00Z",
			"2026-05-14T07:00:00Z 2026-05-15T07:00:00Z",
		},
		{
			"at lunch moves behind lunch",
			cronOf(berlin, "15,45 12 * * *"),
			"next_allowed",
			[]timer.Calendar{hours()},
			"2026-05-14T00:00:00Z",
			"2026-05-14T11:00:00Z 2026-05-15T11:00:00Z",
		},
		{
			"at lunch moves to the last second before",
			cronOf(berlin, "15,45 12 * * *"),
			"previous_allowed",
			[]timer.Calendar{hours()},
			"2026-05-14T00:00:00Z",
			"2026-05-14T09:59:59Z 2026-05-15T09:59:59Z",
		},
		{
			"after closing moves to the next day's opening",
			cronOf(berlin, "0 20 * * *"),
			"next_allowed",
			[]timer.Calendar{hours()},
			"2026-05-14T00:00:00Z",
			"2026-05-14T07:00:00Z 2026-05-15T07:00:00Z",
		},
		{
			"all calendars must allow",
			cronOf(berlin, "0 8,10 * * *"),
			"",
			[]timer.Calendar{weekdays(), hours()},
			"2026-05-15T00:00:00Z",
			"2026-05-15T08:00:00Z 2026-05-18T08:00:00Z",
		},
		{
			"a weekend within hours keeps its time",
			cronOf(berlin, "0 10 * * 6"),
			"next_allowed",
			[]timer.Calendar{weekdays(), hours()},
			"2026-05-15T00:00:00Z",
			"2026-05-18T08:00:00Z",
		},
		{
			"a weekend out of hours does not",
			cronOf(berlin, "0 20 * * 6"),
			"next_allowed",
			[]timer.Calendar{weekdays(), hours()},
			"2026-05-15T00:00:00Z",
			"2026-05-18T07:00:00Z",
		},
		{
			"a weekend out of hours goes back to closing",
			cronOf(berlin, "0 20 * * 6"),
			"previous_allowed",
			[]timer.Calendar{weekdays(), hours()},
			"2026-05-15T00:00:00Z",
			"2026-05-15T14:59:59Z",
		},
		{
			"an interval",
			every(36 * time.Hour),
			"next_allowed",
			[]timer.Calendar{weekdays()},
			"2026-05-13T00:00:00Z",
			"2026-05-13T00:00:00Z 2026-05-14T12:00:00Z 2026-05-18T00:00:00Z 2026-05-18T12:00:00Z 2026-05-19T00:00:00Z",
		},
		{
			"time of day of an interval is the zone's",
			every(24 * time.Hour),
			"next_allowed",
			[]timer.Calendar{hours()},
			"2026-10-24T00:00:00Z",
			"2026-10-24T07:00:00Z 2026-10-25T08:00:00Z",
		},
		{
			"kept time in a gap is when it ends",
			cronOf(berlin, "30 2 * * 6"),
			"next_allowed",
			[]timer.Calendar{{Name: "no saturdays", ExcludedWeekdays: []string{"sat"}}},
			"2026-03-27T00:00:00Z",
			"2026-03-29T01:00:00Z 2026-04-05T00:30:00Z",
		},
		{
			"never within hours",
			cronOf(berlin, "30 12 * * *"),
			"",
			[]timer.Calendar{hours()},
			"2026-03-27T00:00:00Z",
			"",
		},
		{
			"never within hours, but another spec is",
			cronOf(berlin, "30 12 * * *", "30 11 * * *"),
			"",
			[]timer.Calendar{hours()},
			"2026-03-27T00:00:00Z",
			"2026-03-27T10:30:00Z 2026-03-28T10:30:00Z",
		},
		{
			"never on such a weekday",
			cronOf(berlin, "30 12 * * sat,sun#2,sunL"),
			"",
			[]timer.Calendar{{Name: "week", ExcludedWeekdays: []string{"sat", "sun"}}},
			"2026-03-27T00:00:00Z",
			"",
		},
		{
			"never on such a weekday but one",
			cronOf(berlin, "30 12 * * sat"),
			"",
			[]timer.Calendar{weekdays()},
			"2026-03-27T00:00:00Z",
			"2026-05-09T10:30:00Z",
		},
		{
			"never within hours but when a gap ends",
			cronOf(berlin, "30 2 * * *"),
			"",
			[]timer.Calendar{
				{Name: "at three", AllowedTimes: []timer.TimeRange{{From: "03:00", To: "03:01"}}},
			},
			"2026-01-01T00:00:00Z",
			"2026-03-29T01:00:00Z 2027-03-28T01:00:00Z",
		},
		{
			"never within hours of another zone",
			cronOf(berlin, "30 12 * * *"),
			"",
			[]timer.Calendar{
				{Name: "tokyo", Zone: "Asia/Tokyo", AllowedTimes: hours().AllowedTimes},
			},
			"2026-03-27T00:00:00Z",
			"",
		},
		{
			"nothing is ever allowed",
			cronOf(berlin, "0 8 * * *"),
			"next_allowed",
			[]timer.Calendar{
				{Name: "no", ExcludedWeekdays: strings.Fields("mon tue wed thu fri sat sun")},
			},
			"2026-03-27T00:00:00Z",
			"",
		},
		{
			"nothing is ever allowed, backwards",
			cronOf(berlin, "0 8 * * *"),
			"previous_allowed",
			[]timer.Calendar{
				{Name: "no", ExcludedWeekdays: strings.Fields("mon tue wed thu fri sat sun")},
			},
			"2026-03-27T00:00:00Z",
			"",
		},
		{
			"three days are allowed",
			cronOf(berlin, "0 8 * * *"),
			"skip",
			[]timer.Calendar{
				{
					Name:             "three",
					ExcludedWeekdays: strings.Fields("mon tue wed thu fri sat sun"),
					IncludedDates:    []string{"2030-01-01", "2026-06-01", "2040-01-01"},
				},
			},
			"2026-03-27T00:00:00Z",
			"2026-06-01T06:00:00Z 2030-01-01T07:00:00Z 2040-01-01T07:00:00Z",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, in := under(tt.s, tt.policy, tt.calendars...)
			require.NoError(t, schedule.Check(&s))
			p, err := schedule.Parse(s, in)
			require.NoError(t, err)
			want := strings.Fields(tt.want)
			at := ms(t, tt.after) - 1
			var got []string
			for range max(len(want), 1) {
				if at = p.Next(at, 0); at == timer.NeverMS {
					break
				}
				got = append(got, time.UnixMilli(at).UTC().Format(time.RFC3339))
			}
			require.Equal(t, strings.Join(want, " "), strings.Join(got, " "))
		})
	}
}

// TestTimesOfOtherZones compares with all candidates of some years: times that are reported as
// never allowed must not be allowed. Clock changes can bring times together that are apart for most
// of the year.
func TestTimesOfOtherZones(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	zones := []string{
		"Europe/Berlin",
		"America/New_York",
		"Australia/Lord_Howe",
		"Asia/Kathmandu",
		"Africa/Casablanca",
	}
	from, to := ms(t, "2026-01-01T00:00:00Z"), ms(t, "2028-01-01T00:00:00Z")
	never := 0
	for range 200 {
		calendars := make([]timer.Calendar, 1+r.IntN(2))
		for i := range calendars {
			hour := r.IntN(20)
			calendars[i] = timer.Calendar{
				Name: fmt.Sprint(i),
				Zone: zones[r.IntN(len(zones))],
				AllowedTimes: []timer.TimeRange{
					{
						From:     fmt.Sprintf("%02d:15", hour),
						To:       fmt.Sprintf("%02d:45", hour+r.IntN(4)),
						Weekdays: []string{"mon", "tue", "sat"}[:1+r.IntN(3)],
					},
				},
			}
		}
		s, in := under(
			cronOf(
				zones[r.IntN(len(zones))],
				fmt.Sprintf("%d %d * * %d-6", 15*r.IntN(4), r.IntN(24), r.IntN(6)),
			),
			"",
			calendars...)
		p, err := schedule.Parse(s, in)
		require.NoError(t, err)
		bare := s
		bare.Calendars, bare.Excluded = nil, ""
		candidates, err := schedule.Parse(bare, schedule.Inputs{})
		require.NoError(t, err)
		var rules []*calendar.Rules
		for i := range calendars {
			one, err := calendar.New(&calendars[i], nil)
			require.NoError(t, err)
			rules = append(rules, one)
		}
		var want []int64
		for at := candidates.Next(from, 0); at <= to; at = candidates.Next(at, 0) {
			if !slices.ContainsFunc(
				rules,
				func(r *calendar.Rules) bool { return !r.Allows(at / 1000) },
			) {
				want = append(want, at)
			}
		}
		require.Equal(
			t,
			want,
			between(p, from, to),
			"%v of %s under %+v",
			s.Specs,
			s.Zone,
			calendars,
		)
		if p.Next(from, 0) == timer.NeverMS {
			never++
		}
	}
	require.Greater(t, never, 20)
}

// moves is a model of the policies. It searches minute by minute from each candidate and sorts the
// results.
func moves(
	t *testing.T,
	s timer.Schedule,
	in schedule.Inputs,
	loc *time.Location,
	from, to int64,
) []int64 {
	t.Helper()
	bare := s
	bare.Calendars, bare.Excluded = nil, ""
	candidates, err := schedule.Parse(bare, schedule.Inputs{})
	require.NoError(t, err)
	var set []*calendar.Rules
	for i := range in.Calendars {
		c := in.Calendars[i]
		c.Zone = loc.String()
		r, err := calendar.New(&c, nil)
		require.NoError(t, err)
		set = append(set, r)
	}
	allows := func(sec int64) bool {
		return !slices.ContainsFunc(set, func(r *calendar.Rules) bool { return !r.Allows(sec) })
	}
	step := int64(60)
	if s.Excluded == timer.ExcludedPrevious {
		step = -1
	}
	const pad = 12 * 86_400
	due := map[int64]bool{}
	for at := candidates.Next((from-pad)*1000, 0); at < (to+pad)*1000; at = candidates.Next(at, 0) {
		c := at / 1000
		if allows(c) {
			due[c] = true
			continue
		}
		if s.Excluded == timer.ExcludedSkip {
			continue
		}
		near := c
		for !allows(near) {
			near += step
			if step == -1 && near%60 != 59 {
				near -= (near + 1) % 60 // to the last second of the previous minute
			}
		}
		here, there := time.Unix(c, 0).In(loc), time.Unix(near, 0).In(loc)
		kept := time.Date(there.Year(), there.Month(), there.Day(), here.Hour(), here.Minute(), here.Second(), 0, loc).
			Unix()
		if here.YearDay() == there.YearDay() || !allows(kept) {
			kept = near
		}
		due[kept] = true
	}
	var out []int64
	for d := range due {
		if d > from && d <= to {
			out = append(out, d*1000)
		}
	}
	slices.Sort(out)
	return out
}

// TestExcludedInstantsMatchAModel also asks in steps of random width: the due instants do not
// depend on the start of a search.
func TestExcludedInstantsMatchAModel(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	all := []timer.Calendar{
		weekdays(),
		hours(),
		{
			Name: "nights",
			AllowedTimes: []timer.TimeRange{
				{From: "22:00", To: "24:00"},
				{From: "00:00", To: "04:00", Weekdays: []string{"mon", "thu", "sat"}},
			},
		},
		{
			Name: "bridge",
			ExcludedDates: []string{
				"2026-05-11",
				"2026-05-12",
				"2026-05-13",
				"2026-05-14",
				"2026-05-15",
			},
		},
	}
	loc, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	from := time.Date(2026, 4, 28, 10, 30, 0, 0, time.UTC).Unix()
	to := from + 25*86_400
	for n := range 120 {
		spec := fmt.Sprintf(
			"%d %d,%d * * %d-%d",
			r.IntN(60),
			r.IntN(24),
			r.IntN(24),
			r.IntN(4),
			4+r.IntN(4),
		)
		policy := []timer.ExcludedPolicy{timer.ExcludedSkip, timer.ExcludedNext, timer.ExcludedPrevious}[n%3]
		first, second := r.IntN(len(all)), r.IntN(len(all))
		calendars := []timer.Calendar{all[first]}
		if second != first && first+second != 3 { // hours and nights have no common time
			calendars = append(calendars, all[second])
		}
		s, in := under(cronOf("Europe/Berlin", spec, "0 */7 1-20 * ?"), policy, calendars...)
		p, err := schedule.Parse(s, in)
		require.NoError(t, err)
		want := moves(t, s, in, loc, from, to)
		require.Equal(
			t,
			want,
			between(p, from*1000, to*1000),
			"%q under %s of %s and %d more",
			spec,
			policy,
			calendars[0].Name,
			len(calendars)-1,
		)
		var steps []int64
		for at := from * 1000; at < to*1000; {
			end := min(at+r.Int64N(3*86_400_000), to*1000)
			steps = append(steps, between(p, at, end)...)
			at = end
		}
		require.Equal(t, want, steps, "asked in steps")
	}
}

// between returns the due instants in (after, until].
func between(p *schedule.Parsed, after, until int64) []int64 {
	var out []int64
	for at := p.Next(after, 0); at <= until; at = p.Next(at, 0) {
		out = append(out, at)
	}
	return out
}

// TestOnlyTheEndOfAGapIsAllowed finds the one instant of a year that a calendar allows.
func TestOnlyTheEndOfAGapIsAllowed(t *testing.T) {
	t.Parallel()
	s, in := under(cronOf("Europe/Berlin", "30 2 * * *"), timer.ExcludedSkip, timer.Calendar{
		Name: "three", AllowedTimes: []timer.TimeRange{{From: "03:00", To: "04:00"}},
	})
	p, err := schedule.Parse(s, in)
	require.NoError(t, err)
	require.Equal(
		t,
		[]int64{ms(t, "2027-03-28T01:00:00Z"), ms(t, "2028-03-26T01:00:00Z")},
		between(p, ms(t, "2026-04-01T00:00:00Z"), ms(t, "2028-12-31T00:00:00Z")),
	)
}

func TestOnlySoManyInstantsOfAStretchMove(t *testing.T) {
	t.Parallel()
	s, in := under(cronOf("", "* * * * * *"), "next_allowed", weekdays())
	s.StartAt, s.EndAt = new(
		time.Date(2026, 5, 16, 0, 0, 0, 0, time.UTC),
	), new(
		time.Date(2026, 5, 18, 1, 0, 0, 0, time.UTC),
	)
	p, err := schedule.Parse(s, in)
	require.NoError(t, err)
	require.Len(
		t,
		between(p, 0, ms(t, "2027-01-01T00:00:00Z")),
		3600,
		"Monday's own seconds, and no others",
	)
	s, in = under(cronOf("", "* 1 * * 6"), "next_allowed", weekdays())
	p, err = schedule.Parse(s, in)
	require.NoError(t, err)
	require.Len(t, between(p, ms(t, "2026-05-15T00:00:00Z"), ms(t, "2026-05-20T00:00:00Z")), 60)
}
