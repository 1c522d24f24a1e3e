package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// TestStartsBeforeItsServers checks every service that starts while MySQL, Redis and Pulsar are
// unavailable. It waits, names in /readyz the server that it waits for, and works once they are
// available.
func TestStartsBeforeItsServers(t *testing.T) {
	t.Parallel()
	overServers := runnerNamed("real")
	t.Run(overServers.name, func(t *testing.T) {
		t.Parallel()
		servers, free, err := cluster.RealServers()
		if errors.Is(err, cluster.ErrNoServers) {
			t.Skipf("UNTESTED on real servers: %s", err)
		}
		require.NoError(t, err)
		t.Cleanup(free)
		through, links, err := servers.WithProxies(t.Context())
		require.NoError(t, err)
		t.Cleanup(links.Close)
		for _, p := range links.All() {
			p.Cut()
		}
		dir := filepath.Join(runDir, "starts-before-its-servers")
		require.NoError(t, os.MkdirAll(dir, 0o750))
		c, err := cluster.PrepareReal(cluster.Options{Bin: binDir, Dir: dir}, *through)
		require.NoError(t, err)
		t.Cleanup(c.Close)

		// The api opens its port when it can serve. The other services are checked while they wait.
		ctx, cancel := context.WithTimeout(t.Context(), cluster.ReadyTimeout)
		defer cancel()
		api := make(chan error, 1)
		go func() { api <- cluster.StartAll(ctx, c.Role(cluster.API)...) }()
		for _, r := range []cluster.Role{cluster.Migrator, cluster.Scheduler, cluster.Trigger, cluster.Executor} {
			p := c.Role(r)[0]
			require.NoError(t, p.Launch(ctx))
			require.Eventually(t, func() bool {
				says := strings.ToLower(p.Unready(ctx))
				return strings.Contains(says, "mysql") || strings.Contains(says, "pulsar") ||
					strings.Contains(says, "redis")
			}, patience, 50*time.Millisecond, "%s does not name the server that it waits for", r)
		}
		pause(t, 2*time.Second)
		for _, p := range c.Processes() {
			require.True(t, p.Running(), "%s exited\n%s", p.Name, p.Tail(5))
		}
		for _, p := range links.All() {
			require.NoError(t, p.Heal())
		}
		for _, p := range c.Processes() {
			if p.Name != "api-0" {
				require.NoError(t, p.WaitReady(ctx))
			}
		}
		require.NoError(t, <-api)

		env := newEnvironment(t, overServers, c, nil)
		env.oneShots(t, "first", "/first", spread(soon(5*time.Second), time.Second, 20)...)
		env.settle(t)
	})
}

// TestRejectsInvalidSettings checks that an invalid setting leads to one clear line that names it,
// and to a non-zero exit code.
func TestRejectsInvalidSettings(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"CARILLON_MYSQL_DSN":        "u:p@tcp(127.0.0.1:1)/d",
		"CARILLON_REDIS_ADDRS":      "127.0.0.1:1",
		"CARILLON_PULSAR_URL":       "pulsar://127.0.0.1:1",
		"CARILLON_PULSAR_ADMIN_URL": "http://127.0.0.1:1",
		"CARILLON_HTTP_ADDR":        "127.0.0.1:0",
		"CARILLON_ADMIN_ADDR":       "127.0.0.1:0",
	}
	for name, tt := range map[string]struct {
		env  map[string]string
		args []string
		says string
	}{
		"an invalid DSN":        {map[string]string{"CARILLON_MYSQL_DSN": "nonsense"}, nil, "mysql-dsn"},
		"an invalid broker URL": {map[string]string{"CARILLON_PULSAR_URL": "ftp://x"}, nil, "pulsar-url"},
		"an unknown flag":       {nil, []string{"-no-such-flag"}, "no-such-flag"},
		"an invalid value":      {nil, []string{"-expand-ahead", "soon"}, "expand-ahead"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range cluster.Roles() {
				if tt.says == "expand-ahead" && r == cluster.Executor {
					continue // the service has no such setting
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				var stderr bytes.Buffer
				cmd := exec.CommandContext(
					ctx,
					filepath.Join(binDir, "carillon-"+string(r)),
					tt.args...)
				cmd.Stderr = &stderr
				for k, v := range good {
					if over, ok := tt.env[k]; ok {
						v = over
					}
					cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%s", k, v))
				}
				err := cmd.Run()
				require.NoError(t, ctx.Err(), "%s did not exit: %s", r, &stderr)
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit, "%s: %s", r, &stderr)
				lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
				require.Contains(t, lines[len(lines)-1], tt.says, "%s", r)
				require.Less(t, len(lines), 4, "%s: %s", r, &stderr)
			}
		})
	}
}
