package expansion_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const base = int64(1_800_000_000_000) // 2027-01-15T08:00:00Z, a whole minute

func planner(t *testing.T, opts expansion.Options) *expansion.Planner {
	t.Helper()
	opts.Counts = slicing.NewCounts(1000)
	p, err := expansion.New(opts)
	require.NoError(t, err)
	return p
}

func cron(spec string) *timer.Timer {
	return &timer.Timer{
		ID:            7,
		AppID:         3,
		Version:       1,
		Status:        timer.StatusActive,
		ActiveSinceMS: base,
		ActiveEpoch:   1,
		CreatedMS:     base,
		Definition: timer.Definition{
			Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{spec}},
		},
	}
}

// apply updates the timer by a plan, as a store does.
func apply(tm *timer.Timer, p store.Plan) {
	tm.NextDueMS, tm.ExpandAtMS = p.NextDueMS, p.ExpandAtMS
	tm.FiresCreated += int64(len(p.Fires))
}

func dues(fs []timer.Fire) []int64 {
	out := make([]int64, len(fs))
	for i, f := range fs {
		out[i] = f.DueMS
	}
	return out
}

func TestPlanFillsUpToExpandAhead(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: 10 * time.Minute})
	tm := cron("* * * * *")
	plan := p.Plan(tm, base)
	require.NoError(t, plan.Err)
	require.Len(t, plan.Fires, 11, "the time of the activation and ten minutes")
	require.Equal(t, base, plan.Fires[0].DueMS)
	require.Equal(t, base+11*timer.MinuteMS, plan.NextDueMS)
	f := plan.Fires[3]
	require.Equal(t, timer.Fire{
		FireID: timer.FireID{
			Timer: 7,
			DueMS: f.DueMS,
		},
		RunAtMS: f.DueMS,
		AppID:   3,
		Version: 1,
		Epoch:   1,
	}, f)
	require.Less(t, plan.ExpandAtMS, plan.NextDueMS)
	require.Greater(t, plan.ExpandAtMS, base)
}

func TestPlanIsBoundedByMaxAndContinuesInTime(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{})
	tm := cron("* * * * * *")
	plan := p.Plan(tm, base)
	require.Len(t, plan.Fires, expansion.DefaultMax)
	require.Equal(t, base+120_000, plan.NextDueMS)
	require.Equal(t, base+60_000, plan.ExpandAtMS, "when half of it is used up")
}

// TestPlanOfAHugeMaxFires checks that a limit near the largest number limits nothing, also where a
// store plans what an older version had, and counts from far below zero.
func TestPlanOfAHugeMaxFires(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: 10 * time.Minute})
	tm := cron("* * * * *")
	tm.Definition.Schedule.MaxFires, tm.FiresCreated = math.MaxInt64, -1<<40
	require.Len(t, p.Plan(tm, base).Fires, 11)
}

func TestSuccessivePlansMissAndRepeatNothing(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: 5 * time.Minute, Max: 17})
	tm := cron("*/7 * * * * *")
	var all []int64
	for now := base; now < base+30*timer.MinuteMS; {
		plan := p.Plan(tm, now)
		all = append(all, dues(plan.Fires)...)
		apply(tm, plan)
		require.LessOrEqual(t, now, tm.ExpandAtMS)
		now = max(now+1, tm.ExpandAtMS)
	}
	require.EqualValues(t, len(all), tm.FiresCreated)
	want := base
	for _, due := range all {
		require.Equal(t, want, due)
		if s := due / 1000 % 60; s == 56 {
			want += 4000
		} else {
			want += 7000
		}
	}
}

func TestLatePlanMakesEveryMissedFire(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: time.Minute})
	tm := cron("* * * * *")
	tm.Definition.Misfire.Policy = timer.MisfireFireAll
	apply(tm, p.Plan(tm, base))
	next := tm.NextDueMS
	plan := p.Plan(tm, base+30*timer.MinuteMS)
	require.Equal(t, next, plan.Fires[0].DueMS)
	require.Equal(t, next, plan.Fires[0].RunAtMS)
	require.Len(t, plan.Fires, 30)
}

func TestReactivationSkipsWhatPassedWhileInactive(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: 5 * time.Minute})
	tm := cron("* * * * *")
	apply(tm, p.Plan(tm, base))
	expanded := tm.NextDueMS

	tm.ActiveSinceMS, tm.ActiveEpoch = base+2*timer.MinuteMS, 2
	plan := p.Plan(tm, tm.ActiveSinceMS)
	require.Equal(
		t,
		expanded,
		plan.Fires[0].DueMS,
		"window entries of the earlier activation still exist",
	)

	tm.ActiveSinceMS, tm.ActiveEpoch = base+60*timer.MinuteMS+1, 3
	plan = p.Plan(tm, tm.ActiveSinceMS)
	require.Equal(t, base+61*timer.MinuteMS, plan.Fires[0].DueMS)
	require.EqualValues(t, 3, plan.Fires[0].Epoch)
}

func TestIntervalKeepsItsPhaseOverAPause(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: 5 * time.Minute})
	tm := cron("@every 90s")
	first := p.Plan(tm, base)
	require.Equal(t, base+90_000, first.Fires[0].DueMS)
	apply(tm, first)
	tm.ActiveSinceMS = base + 1_000_000
	again := p.Plan(tm, tm.ActiveSinceMS)
	require.Zero(t, (again.Fires[0].DueMS-base)%90_000)
	require.GreaterOrEqual(t, again.Fires[0].DueMS, tm.ActiveSinceMS)
}

