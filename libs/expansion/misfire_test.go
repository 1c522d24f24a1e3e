package expansion_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// minute returns the instant n minutes after base.
func minute(n int64) int64 { return base + n*timer.MinuteMS }

// run plans until now is reached, and returns all fires and skips.
func run(
	t *testing.T,
	p *expansion.Planner,
	tm *timer.Timer,
	now int64,
) (fires []int64, skips []timer.Outcome) {
	t.Helper()
	for range 100 {
		next := tm.NextDueMS
		plan := p.Plan(tm, now)
		require.NoError(t, plan.Err)
		require.GreaterOrEqual(t, plan.NextDueMS, next)
		apply(tm, plan)
		fires, skips = append(fires, dues(plan.Fires)...), append(skips, plan.Skips...)
		if plan.ExpandAtMS > now {
			return fires, skips
		}
	}
	t.Fatal("planning does not end")
	return nil, nil
}

func TestMissedInstants(t *testing.T) {
	t.Parallel()
	type planBuilder struct{ from, until, count int64 }
	tests := map[string]struct {
		misfire timer.Misfire
		max     int64
		window  time.Duration
		fires   []int64 // minutes of the fires up to now
		skips   []planBuilder
	}{
		"the default: once": {fires: []int64{29, 30}, skips: []planBuilder{{1, 28, 28}}},
		"once": {
			misfire: timer.Misfire{Policy: timer.MisfireFireOnce},
			fires:   []int64{29, 30},
			skips:   []planBuilder{{1, 28, 28}},
		},
		"none": {
			misfire: timer.Misfire{Policy: timer.MisfireSkip},
			fires:   []int64{30},
			skips:   []planBuilder{{1, 29, 29}},
		},
		"the latest three": {
			misfire: timer.Misfire{
				Policy:   timer.MisfireFireAll,
				MaxFires: 3,
			},
			fires: []int64{27, 28, 29, 30},
			skips: []planBuilder{{1, 26, 26}},
		},
		"all within the window": {
			misfire: timer.Misfire{
				Policy:        timer.MisfireFireAll,
				CatchUpWindow: timer.Duration(5*time.Minute + 30*time.Second),
			},
			fires: []int64{25, 26, 27, 28, 29, 30},
			skips: []planBuilder{{1, 24, 24}},
		},
		"a window shorter than the step": {
			misfire: timer.Misfire{
				Policy:        timer.MisfireFireOnce,
				CatchUpWindow: timer.Duration(90 * time.Second),
			},
			fires: []int64{29, 30},
			skips: []planBuilder{{1, 28, 28}},
		},
		"a window within the grace": {
			misfire: timer.Misfire{
				Policy:        timer.MisfireFireAll,
				Grace:         timer.Duration(10*time.Minute + time.Second),
				CatchUpWindow: timer.Duration(2*time.Minute + 30*time.Second),
			},
			fires: []int64{28, 29, 30}, skips: []planBuilder{{1, 27, 27}},
		},
		"a window alone": {
			misfire: timer.Misfire{
				CatchUpWindow: timer.Duration(5 * time.Second),
			},
			fires: []int64{30},
			skips: []planBuilder{{1, 29, 29}},
		},
		"a longer grace": {
			misfire: timer.Misfire{
				Policy: timer.MisfireSkip,
				Grace:  timer.Duration(10*time.Minute + time.Second),
			},
			fires: []int64{
				20,
				21,
				22,
				23,
				24,
				25,
				26,
				27,
				28,
				29,
				30,
			},
			skips: []planBuilder{{1, 19, 19}},
		},
		"max_fires counts calls": {max: 2, fires: []int64{29}, skips: []planBuilder{{1, 28, 28}}},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planner(t, expansion.Options{ExpandAhead: time.Second, Max: 2})
			tm := cron("* * * * *")
			apply(tm, p.Plan(tm, base)) // the fire of the activation
			tm.Definition.Misfire, tm.Definition.Schedule.MaxFires = c.misfire, c.max
			now := minute(30) + 100
			if c.misfire.Grace != 0 {
				now = minute(30) + 1000
			}
			fires, skips := run(t, p, tm, now)
			var want []int64
			for _, m := range c.fires {
				want = append(want, minute(m))
			}
			require.Equal(t, want, fires)
			var got []planBuilder
			for _, s := range skips {
				require.Equal(t, timer.Skipped, s.Kind)
				require.Equal(t, timer.ReasonMisfired, s.Reason)
				got = append(
					got,
					planBuilder{
						(s.DueMS - base) / timer.MinuteMS,
						(s.UntilMS - base) / timer.MinuteMS,
						s.Count,
					},
				)
			}
			require.Equal(t, c.skips, got)
			if c.max > 0 {
				require.Equal(t, c.max, tm.FiresCreated)
				require.Equal(t, timer.NeverMS, tm.ExpandAtMS)
			}
		})
	}
}

