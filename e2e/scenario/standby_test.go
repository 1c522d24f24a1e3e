package scenario

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/testenv/document"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestP2StandbyTakesOver loses the database of a region, whose services live on, and promotes the
// semi-synchronous replica of a second region, as the guide says. The replica has received what it
// has not applied, and is not promoted before it has. The second region has its own Redis and
// Pulsar. It has every timer whose create was answered, and calls each due instant, none
// of them early. It repeats only calls of which the first region had not recorded the answer.
//
//nolint:paralleltest // beside other scenarios its servers and two deployments overload two cores
func TestP2StandbyTakesOver(t *testing.T) {
	overServers := runnerNamed("real")
	t.Run(overServers.name, func(t *testing.T) {
		first, second := ownServers(t), ownServers(t)
		pair := startReplicated(t)
		first.MySQLDSN, second.MySQLDSN = pair.primary, pair.replica
		dir := filepath.Join(runDir, "standby")
		for _, name := range []string{"first", "second"} {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o750))
		}
		o := cluster.Options{Bin: binDir, Dir: filepath.Join(dir, "first")}
		old, err := cluster.StartReal(t.Context(), o, *first)
		require.NoError(t, err)
		t.Cleanup(old.Close)
		env := newEnvironment(t, overServers, old, nil)
		ticks := env.createCron(t, "ticks", "/ticks", &client.Misfire{Policy: "fire_all"}, nil, nil)
		require.Eventually(t, func() bool { return len(env.rcv.Of(ticks)) >= 3 },
			patience, 20*time.Millisecond)
		began := time.Now()
		shots, cut := env.createUntil(t, began.Add(8*time.Second), 50, func(t *testing.T) {
			t.Helper()
			pair.fallBehind(t)
			pair.killPrimary(t)
		})
		t.Logf("%d creates were answered before the primary was lost", len(shots))

		// The calls in flight end within the timeout of their target and 2 s.
		pause(t, 10*time.Second)
		for _, p := range old.Processes() {
			require.True(t, p.Running(), p.Name)
		}
		latest := -time.Hour
		for _, a := range env.rcv.Arrivals() {
			latest = max(latest, time.Unix(0, a.StartNS).Sub(cut))
		}
		t.Logf("the last call began %s after the loss", latest.Round(time.Millisecond))
		require.Less(t, latest, session.LeaseValidity+clockTolerance)

		said, err := pair.promote(t, "60)", "1)")
		require.Error(t, err, "it has not applied what it received: %s", said)
		require.Equal(t, "@@read_only\n1", pair.onReplica(t, "SELECT @@read_only"))
		pair.onReplica(t, "START SLAVE SQL_THREAD")
		_, err = pair.promote(t)
		require.NoError(t, err)
		require.Equal(t, "@@read_only\n0", pair.onReplica(t, "SELECT @@read_only"))
		o.Dir = filepath.Join(dir, "second")
		promoted := time.Now()
		taken, err := cluster.StartReal(t.Context(), o, *second)
		require.NoError(t, err)
		t.Cleanup(taken.Close)
		standby := &environment{
			Cluster: taken, rcv: env.rcv, api: client.New(taken.API), app: env.app, led: env.led,
		}
		t.Cleanup(standby.api.Close)

		// Every instant of the outage, and of some seconds after it.
		missed := seconds(began, promoted.Add(5*time.Second))
		require.Eventually(
			t,
			func() bool { return len(standby.unexplained(t, ticks, missed)) == 0 },
			patience,
			300*time.Millisecond,
		)
		calls := make(map[timer.FireID]int)
		require.Eventually(t, func() bool {
			clear(calls)
			for _, a := range env.rcv.Arrivals() {
				calls[a.Fire]++
			}
			for id, due := range shots {
				if calls[timer.FireID{Timer: id, DueMS: due.UnixMilli()}] == 0 {
					return false
				}
			}
			return true
		}, patience, 300*time.Millisecond, "a timer is not called whose create was answered")
		for _, due := range missed {
			require.NotZero(t, calls[timer.FireID{Timer: ticks, DueMS: due}], due)
		}
		repeated := 0
		for id, n := range calls {
			if n == 1 {
				continue
			}
			repeated++
			require.Equal(t, 2, n, id)
			require.Eventually(t, func() bool {
				fire, err := standby.api.Fire(t.Context(), env.app, id)
				require.NoError(t, err)
				o, err := fire.LedgerOutcome()
				require.NoError(t, err)
				return o.Finished.After(promoted)
			}, patience, 50*time.Millisecond, "%s was recorded before, and called again", id)
		}
		t.Logf("%d fires called, %d of them twice", len(calls), repeated)
		require.Empty(t, env.rcv.Arrivals().Early(clockTolerance))
		require.NoError(t, standby.api.Delete(t.Context(), env.app, ticks))
	})
}

