package scenario

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// createCron creates a timer that fires each second, with the given policies.
func (env *environment) createCron(
	t *testing.T,
	name, path string,
	m *client.Misfire,
	c *client.Concurrency,
	r *client.Retry,
) timer.ID {
	t.Helper()
	tm, _, err := env.api.Create(t.Context(), client.NewTimer{
		App:         env.app,
		Name:        name,
		Schedule:    client.Cron(everySecond),
		Target:      client.Post(env.rcv.URL(path)),
		Status:      "active",
		Misfire:     m,
		Concurrency: c,
		Retry:       r,
	})
	require.NoError(t, err)
	return tm.TimerID()
}

// oneAtATime checks that no call starts before the previous one was answered.
func oneAtATime(t *testing.T, calls receiver.Arrivals) {
	t.Helper()
	calls.Sort()
	for i := 1; i < len(calls); i++ {
		require.NotZero(t, calls[i-1].DoneNS)
		require.LessOrEqual(
			t,
			calls[i-1].DoneNS,
			calls[i].ArrivedNS,
			"calls %s and %s at once",
			calls[i-1].Fire,
			calls[i].Fire,
		)
	}
}

// TestConcurrencyLetsOneRun checks an endpoint that takes longer than the time between fires. Under
// every policy except allow one call runs at a time, and the history explains the other fires.
func TestConcurrencyLetsOneRun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy  client.Concurrency
		skipped string // a reason that must occur
		ordered bool
	}{
		"skip":      {client.Concurrency{Policy: "skip"}, "overlap", true},
		"queue_one": {client.Concurrency{Policy: "queue_one"}, "queue_full", true},
		"queue_all": {client.Concurrency{Policy: "queue_all", MaxQueue: 3}, "queue_full", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runOnAll(t, func(t *testing.T, env *environment) {
				env.rcv.Script("/slow", receiver.Script{Delay: 2500 * time.Millisecond})
				id := env.createCron(t, "slow", "/slow", nil, &tt.policy, nil)
				require.Eventually(
					t,
					func() bool { return len(env.rcv.Of(id)) >= 5 },
					patience,
					50*time.Millisecond,
				)
				require.Eventually(
					t,
					func() bool { return reasons(t, env, id)[tt.skipped] > 0 },
					patience,
					200*time.Millisecond,
				)
				calls := env.rcv.Of(id)
				oneAtATime(t, calls[:len(calls)-1])
				// Waiting fires run in the order of their due instants. On a slow machine two that
				// are due at nearly the same time may ask in another order.
				latest := int64(0)
				for _, c := range calls {
					require.Greater(t, c.Fire.DueMS, latest-2500)
					latest = max(latest, c.Fire.DueMS)
				}

				// Fires that wait when the timer is deactivated get an outcome. With a quick
				// endpoint no policy applies.
				env.rcv.Script("/slow", receiver.Script{})
				before := len(env.rcv.Of(id))
				require.Eventually(
					t,
					func() bool { return len(env.rcv.Of(id)) >= before+5 },
					patience,
					50*time.Millisecond,
				)
				require.Empty(t, env.rcv.Of(id).Duplicates())
			})
		})
	}
}

// TestConcurrencyCancelsThePrevious checks that the next fire cancels one that is still being
// retried.
func TestConcurrencyCancelsThePrevious(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		env.rcv.Script("/broken", receiver.Script{Statuses: []int{500}})
		id := env.createCron(
			t,
			"broken",
			"/broken",
			nil,
			&client.Concurrency{Policy: "cancel_previous"},
			&client.Retry{Attempts: 10, Wait: "2s", Factor: 1},
		)
		require.Eventually(
			t,
			func() bool { return reasons(t, env, id)["cancelled"] >= 3 },
			patience,
			200*time.Millisecond,
		)
		env.rcv.Script("/broken", receiver.Script{})
		require.Eventually(
			t,
			func() bool { return reasons(t, env, id)[""] >= 3 },
			patience,
			200*time.Millisecond,
		)
	})
}

// TestMisfirePolicies stops the whole deployment for a while. The fires due meanwhile are called
// each, once for all, or not at all, and each has an outcome. One run has expanded fires, another
// has instants that no process had expanded.
func TestMisfirePolicies(t *testing.T) {
	t.Parallel()
	for name, expandAhead := range map[string]string{"expanded": "60m", "not expanded": "10s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range runners {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					runOnOwn(
						t,
						r,
						cluster.Options{
							Env: map[string]string{"CARILLON_EXPAND_AHEAD": expandAhead},
						},
						misfires,
					)
				})
			}
		})
	}
}

// lateDues returns what was due, before an instant, of a timer's fires that began later than that,
// in the order of their first attempts.
func (env *environment) lateDues(id timer.ID, before time.Time, late time.Duration) (dues []int64) {
	all := slices.Clone(env.rcv.Of(id))
	slices.SortFunc(
		all,
		func(a, b receiver.Arrival) int { return cmp.Compare(a.StartNS, b.StartNS) },
	)
	for i := range all {
		if all[i].Attempt == 1 && all[i].Lateness() > late &&
			all[i].Fire.DueMS < before.UnixMilli() {
			dues = append(dues, all[i].Fire.DueMS)
		}
	}
	return slices.Compact(dues) // a call that is repeated for a lost answer
}

func misfires(t *testing.T, env *environment) {
	t.Helper()
	const grace = 3 * time.Second
	ids := make(map[string]timer.ID)
	for _, policy := range []string{"fire_all", "fire_once", "skip"} {
		ids[policy] = env.createCron(
			t,
			policy,
			"/"+policy,
			&client.Misfire{Policy: policy, Grace: grace.String()},
			nil,
			nil,
		)
	}
	for _, id := range ids {
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(id)) >= 3 },
			patience,
			20*time.Millisecond,
		)
	}
	env.kill(t, env.Processes()...)
	down := time.Now()
	pause(t, 25*time.Second)
	up := time.Now()
	env.start(t, env.Processes()...)

	// Every instant of the outage whose grace was over when the first process came back.
	from, to := down.UnixMilli(), up.Add(-grace-clockTolerance).UnixMilli()
	missed := seconds(down, up.Add(-grace-clockTolerance))
	called := func(policy string) (n int) {
		for _, due := range env.rcv.Of(ids[policy]).Dues() {
			if due >= from && due < to {
				n++
			}
		}
		return n
	}
	for policy, id := range ids {
		require.Eventually(
			t,
			func() bool { return len(env.unexplained(t, id, missed)) == 0 },
			patience,
			300*time.Millisecond,
			policy,
		)
		seen := len(env.rcv.Of(id))
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(id)) >= seen+3 },
			patience,
			50*time.Millisecond,
			"%s is still called",
			policy,
		)
	}
	late := func(policy string, than time.Duration) bool {
		return slices.ContainsFunc(
			env.rcv.Of(ids[policy]),
			func(a receiver.Arrival) bool { return a.Lateness() > than },
		)
	}
	require.True(t, late("fire_once", grace), "no call caught up")
	require.False(t, late("skip", grace+10*time.Second), "a late fire was called")
	require.Equal(t, len(missed), called("fire_all"))
	require.IsIncreasing(
		t,
		env.lateDues(ids["fire_all"], up, grace+clockTolerance),
		"in the order in which they began",
	)
	require.LessOrEqual(t, called("fire_once"), 1)
	require.Zero(t, called("skip"))
	require.NotZero(t, reasons(t, env, ids["skip"])["misfired"])
	require.NotZero(t, reasons(t, env, ids["fire_once"])["misfired"])
	require.Zero(t, reasons(t, env, ids["fire_all"])["misfired"])
}