func TestYearOfMissedSecondsIsPlannedInParts(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: time.Second})
	tm := cron("* * * * * *")
	apply(tm, p.Plan(tm, base))
	made := tm.FiresCreated
	const missed = 7 * 86_400
	now := base + missed*1000
	fires, skips := run(t, p, tm, now)
	var count int64
	last := base + 1000
	for _, s := range skips {
		require.Greater(t, s.DueMS, last)
		count, last = count+s.Count, s.UntilMS
	}
	require.Greater(t, len(skips), 5)
	require.Equal(
		t,
		now-60_000-1000,
		fires[0],
		"the last one missed, and then those within the grace",
	)
	require.EqualValues(t, missed+2, made+count+int64(len(fires)), "each second once")
}

// TestCatchUpWindowCountsFromThePlannedRun checks that jitter does not count as lateness.
func TestCatchUpWindowCountsFromThePlannedRun(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: time.Second})
	tm := cron("* * * * *")
	apply(tm, p.Plan(tm, base))
	tm.Definition.Schedule.Jitter = timer.Duration(4 * time.Minute)
	tm.Definition.Misfire = timer.Misfire{
		Policy:        timer.MisfireFireAll,
		CatchUpWindow: timer.Duration(3 * time.Minute),
	}
	for n := range int64(50) {
		tm.NextDueMS = minute(n + 1)
		now := minute(n + 6)
		plan := p.Plan(tm, now)
		require.NoError(t, plan.Err)
		for _, s := range plan.Skips {
			require.Less(
				t,
				s.UntilMS+schedule.Jitter(tm.ID, s.UntilMS, tm.Definition.Schedule.Jitter),
				now-3*timer.MinuteMS,
			)
		}
	}
}

func TestOneShotsFireHoweverLate(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{})
	at := time.UnixMilli(base).UTC()
	tm := cron("")
	tm.Definition.Schedule = timer.Schedule{Kind: timer.KindAt, At: &at}
	fires, skips := run(t, p, tm, base+365*86_400_000)
	require.Equal(t, []int64{base}, fires)
	require.Empty(t, skips)
}

func TestMaxFiresIsExact(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: 10 * time.Minute})
	tm := cron("* * * * *")
	tm.Definition.Schedule.MaxFires = 25
	var all []int64
	for now := base; now < minute(60); now += timer.MinuteMS {
		plan := p.Plan(tm, now)
		apply(tm, plan)
		all = append(all, dues(plan.Fires)...)
	}
	require.Len(t, all, 25)
	require.Equal(t, timer.NeverMS, tm.ExpandAtMS)
}

func TestJitterMovesTheRunAndNotTheDueInstant(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: 60 * time.Minute})
	tm := cron("* * * * *")
	tm.Definition.Schedule.Jitter = timer.Duration(time.Minute)
	runs := map[int64]bool{}
	for i, f := range p.Plan(tm, base).Fires {
		require.Equal(t, minute(int64(i)), f.DueMS)
		require.GreaterOrEqual(t, f.RunAtMS, f.DueMS)
		require.LessOrEqual(t, f.RunAtMS, f.DueMS+60_000)
		runs[f.RunAtMS-f.DueMS] = true
	}
	require.Greater(t, len(runs), 30)
	first, again := p.Plan(tm, base), p.Plan(tm, base)
	require.Equal(t, first, again)
}

func TestFixedDelayPlansOneFireAtATime(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: time.Minute})
	tm := cron("")
	tm.Definition.Schedule = timer.Schedule{
		Kind:  timer.KindFixedDelay,
		Every: timer.Duration(3 * time.Hour),
	}
	plan := p.Plan(tm, base)
	require.Equal(t, []int64{base + 3*3600_000}, dues(plan.Fires), "however far")
	require.Equal(t, timer.NeverMS, plan.NextDueMS)
	apply(tm, plan)
	require.Empty(t, p.Plan(tm, base+5000).Fires, "the successor comes with the outcome")

	next, err := p.Successor(&plan.Fires[0], &tm.Definition, nil, base+3*3600_000+777)
	require.NoError(t, err)
	require.Equal(t, base+6*3600_000+777, next.DueMS)
	next, err = p.Successor(&plan.Fires[0], &tm.Definition, nil, base)
	require.NoError(t, err)
	require.Greater(t, next.DueMS, plan.Fires[0].DueMS, "even if the clock was set back")

	extra := plan.Fires[0]
	extra.Series = 5
	next, err = p.Successor(&extra, &tm.Definition, nil, base)
	require.NoError(t, err)
	require.Nil(t, next, "a run-now has no successor")

	tm.ActiveSinceMS, tm.ActiveEpoch = base+9*3600_000, 2
	tm.NextDueMS = tm.ActiveSinceMS + 1 // as a store does
	require.Equal(
		t,
		[]int64{base + 12*3600_000},
		dues(p.Plan(tm, tm.ActiveSinceMS).Fires),
		"an activation starts a new serial",
	)

	end := time.UnixMilli(base + 4*3600_000).UTC()
	tm.Definition.Schedule.EndAt = &end
	last := plan.Fires[0]
	last.Version = 2
	next, err = p.Successor(&last, &tm.Definition, nil, base+3*3600_000)
	require.NoError(t, err)
	require.Nil(t, next, "after the end of its window")
}