func TestOneShots(t *testing.T) {
	t.Parallel()
	at := func(ms int64) timer.Schedule {
		v := time.UnixMilli(ms).UTC()
		return timer.Schedule{Kind: timer.KindAt, At: &v}
	}
	for name, c := range map[string]struct {
		schedule timer.Schedule
		due      int64
		fires    int
	}{
		"at, soon":        {at(base + 5000), base + 5000, 1},
		"at, in the past": {at(base - 5000), base, 1},
		"at, beyond":      {at(base + 3*3600_000), base + 3*3600_000, 0},
		"delay":           {timer.Schedule{Kind: timer.KindDelay, Delay: timer.Duration(90 * time.Second)}, base + 90_000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planner(t, expansion.Options{})
			tm := cron("")
			tm.Definition.Schedule = c.schedule
			plan := p.Plan(tm, base)
			require.NoError(t, plan.Err)
			require.Len(t, plan.Fires, c.fires)
			if c.fires == 0 {
				require.Equal(t, c.due, plan.NextDueMS)
				require.Less(t, plan.ExpandAtMS, c.due)
				apply(tm, plan)
				plan = p.Plan(tm, plan.ExpandAtMS)
			}
			require.Equal(t, []int64{c.due}, dues(plan.Fires))
			require.Equal(t, timer.NeverMS, plan.NextDueMS)
			require.Equal(t, timer.NeverMS, plan.ExpandAtMS)
			apply(tm, plan)
			tm.ActiveSinceMS += 86_400_000
			require.Empty(t, p.Plan(tm, tm.ActiveSinceMS).Fires, "a one-shot is planned once")
		})
	}
}

func TestOneShotThatPassedWhileInactiveIsDueAtTheActivation(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: time.Minute})
	tm := cron("")
	tm.Definition.Schedule = timer.Schedule{Kind: timer.KindDelay, Delay: timer.Duration(time.Hour)}
	apply(tm, p.Plan(tm, base))
	require.Zero(t, tm.FiresCreated)
	tm.ActiveSinceMS = base + 2*3600_000
	plan := p.Plan(tm, tm.ActiveSinceMS)
	require.Equal(t, []int64{tm.ActiveSinceMS}, dues(plan.Fires))
}

func TestUnreadableScheduleIsNotRetried(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{})
	plan := p.Plan(cron("no cron at all"), base)
	require.Error(t, plan.Err)
	require.Empty(t, plan.Fires)
	require.Equal(t, timer.NeverMS, plan.ExpandAtMS)
}

// TestTimerOfANewerReleaseIsPostponed checks that nothing is guessed from values that this release
// does not know, and that another process may still plan the timer.
func TestTimerOfANewerReleaseIsPostponed(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{})
	policy, kind := cron("* * * * *"), cron("* * * * *")
	policy.Definition.Misfire.Policy = "fire_some"
	kind.ID, kind.Definition.Schedule.Kind = 8, "moon"
	for _, tm := range []*timer.Timer{policy, kind} {
		tm.NextDueMS = base - 3600_000
		plan := p.Plan(tm, base)
		require.Error(t, plan.Err)
		require.Empty(t, plan.Fires)
		require.Empty(t, plan.Skips)
		require.Zero(t, plan.ExpandAtMS, "the store postpones it")
		require.Equal(t, tm.NextDueMS, plan.NextDueMS)
	}
}

func TestFiresCarryThePriorityOfTheirTimer(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{})
	tm := cron("* * * * *")
	require.Equal(t, timer.LevelNormal, p.Plan(tm, base).Fires[0].PriorityLevel)
	tm.Definition.Priority = timer.PriorityHigh
	require.Equal(t, timer.LevelHigh, p.Plan(tm, base).Fires[0].PriorityLevel)
}

func BenchmarkPlanEverySecond(b *testing.B) {
	p, err := expansion.New(expansion.Options{Counts: slicing.NewCounts(10_000)})
	if err != nil {
		b.Fatal(err)
	}
	tm := cron("* * * * * *")
	for b.Loop() {
		p.Plan(tm, base)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/300, "ns/fire")
}

// TestPlanFollowsTheDefinitionNotTheVersion checks that a schedule which was planned and never
// committed, by a dry run or a failed edit, does not stand for the one that got its version.
func TestPlanFollowsTheDefinitionNotTheVersion(t *testing.T) {
	t.Parallel()
	p := planner(t, expansion.Options{ExpandAhead: time.Hour})
	start := time.UnixMilli(base + 30*timer.MinuteMS)
	for _, change := range []func(s *timer.Schedule){
		func(*timer.Schedule) {},
		func(s *timer.Schedule) { s.Specs = []string{"*/20 * * * *"} },
		func(s *timer.Schedule) { s.Zone = "Asia/Kathmandu" },
		func(s *timer.Schedule) { s.StartAt = &start },
		func(s *timer.Schedule) { *s = timer.Schedule{Kind: timer.KindInterval, Every: 1e12} },
	} {
		tm := cron("0 * * * *")
		tm.Version = 2
		change(&tm.Definition.Schedule)
		want := planner(t, expansion.Options{ExpandAhead: time.Hour}).Plan(tm, base)
		require.NoError(t, want.Err)
		require.Equal(t, dues(want.Fires), dues(p.Plan(tm, base).Fires))
	}
}
