package expansion_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestAmongLatest(t *testing.T) {
	t.Parallel()
	end := time.UnixMilli(minute(61)).UTC()
	anchor := time.UnixMilli(base + 7).UTC()
	minutes := func(change func(*timer.Schedule)) timer.Schedule {
		s := timer.Schedule{Kind: timer.KindCron, Specs: []string{"* * * * *"}}
		if change != nil {
			change(&s)
		}
		return s
	}
	for name, c := range map[string]struct {
		schedule timer.Schedule
		n        int
		runs     int // of sixty late fires
	}{
		"one":                     {schedule: minutes(nil), n: 1, runs: 1},
		"five":                    {schedule: minutes(nil), n: 5, runs: 5},
		"as many as there are":    {schedule: minutes(nil), n: 60, runs: 60},
		"more than there are":     {schedule: minutes(nil), n: 1000, runs: 60},
		"with max_fires all run":  {schedule: minutes(func(s *timer.Schedule) { s.MaxFires = 100 }), n: 5, runs: 60},
		"an interval":             {schedule: timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(time.Minute)}, n: 5, runs: 5},
		"an interval's phase":     {schedule: timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(time.Minute), Phase: timer.Duration(9 * time.Second)}, n: 5, runs: 5},
		"an interval's anchor":    {schedule: timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(time.Minute), Anchor: &anchor}, n: 5, runs: 5},
		"@every":                  {schedule: minutes(func(s *timer.Schedule) { s.Specs = []string{"@every 1m"} }), n: 5, runs: 5},
		"a fixed delay":           {schedule: timer.Schedule{Kind: timer.KindFixedDelay, Every: timer.Duration(time.Minute)}, n: 1, runs: 60},
		"ordered by planned time": {schedule: minutes(func(s *timer.Schedule) { s.Jitter, s.EndAt = timer.Duration(5*time.Minute), &end }), n: 5, runs: 5},
	} {
		for order, from := range map[string]func(i int) int{"from the first": func(i int) int { return i }, "from the last": func(i int) int { return 59 - i }} {
			t.Run(name+", "+order, func(t *testing.T) {
				t.Parallel()
				p := planner(t, expansion.Options{})
				d := timer.Definition{Schedule: c.schedule}
				first := base + 60_000
				switch {
				case c.schedule.Anchor != nil:
					first = anchor.UnixMilli()
				case c.schedule.Phase != 0:
					first = base + 9000
				}
				runs := 0
				last := first + 59*timer.MinuteMS
				for i := range 60 {
					f := timer.Fire{
						FireID: timer.FireID{
							Timer: 77,
							DueMS: first + int64(from(i))*timer.MinuteMS,
						},
						Version: 1,
					}
					until := last + 1 + int64(i) // the clock advances meanwhile
					if c.schedule.Jitter > 0 {
						until += time.Duration(c.schedule.Jitter).Milliseconds()
					}
					run, err := p.AmongLatest(&f, &d, nil, backlog(until), c.n)
					require.NoError(t, err)
					if run {
						runs++
						require.True(
							t,
							c.runs == 60 || f.DueMS > last-int64(c.n)*timer.MinuteMS,
							"the latest",
						)
					}
				}
				require.Equal(t, c.runs, runs)
			})
		}
	}
}

// TestLatestAreCountedOverTheBacklog checks that working slowly through a backlog leaves out no
// more of it, and that fires that become late meanwhile are counted anew.
func TestLatestAreCountedOverTheBacklog(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{})
	d := timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{"* * * * *"}},
	}
	ask := func(n, until int64) bool {
		t.Helper()
		run, err := p.AmongLatest(
			&timer.Fire{FireID: timer.FireID{Timer: 77, DueMS: minute(n)}, Version: 1},
			&d,
			nil,
			backlog(minute(until)),
			3,
		)
		require.NoError(t, err)
		return run
	}
	require.False(t, ask(10, 31))
	require.True(t, ask(28, 40))
	require.False(t, ask(27, 40))
	require.True(t, ask(35, 36))
	require.True(t, ask(33, 36))
	require.False(t, ask(32, 36))
}

// backlog is that of an outage until an instant.
func backlog(untilMS int64) *expansion.Backlog {
	return &expansion.Backlog{UntilMS: untilMS, DueBeforeMS: timer.NeverMS, AnchorMS: base}
}