func TestEditPlansFromNow(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: 10 * time.Minute})
	tm := cron("* * * * *")
	apply(tm, p.Plan(tm, base))
	tm.Definition.Schedule.Specs, tm.Version = []string{"*/5 * * * *"}, 2
	tm.NextDueMS = minute(2) + 1 // as a store does at minute 2
	plan := p.Plan(tm, minute(2))
	require.Equal(t, []int64{minute(5), minute(10)}, dues(plan.Fires))
	require.EqualValues(t, 2, plan.Fires[0].Version)
}

func TestBackfill(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{Max: 4})
	tm := cron("*/10 * * * *")
	b := &store.Backfill{ID: 99, FromMS: minute(-60), ToMS: minute(0), NextMS: minute(-60)}
	var all []int64
	for b.NextMS < b.ToMS {
		fires, next, err := p.PlanBackfill(tm, b, base+5)
		require.NoError(t, err)
		require.Greater(t, next, b.NextMS)
		for _, f := range fires {
			require.EqualValues(t, 99, f.Series)
			require.Equal(t, timer.CauseBackfill, f.Cause)
			require.Equal(t, base+5, f.RunAtMS)
			all = append(all, (f.DueMS-base)/timer.MinuteMS)
		}
		b.NextMS = next
	}
	require.Equal(
		t,
		[]int64{-60, -50, -40, -30, -20, -10},
		all,
		"the end of the range is exclusive",
	)
}

// TestBackfillBeforeTheFirstActivation checks that a schedule that counts from the activation of its
// timer has no instants without one, while one with instants of its own has these.
func TestBackfillBeforeTheFirstActivation(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{})
	anchor, at := time.UnixMilli(base).UTC(), time.UnixMilli(minute(-30)).UTC()
	hour := timer.Duration(time.Hour)
	for name, c := range map[string]struct {
		schedule timer.Schedule
		want     int
	}{
		"interval": {timer.Schedule{Kind: timer.KindInterval, Every: hour / 6}, 0},
		"anchored": {timer.Schedule{Kind: timer.KindInterval, Every: hour / 6, Anchor: &anchor}, 0},
		"earlier":  {timer.Schedule{Kind: timer.KindInterval, Every: hour / 6, Anchor: &at}, 3},
		"@every":   {timer.Schedule{Kind: timer.KindCron, Specs: []string{"0 0 * * *", "@every 10m"}}, 0},
		"delay":    {timer.Schedule{Kind: timer.KindDelay, Delay: hour / 6}, 0},
		"cron":     {timer.Schedule{Kind: timer.KindCron, Specs: []string{"*/10 * * * *"}}, 6},
		"at":       {timer.Schedule{Kind: timer.KindAt, At: &at}, 1},
	} {
		tm := &timer.Timer{
			ID: 7, CreatedMS: minute(-50), Definition: timer.Definition{Schedule: c.schedule},
		}
		b := &store.Backfill{ID: 99, FromMS: minute(-60), ToMS: minute(0), NextMS: minute(-60)}
		fires, next, err := p.PlanBackfill(tm, b, base)
		require.NoError(t, err, name)
		require.Len(t, fires, c.want, name)
		require.Equal(t, b.ToMS, next, name)
	}
}

// TestUnknownValuesArePlannedByANewerRelease checks that a timer with a value of a newer release has
// no fires planned by guess, and is tried again.
func TestUnknownValuesArePlannedByANewerRelease(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*timer.Definition){
		"kind of schedule": func(d *timer.Definition) { d.Schedule.Kind = "later" },
		"gap policy":       func(d *timer.Definition) { d.Schedule.Gap = "later" },
		"overlap policy":   func(d *timer.Definition) { d.Schedule.Overlap = "later" },
		"excluded policy":  func(d *timer.Definition) { d.Schedule.Excluded = "later" },
		"misfire policy":   func(d *timer.Definition) { d.Misfire.Policy = "later" },
		"priority":         func(d *timer.Definition) { d.Priority = "later" },
	} {
		d := timer.Definition{
			Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{"@hourly"}},
		}
		change(&d)
		tm := &timer.Timer{
			ID: 7, Version: 1, Definition: d, ActiveSinceMS: base, NextDueMS: base,
		}
		plan := planner(t, expansion.Options{}).Plan(tm, base)
		require.ErrorContains(t, plan.Err, "unknown "+name)
		require.Zero(t, plan.ExpandAtMS, "another process may know it: %s", name)
		require.Empty(t, plan.Fires)
	}
}
