package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestCheckPolicies(t *testing.T) {
	t.Parallel()
	misfire := func(m timer.Misfire) timer.Definition { return timer.Definition{Misfire: m} }
	concurrency := func(c timer.Concurrency) timer.Definition { return timer.Definition{Concurrency: c} }
	tests := []struct {
		name       string
		d          timer.Definition
		field, msg string
	}{
		{"nothing", timer.Definition{}, "", ""},
		{
			"all of it",
			misfire(
				timer.Misfire{
					Policy:        "fire_all",
					Grace:         timer.Duration(time.Second),
					CatchUpWindow: timer.Duration(time.Hour),
					MaxFires:      5,
				},
			),
			"",
			"",
		},
		{"a queue", concurrency(timer.Concurrency{Policy: "queue_all", MaxQueue: 5}), "", ""},
		{
			"no misfire policy",
			misfire(timer.Misfire{Policy: "fire"}),
			"misfire.policy",
			`expected "fire_all", "fire_once" or "skip", found "fire"`,
		},
		{
			"a negative grace",
			misfire(timer.Misfire{Grace: -1}),
			"misfire.grace",
			"expected a duration from 0s to 24h0m0s",
		},
		{
			"too long a grace",
			misfire(timer.Misfire{Grace: timer.MaxGrace + 1}),
			"misfire.grace",
			"expected",
		},
		{
			"a negative window",
			misfire(timer.Misfire{CatchUpWindow: -1}),
			"misfire.catch_up_window",
			"expected",
		},
		{
			"a bound of one",
			misfire(timer.Misfire{Policy: "fire_once", MaxFires: 3}),
			"misfire.max_fires",
			"leave it out",
		},
		{
			"too many",
			misfire(timer.Misfire{Policy: "fire_all", MaxFires: 10_001}),
			"misfire.max_fires",
			"from 1 to 10000",
		},
		{
			"no concurrency policy",
			concurrency(timer.Concurrency{Policy: "queue"}),
			"concurrency.policy",
			`found "queue"`,
		},
		{
			"a queue of one",
			concurrency(timer.Concurrency{Policy: "queue_one", MaxQueue: 3}),
			"concurrency.max_queue",
			"leave it out",
		},
		{
			"a negative queue",
			concurrency(timer.Concurrency{Policy: "queue_all", MaxQueue: -3}),
			"concurrency.max_queue",
			"from 1 to 10000",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := schedule.CheckPolicies(&tt.d)
			if tt.field == "" {
				require.NoError(t, err)
				return
			}
			var e *timer.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, tt.field, e.Field)
			require.Contains(t, e.Msg, tt.msg)
		})
	}
}

func TestDefaultsOfPolicies(t *testing.T) {
	t.Parallel()
	for kind, want := range map[timer.ScheduleKind]timer.MisfirePolicy{
		timer.KindCron: timer.MisfireFireOnce, timer.KindInterval: timer.MisfireFireOnce, timer.KindFixedDelay: timer.MisfireFireOnce,
		timer.KindAt: timer.MisfireFireAll, timer.KindDelay: timer.MisfireFireAll,
	} {
		require.Equal(
			t,
			timer.Misfire{Policy: want, Grace: timer.Duration(time.Minute), MaxFires: 1000},
			timer.Misfire{}.For(kind),
		)
	}
	own := timer.Misfire{Policy: timer.MisfireSkip, Grace: 1, CatchUpWindow: 2, MaxFires: 3}
	require.Equal(t, own, own.For(timer.KindAt))
	require.Equal(
		t,
		timer.Concurrency{Policy: timer.ConcurrencyAllow, MaxQueue: 100},
		timer.Concurrency{}.Resolved(),
	)
}