// TestLatestAfterAPause checks that fires which were called before a pause began do not count among
// those that are late after it, nor do those that were due in a pause or belong to a later version.
func TestLatestAfterAPause(t *testing.T) {
	t.Parallel()
	const (
		second = int64(1000)
		since  = base + 100*second
		until  = base + 200*second
		jitter = 20 * second
	)
	d := timer.Definition{Schedule: timer.Schedule{
		Kind: timer.KindCron, Specs: []string{"* * * * * *"},
		Jitter: timer.Duration(time.Duration(jitter) * time.Millisecond),
	}}
	b := expansion.Backlog{
		Inactive: []timer.Inactivity{
			{FromMS: since - 8*second, UntilMS: since - 5*second, Status: timer.StatusPaused},
			{FromMS: since, UntilMS: until, Status: timer.StatusPaused},
		},
		SinceMS: since, UntilMS: until, DueBeforeMS: since - 2*second,
	}
	for id := range timer.ID(20) {
		p := planner(t, expansion.Options{})
		var late, run []int64
		for due := since - jitter; due < b.DueBeforeMS; due += second {
			planned := due + schedule.Jitter(id, due, d.Schedule.Jitter)
			if planned < since || b.Inactive[0].Covers(due) {
				continue
			}
			late = append(late, due)
			f := timer.Fire{FireID: timer.FireID{Timer: id, DueMS: due}, Version: 1}
			is, err := p.AmongLatest(&f, &d, nil, &b, 3)
			require.NoError(t, err)
			if is {
				run = append(run, due)
			}
			tm := &timer.Timer{ID: id, Version: 1, Definition: d}
			before, err := p.Before(tm, due, base, b.SinceMS, b.UntilMS, 1000)
			require.NoError(t, err)
			require.Subset(t, before, late[:len(late)-1], "what it waits for")
		}
		require.Equal(t, late[max(0, len(late)-3):], run, "timer %d", id)
	}
}

// TestLatestOfTheNextBacklog checks that a pause after an outage is counted anew, although jitter makes
// fires late that were due before the end of the outage.
func TestLatestOfTheNextBacklog(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{})
	d := timer.Definition{Schedule: timer.Schedule{
		Kind:   timer.KindCron,
		Specs:  []string{"* * * * *"},
		Jitter: timer.Duration(30 * time.Minute),
	}}
	var late []int64
	for n := range int64(60) {
		due := minute(n)
		planned := due + schedule.Jitter(77, due, d.Schedule.Jitter)
		if minute(60) <= planned && planned < minute(70) {
			late = append(late, due)
		}
	}
	require.Greater(t, len(late), 5)
	ask := func(due int64, b *expansion.Backlog) bool {
		t.Helper()
		f := timer.Fire{FireID: timer.FireID{Timer: 77, DueMS: due}, Version: 1}
		run, err := p.AmongLatest(&f, &d, nil, b, 2)
		require.NoError(t, err)
		return run
	}
	ask(minute(20), backlog(minute(59)))
	pause := backlog(minute(70))
	pause.SinceMS = minute(60)
	pause.Inactive = []timer.Inactivity{
		{FromMS: minute(60), UntilMS: minute(70), Status: timer.StatusPaused},
	}
	for i, due := range late {
		require.Equal(t, i >= len(late)-2, ask(due, pause), "%d of %d", i, len(late))
	}
}

// BenchmarkAmongLatest checks one hour of fires of an every-second timer, the last first.
func BenchmarkAmongLatest(b *testing.B) {
	p, err := expansion.New(expansion.Options{Counts: slicing.NewCounts(1000)})
	require.NoError(b, err)
	d := timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{"* * * * * *"}},
	}
	for n := int32(1); b.Loop(); n++ {
		for i := range int64(3600) {
			f := timer.Fire{
				FireID:  timer.FireID{Timer: 77, DueMS: base + (3600-i)*1000},
				Version: n,
			}
			if run, err := p.AmongLatest(
				&f,
				&d,
				nil,
				backlog(base+3_601_000),
				2000,
			); err != nil ||
				run != (i < 2000) {
				b.Fatal(i, run, err)
			}
		}
	}
}
