package scenario

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestP2RestoreFromABackup backs up a deployment while fires ring, kills all of it, and loses
// everything else: the database, Redis and Pulsar. The backup is restored into new ones. Every timer
// is there. What was due meanwhile is called by its misfire policy, or has a reason, and nothing is
// early.
func TestP2RestoreFromABackup(t *testing.T) {
	t.Parallel()
	for _, r := range []string{"allinone", "real"} {
		t.Run(r, func(t *testing.T) {
			t.Parallel()
			runOnOwn(t, runnerNamed(r), cluster.Options{}, restoreFromBackup)
		})
	}
}

// loseEverything makes the killed processes use an empty database, and in a cluster an empty Redis
// and Pulsar.
func loseEverything(t *testing.T, env *environment) {
	t.Helper()
	settings := map[string]string{"CARILLON_DATA_DIR": filepath.Join(t.TempDir(), "data")}
	if env.Servers() != nil {
		settings = ownServers(t).Env()
		t.Cleanup(env.Close) // before its servers are removed
	}
	for _, p := range env.Processes() {
		p.Set(settings)
	}
}

func restoreFromBackup(t *testing.T, env *environment) {
	t.Helper()
	const grace = 3 * time.Second
	policies := make(map[string]timer.ID)
	for _, policy := range []string{"fire_all", "fire_once", "skip"} {
		m := &client.Misfire{Policy: policy, Grace: grace.String()}
		policies[policy] = env.createCron(t, policy, "/"+policy, m, nil, nil)
	}
	paused := env.active(t, "paused", client.Cron(everySecond), "/paused")
	for _, id := range append(slices.Collect(maps.Values(policies)), paused) {
		require.Eventually(t, func() bool { return len(env.rcv.Of(id)) >= 2 },
			patience, 20*time.Millisecond)
	}
	_, err := env.api.Pause(t.Context(), env.app, paused, "", time.Time{})
	require.NoError(t, err)
	at := soon(20 * time.Second)
	shots := env.oneShots(t, "meanwhile", "/meanwhile", spread(at, 10*time.Second, 30)...)
	shots = append(
		shots,
		env.oneShots(t, "later", "/later", spread(at.Add(time.Hour), time.Second, 3)...)...)

	dir := filepath.Join(t.TempDir(), "backup")
	api := env.Role(cluster.API)[0]
	began := time.Now()
	out, err := api.Command(t.Context(), "backup", dir)
	require.NoError(t, err)
	t.Logf("%s in %s", out, time.Since(began))
	env.active(t, "unknown", client.Cron(everySecond), "/unknown")
	pause(t, 3*time.Second)
	env.kill(t, env.Processes()...)
	down := time.Now()
	loseEverything(t, env)
	pauseUntil(t, at.Add(10*time.Second+grace+clockTolerance))
	pausedCalls := len(env.rcv.Of(paused))
	began = time.Now()
	out, err = api.Command(t.Context(), "restore", dir)
	require.NoError(t, err)
	t.Logf("%s in %s", out, time.Since(began))
	up := time.Now()
	env.start(t, env.Processes()...)

	// Every instant of the outage whose grace was over when the first process came back.
	missed := seconds(down, up.Add(-grace-clockTolerance))
	require.Greater(t, len(missed), 10)
	for policy, id := range policies {
		require.Eventually(t, func() bool { return len(env.unexplained(t, id, missed)) == 0 },
			patience, 300*time.Millisecond, policy)
		seen := len(env.rcv.Of(id))
		require.Eventually(t, func() bool { return len(env.rcv.Of(id)) >= seen+3 },
			patience, 50*time.Millisecond, "%s is still called", policy)
	}
	called := func(policy string) (n int) {
		for _, due := range env.rcv.Of(policies[policy]).Dues() {
			if slices.Contains(missed, due) {
				n++
			}
		}
		return n
	}
	require.Equal(t, len(missed), called("fire_all"))
	require.LessOrEqual(t, called("fire_once"), 1)
	require.Zero(t, called("skip"))
	require.NotZero(t, reasons(t, env, policies["skip"])["misfired"])
	require.NotZero(t, reasons(t, env, policies["fire_once"])["misfired"])
	for _, id := range shots[:30] {
		require.Eventually(t, func() bool { return len(env.rcv.Of(id)) == 1 },
			patience, 50*time.Millisecond, "a one-shot was due meanwhile")
	}
	for _, id := range shots[30:] {
		tm, err := env.api.Get(t.Context(), env.app, id)
		require.NoError(t, err)
		require.Equal(t, "active", tm.Status)
	}
	tm, err := env.api.Get(t.Context(), env.app, paused)
	require.NoError(t, err)
	require.Equal(t, "paused", tm.Status)
	require.Len(t, env.rcv.Of(paused), pausedCalls)
	require.Empty(t, env.rcv.Arrivals().Early(clockTolerance))
	_, found, err := env.api.GetByName(t.Context(), env.app, "unknown")
	require.NoError(t, err)
	require.False(t, found, "it was created after the backup")
}