// createUntil creates one-shots that are due 1 to 30 s later, until an instant, and no fewer than
// the given number. It then calls lose, and returns those whose create was answered, with their due
// instants, and when lose had returned.
func (env *environment) createUntil(
	t *testing.T,
	end time.Time,
	least int64,
	lose func(t *testing.T),
) (created map[timer.ID]time.Time, lost time.Time) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	created = make(map[timer.ID]time.Time)
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	var n atomic.Int64
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			at := time.Now().Add(time.Duration(1+i%30) * time.Second).Truncate(time.Millisecond)
			tm, _, err := env.api.Create(ctx, client.NewTimer{
				App:      env.app,
				Name:     "shot-" + strconv.Itoa(i),
				Schedule: client.At(at),
				Target:   client.Post(env.rcv.URL("/shots")),
				Status:   "active",
			})
			if err != nil {
				return // the database is lost
			}
			created[tm.TimerID()] = at
			n.Add(1)
		}
	}()
	pauseUntil(t, end)
	require.Eventually(t, func() bool { return n.Load() >= least }, patience, 20*time.Millisecond)
	lose(t)
	lost = time.Now()
	pause(t, time.Second) // some creates find that the database is lost
	return created, lost
}

// replicated is a primary and its replica, for one test, which loses one and promotes the other.
type replicated struct {
	dir              string
	primary, replica string // DSNs
}

func startReplicated(t *testing.T) *replicated {
	t.Helper()
	r := &replicated{dir: t.TempDir()}
	t.Cleanup(func() { r.script(context.Background(), t, "servers.sh", "wipe", r.dir) })
	r.script(t.Context(), t, "servers.sh", "up", r.dir, "mysql-replicated")
	b, err := os.ReadFile(filepath.Join(r.dir, "env"))
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch value = strings.Trim(value, "'"); key {
		case "export CARILLON_TEST_MYSQL_PRIMARY_DSN":
			r.primary = value
		case "export CARILLON_TEST_MYSQL_REPLICA_DSN":
			r.replica = value
		}
	}
	return r
}

func (r *replicated) killPrimary(t *testing.T) {
	t.Helper()
	r.script(t.Context(), t, "mysql-replicated.sh", "kill", r.dir)
}

// fallBehind lets the replica receive a commit that it does not apply.
func (r *replicated) fallBehind(t *testing.T) {
	t.Helper()
	r.onReplica(t, "STOP SLAVE SQL_THREAD")
	require.Eventually(t, func() bool {
		received := gtidReceived.FindStringSubmatch(r.onReplica(t, `SHOW SLAVE STATUS\G`))
		require.NotNil(t, received)
		return !strings.HasSuffix(r.onReplica(t, "SELECT @@gtid_slave_pos"), "\n"+received[1])
	}, patience, 20*time.Millisecond)
}

var gtidReceived = regexp.MustCompile(`Gtid_IO_Pos: (\S+)`)

// onReplica runs a statement on the replica, and returns what the client prints.
func (r *replicated) onReplica(t *testing.T, statement string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "mariadb", "-e", statement)
	cmd.Env = append(os.Environ(), "HOME="+r.home(t))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", statement, out)
	return strings.TrimSpace(string(out))
}

// promote runs the commands of the guide on the replica, which let it apply what it has received, and
// take writes. replace has pairs of texts. It returns what they print.
func (r *replicated) promote(t *testing.T, replace ...string) (string, error) {
	t.Helper()
	blocks, err := document.Needing("../..", "docs/how-to/second-region.md", "mariadb-replica")
	require.NoError(t, err)
	home := r.home(t)
	return document.Run(t.Context(), home, []string{"HOME=" + home}, blocks, replace...)
}

// home returns a directory with a file of options by which the client finds the replica.
func (r *replicated) home(t *testing.T) string {
	t.Helper()
	at := regexp.MustCompile(`^(\w+):(\w+)@tcp\((.+):(\d+)\)/`).FindStringSubmatch(r.replica)
	require.NotNil(t, at, r.replica)
	options := fmt.Sprintf(
		"[client]\nuser=%s\npassword=%s\nhost=%s\nport=%s\n", at[1], at[2], at[3], at[4])
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, ".my.cnf"), []byte(options), 0o600))
	return r.dir
}

func (*replicated) script(ctx context.Context, t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", name), args...).
		CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}
