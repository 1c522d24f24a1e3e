package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestJudgeTellsWhyAnInstantIsNotDue(t *testing.T) {
	t.Parallel()
	const berlin = "Europe/Berlin"
	holidays := []timer.Calendar{{Name: "holidays", ExcludedDates: []string{"2026-12-25"}}}
	with := func(s timer.Schedule, change func(*timer.Schedule)) timer.Schedule {
		change(&s)
		return s
	}
	nine := cronOf(berlin, "0 9 * * *")
	half := cronOf(berlin, "30 2 * * *")
	workdays := []timer.Calendar{{Name: "workdays", ExcludedWeekdays: []string{"sat", "sun"}}}
	tests := []struct {
		name      string
		schedule  timer.Schedule
		calendars []timer.Calendar
		at        string
		want      schedule.Exclusion // empty: due
		moved     string
		local     string
	}{
		{"due", nine, nil, "2026-01-02T08:00:00Z", "", "", "2026-01-02T09:00:00+01:00"},
		{
			"not in schedule", nine, nil, "2026-01-02T08:00:01Z",
			schedule.NotInSchedule, "", "2026-01-02T09:00:01+01:00",
		},
		{
			"before the start", with(nine, func(s *timer.Schedule) {
				at := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
				s.StartAt = &at
			}), nil, "2026-01-02T08:00:00Z", schedule.BeforeStart, "", "2026-01-02T09:00:00+01:00",
		},
		{
			"after the end", with(nine, func(s *timer.Schedule) {
				at := time.Date(2026, 1, 2, 8, 0, 0, 0, time.UTC)
				s.EndAt = &at
			}), nil, "2026-01-02T08:00:00Z", schedule.AfterEnd, "", "2026-01-02T09:00:00+01:00",
		},
		{
			"excluded by a calendar", with(nine, func(s *timer.Schedule) {
				s.Calendars = []string{"holidays"}
			}), holidays, "2026-12-25T08:00:00Z", schedule.ByCalendar, "", "2026-12-25T09:00:00+01:00",
		},
		{
			"moved by a calendar", with(nine, func(s *timer.Schedule) {
				s.Calendars, s.Excluded = []string{"holidays"}, timer.ExcludedNext
			}), holidays, "2026-12-25T08:00:00Z",
			schedule.MovedByCalendar, "2026-12-26T08:00:00Z", "2026-12-25T09:00:00+01:00",
		},
		{
			"a gap, shifted", half, nil, "2026-03-29T01:30:00Z",
			schedule.ByGap, "2026-03-29T01:00:00Z", "2026-03-29T02:30:00+01:00",
		},
		{
			"a gap, skipped", with(half, func(s *timer.Schedule) { s.Gap = timer.GapSkip }), nil,
			"2026-03-29T01:30:00Z", schedule.ByGap, "", "2026-03-29T02:30:00+01:00",
		},
		{
			"a gap, shifted to an excluded instant", with(half, func(s *timer.Schedule) {
				s.Calendars = []string{"workdays"}
			}), workdays, "2026-03-29T01:30:00Z", schedule.ByCalendar, "", "2026-03-29T02:30:00+01:00",
		},
		{
			"a gap, shifted and moved", with(half, func(s *timer.Schedule) {
				s.Calendars, s.Excluded = []string{"workdays"}, timer.ExcludedNext
			}), workdays, "2026-03-29T01:30:00Z",
			schedule.MovedByCalendar, "2026-03-30T01:00:00Z", "2026-03-29T02:30:00+01:00",
		},
		{
			"a gap, shifted to before the start", with(half, func(s *timer.Schedule) {
				at := time.Date(2026, 3, 29, 1, 15, 0, 0, time.UTC)
				s.StartAt = &at
			}), nil, "2026-03-29T01:30:00Z", schedule.ByGap, "", "2026-03-29T02:30:00+01:00",
		},
		{
			"the second pass of an excluded day", with(half, func(s *timer.Schedule) {
				s.Calendars = []string{"workdays"}
			}), workdays, "2026-10-25T01:30:00Z", schedule.ByCalendar, "", "2026-10-25T02:30:00+01:00",
		},
		{
			"the second pass", half, nil, "2026-10-25T01:30:00Z",
			schedule.ByOverlap, "", "2026-10-25T02:30:00+01:00",
		},
		{
			"the first pass",
			with(half, func(s *timer.Schedule) { s.Overlap = timer.OverlapSecond }), nil,
			"2026-10-25T00:30:00Z", schedule.ByOverlap, "", "2026-10-25T02:30:00+02:00",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := schedule.Parse(tt.schedule, schedule.Inputs{Calendars: tt.calendars})
			require.NoError(t, err)
			v := p.Judge(ms(t, tt.at), 0)
			require.Equal(t, tt.want == "", v.Due)
			require.Equal(t, tt.want, v.Excluded)
			require.Equal(t, tt.local, v.Local)
			var moved int64
			if tt.moved != "" {
				moved = ms(t, tt.moved)
			}
			require.Equal(t, moved, v.MovedTo)
			if tt.want == schedule.ByCalendar {
				require.Regexp(
					t,
					"2026-12-25 is an excluded date|sun.* is an excluded weekday",
					v.Rule,
				)
			}
		})
	}
}

