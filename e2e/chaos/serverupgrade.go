package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// upgrade is a newer version of the servers of a cluster, a line of scripts/versions/list.tsv.
type upgrade struct {
	name string // in the list
	to   string // as the table of results has it
	// variable tells the scripts to start the newer version.
	variable string
}

// upgrades returns the newer version of each cluster.
func upgrades() map[string]upgrade {
	return map[string]upgrade{
		pulsarCluster: {"pulsar-4.2", "Pulsar 4.2", "CARILLON_TEST_PULSAR_VERSION"},
		redisCluster:  {"redis-8.0", "Redis 8.0", "CARILLON_TEST_REDIS_HOME"},
		galera:        {"mariadb-11.8", "MariaDB 11.8", "CARILLON_TEST_MYSQL_HOME"},
	}
}

// upgradeNodes stops each node of some kinds in order, and starts it in the newer version. The new
// programs are there before the first stops.
func upgradeNodes(kinds ...nodeKind) func(*Environment) error {
	return func(env *Environment) error {
		for _, k := range kinds {
			if err := env.srv.installNewer(env.ctx, k.nodes[0].server); err != nil {
				return err
			}
		}
		for _, k := range kinds {
			to := upgrades()[k.nodes[0].server].to
			if err := env.rollEach(
				k,
				fmt.Sprintf("rolling upgrade of every %s to %s", k.called, to),
			); err != nil {
				return err
			}
		}
		return nil
	}
}

// installNewer installs the newer version of a cluster's servers, from which its nodes start from
// now on.
func (s *servers) installNewer(ctx context.Context, server string) error {
	if s.home[server] != "" {
		return nil
	}
	u := upgrades()[server]
	source, err := s.versionSource(u.name)
	if err != nil {
		return err
	}
	var home string
	if source[0] == "maven" {
		value := source[1]
		home = "pulsar-" + value
		s.env = append(s.env, u.variable+"="+value)
		if err := s.script(ctx, "install-servers.sh", "pulsar"); err != nil {
			return err
		}
	} else {
		args := append([]string{u.name}, source...)
		//nolint:gosec // a script of ours
		cmd := exec.CommandContext(ctx, filepath.Join(s.scripts, "versions", "install.sh"), args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("installing %s: %w", u.name, err)
		}
		home = strings.TrimSpace(string(out))
		s.env = append(s.env, u.variable+"="+home)
	}
	s.home[server] = home
	return nil
}

// versionSource returns where the list of versions has a version from: the source, and what comes
// from there.
func (s *servers) versionSource(name string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(s.scripts, "versions", "list.tsv"))
	if err != nil {
		return nil, fmt.Errorf("reading the list of versions: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		// name, server, source, and what comes from there
		if f := strings.Fields(line); len(f) > 3 && f[0] == name { //nolint:mnd // as said
			return f[2:], nil
		}
	}
	return nil, fmt.Errorf("the list of versions has no %s", name)
}

// runsFrom reports whether a process runs programs whose path contains home.
func runsFrom(pid int, home string) bool {
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Contains(exe, home) || bytes.Contains(line, []byte(home))
}