// seconds returns the full seconds of a stretch, in ms.
func seconds(from, to time.Time) (due []int64) {
	for ms := (from.UnixMilli() + 999) / 1000 * 1000; ms < to.UnixMilli(); ms += 1000 {
		due = append(due, ms)
	}
	return due
}

// unexplained returns those of the due instants for which a timer has no outcome.
func (env *environment) unexplained(t *testing.T, id timer.ID, due []int64) []int64 {
	t.Helper()
	fires, err := env.api.History(t.Context(), env.app, id)
	require.NoError(t, err)
	left := slices.Clone(due)
	for i := range fires {
		o, err := fires[i].LedgerOutcome()
		require.NoError(t, err)
		last := max(o.Fire.DueMS, o.UntilMS)
		left = slices.DeleteFunc(left, func(due int64) bool {
			return due >= o.Fire.DueMS && due <= last
		})
	}
	return left
}

// TestP3FencedDeploymentCallsNothing cuts all processes of a deployment from its database, as an
// operator does before a second deployment takes over. The first one lives on, and starts no call.
// The second one is restored from a backup of the first one's database, and continues.
func TestP3FencedDeploymentCallsNothing(t *testing.T) {
	t.Parallel()
	overServers := runnerNamed("real")
	t.Run(overServers.name, func(t *testing.T) {
		t.Parallel()
		first, second := ownServers(t), ownServers(t)
		through, links, err := first.WithProxies(t.Context())
		require.NoError(t, err)
		t.Cleanup(links.Close)
		dir := filepath.Join(runDir, "fenced")
		for _, name := range []string{"first", "second"} {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o750))
		}
		o := cluster.Options{Bin: binDir, Dir: filepath.Join(dir, "first")}
		old, err := cluster.StartReal(t.Context(), o, *through)
		require.NoError(t, err)
		t.Cleanup(old.Close)
		env := newEnvironment(t, overServers, old, nil)
		id := env.createCron(t, "ticks", "/ticks", nil, nil, nil)
		require.Eventually(t, func() bool { return len(env.rcv.Of(id)) >= 3 },
			patience, 20*time.Millisecond)

		for _, p := range links[cluster.MySQL] {
			p.Cut()
		}
		cut := time.Now()
		pause(t, 10*time.Second)
		backup := filepath.Join(t.TempDir(), "backup")
		api := old.Role(cluster.API)[0]
		_, err = api.Command(t.Context(), "backup", backup, "-mysql-dsn", first.MySQLDSN)
		require.NoError(t, err)
		_, err = api.Command(t.Context(), "restore", backup, "-mysql-dsn", second.MySQLDSN)
		require.NoError(t, err)
		for _, p := range old.Processes() {
			require.True(t, p.Running(), p.Name)
		}
		calls := len(env.rcv.Of(id))
		latest := -time.Hour
		for _, a := range env.rcv.Of(id) {
			latest = max(latest, time.Unix(0, a.StartNS).Sub(cut))
		}
		t.Logf("the last call began %s after the cut", latest.Round(time.Millisecond))
		require.Less(t, latest, session.LeaseValidity+clockTolerance)

		o.Dir = filepath.Join(dir, "second")
		taken, err := cluster.StartReal(t.Context(), o, *second)
		require.NoError(t, err)
		t.Cleanup(taken.Close)
		require.Eventually(t, func() bool { return len(env.rcv.Of(id)) >= calls+5 },
			patience, 50*time.Millisecond)
		require.Empty(t, env.rcv.Arrivals().Early(clockTolerance))
	})
}

// ownServers returns a database, a key prefix and a namespace, and removes them after the test.
func ownServers(t *testing.T) *cluster.Servers {
	t.Helper()
	servers, free, err := cluster.RealServers()
	if errors.Is(err, cluster.ErrNoServers) {
		t.Skipf("UNTESTED on real servers: %s", err)
	}
	require.NoError(t, err)
	t.Cleanup(free)
	return servers
}