// TestJudgeAgreesWithNextAndPreview judges each second of the days around clock changes.
func TestJudgeAgreesWithNextAndPreview(t *testing.T) {
	t.Parallel()
	workdays := timer.Calendar{Name: "workdays", ExcludedWeekdays: []string{"sat", "sun"}}
	for _, spec := range []string{"*/20 * * * *", "15,45 1-3 * * *", "30 2 * * 1-5", "0 0 * * 7"} {
		for _, excluded := range []timer.ExcludedPolicy{"none", "", timer.ExcludedNext, timer.ExcludedPrevious} {
			for _, from := range []string{"2026-03-28T00:00:00Z", "2026-10-24T00:00:00Z"} {
				s, in := cronOf("Europe/Berlin", spec), schedule.Inputs{}
				s.Gap = timer.GapSkip
				if excluded != "none" {
					s.Calendars, s.Excluded = []string{workdays.Name}, excluded
					in.Calendars = []timer.Calendar{workdays}
				}
				agree(t, s, in, ms(t, from))
			}
		}
	}
}

func agree(t *testing.T, s timer.Schedule, in schedule.Inputs, from int64) {
	t.Helper()
	const days = 3 * 24 * 3600 * 1000
	p, err := schedule.Parse(s, in)
	require.NoError(t, err)
	listed, err := p.Instants(t.Context(), from, from+days, 0, schedule.MaxPreview)
	require.NoError(t, err)
	known := map[int64]bool{}
	for _, at := range listed {
		known[at] = true
	}
	before := p.Before(from, 0)
	for at := from; at < from+days; at += 60_000 {
		due := p.Next(at-1, 0) == at
		v := p.Judge(at, 0)
		require.Equal(t, due, v.Due, at)
		if !due {
			require.Equal(t, before, v.BeforeMS, "%v at %d", s, at)
			require.Equal(t, p.Next(at, 0), v.AfterMS)
		}
		require.Equal(t, v.Excluded == schedule.ExclusionNone, due)
		require.Equal(t, v.Excluded != schedule.NotInSchedule, known[at], "%v at %d: %v", s, at, v)
		if v.MovedTo != 0 {
			require.True(t, p.Judge(v.MovedTo, 0).Due)
		}
		if due {
			before = at
		}
	}
}

// TestPagesOfInstantsAreComplete checks that pages have what each instant's own verdict says, in
// whatever order due and excluded instants come.
func TestPagesOfInstantsAreComplete(t *testing.T) {
	t.Parallel()
	workdays := timer.Calendar{Name: "workdays", ExcludedWeekdays: []string{"sat", "sun"}}
	in := schedule.Inputs{Calendars: []timer.Calendar{workdays}}
	under := func(s timer.Schedule) timer.Schedule {
		s.Calendars, s.Gap = []string{workdays.Name}, timer.GapSkip
		return s
	}
	for name, c := range map[string]struct {
		s        timer.Schedule
		in       schedule.Inputs
		from, to string
	}{
		"a weekend before a workday": {
			under(cronOf("", "* * * * *")), in, "2026-11-28T00:00:00Z", "2026-12-01T00:00:00Z",
		},
		"a weekend alone": {
			under(cronOf("", "* * * * *")), in, "2026-11-28T00:00:00Z", "2026-11-30T00:00:00Z",
		},
		"a gap, and an excluded instant at the same time": {
			under(cronOf("Europe/Berlin", "*/2 2 * * *", "*/3 3 * * *")), in,
			"2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z",
		},
		"from within a gap": {
			under(cronOf("Europe/Berlin", "* 2,5 * * *")), in,
			"2026-03-29T01:20:00Z", "2026-03-30T00:00:00Z",
		},
		"up to within a gap": {
			under(cronOf("Europe/Berlin", "* 2,5 * * *")), in,
			"2026-03-29T00:00:00Z", "2026-03-29T01:20:00Z",
		},
		"from within an overlap": {
			cronOf("Europe/Berlin", "* 2,5 * * *"),
			schedule.Inputs{},
			"2026-10-25T01:20:00Z", "2026-10-26T00:00:00Z",
		},
	} {
		p, err := schedule.Parse(c.s, c.in)
		require.NoError(t, err, name)
		from, to := ms(t, c.from), ms(t, c.to)
		var want []int64
		for at := from; at < to; at += time.Minute.Milliseconds() {
			if p.Judge(at, 0).Excluded != schedule.NotInSchedule {
				want = append(want, at)
			}
		}
		require.NotEmpty(t, want, name)
		for _, limit := range []int{7, 100, 999, 1000, 1001, 5000} {
			var got []int64
			for begin, more := from, true; more; {
				page, err := p.Instants(t.Context(), begin, to, 0, limit+1)
				require.NoError(t, err, name)
				if more = len(page) > limit; more {
					begin, page = page[limit], page[:limit]
				}
				got = append(got, page...)
			}
			require.Equal(t, want, got, "%s, limit %d", name, limit)
		}
	}
}
