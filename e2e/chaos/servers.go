package chaos

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

// Names of the servers in scripts/servers.sh.
const (
	mysqlServer  = "mysql"
	redisServer  = "redis"
	pulsarServer = "pulsar"
)

// servers are the run's own MariaDB, Redis and Pulsar, single or as clusters, into which faults are
// injected.
type servers struct {
	scripts string
	dirs    map[string]string // data directory of each server
	group   string            // directory of a control group; "": that of this process
	// home is the directory with the programs of a cluster whose nodes start in a newer version.
	home map[string]string
	env  []string // variables of the scripts, besides those of this process
}

// startServers installs and starts the named servers. It takes a minute on a new machine, and 15 s
// later.
func startServers(ctx context.Context, root, dir string, names []string) (*servers, error) {
	s := &servers{
		scripts: filepath.Join(root, "scripts"),
		dirs:    make(map[string]string),
		home:    make(map[string]string),
	}
	for _, n := range names {
		s.dirs[n] = dir
	}
	if err := s.script(ctx, "install-servers.sh", names...); err != nil {
		return nil, err
	}
	if err := s.script(ctx, "servers.sh", append([]string{"up", dir}, names...)...); err != nil {
		return nil, errors.Join(err, s.close()) // some of them may run
	}
	return s, s.environment()
}

// environment sets the environment variables that name the servers, as for other tests.
func (s *servers) environment() error {
	for name, dir := range s.dirs {
		b, err := os.ReadFile(filepath.Join(dir, name+".env"))
		if err != nil {
			return fmt.Errorf("reading the addresses of %s: %w", name, err)
		}
		sc := bufio.NewScanner(bytes.NewReader(b))
		for sc.Scan() {
			k, v, ok := strings.Cut(strings.TrimPrefix(sc.Text(), "export "), "=")
			if !ok || !strings.HasPrefix(k, "CARILLON_TEST_") {
				continue
			}
			if err := os.Setenv(k, strings.Trim(v, "'")); err != nil {
				return fmt.Errorf("setting the addresses of %s: %w", name, err)
			}
		}
	}
	return nil
}

// close stops all servers and deletes their data.
func (s *servers) close() error {
	done := make(map[string]bool)
	for _, dir := range s.dirs {
		if done[dir] {
			continue
		}
		done[dir] = true
		if err := s.script(context.Background(), "servers.sh", "wipe", dir); err != nil {
			return err
		}
	}
	return nil
}

func (s *servers) up(ctx context.Context, name string) error {
	return s.script(ctx, "servers.sh", "up", s.dirs[name], name)
}

// down stops a server in order.
func (s *servers) down(ctx context.Context, name string) error {
	return s.script(ctx, "servers.sh", "down", s.dirs[name], name)
}

// signal sends a signal to a server. If the signal ends the server, it waits until the process is
// gone.
func (s *servers) signal(ctx context.Context, name string, sig syscall.Signal) error {
	pid, err := s.pid(name)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("sending %s to %s: %w", sig, name, err)
	}
	for ctx.Err() == nil && running(pid) {
		clock.Pause(ctx, 10*time.Millisecond)
	}
	return ctx.Err()
}

// pid returns the server's process id, or an error if it does not run.
func (s *servers) pid(name string) (int, error) {
	return readPID(filepath.Join(s.dirs[name], name+".pid"), name)
}

// readPID returns the process id in a pid file, or an error if that process does not run.
func readPID(path, name string) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("finding the process of %s: %w", name, err)
	}
	first, _, _ := strings.Cut(string(b), " ")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0, fmt.Errorf("finding the process of %s: %w", name, err)
	}
	if !running(pid) {
		return 0, fmt.Errorf("%s is not running", name)
	}
	return pid, nil
}

// running reports whether a process is alive; a zombie is not.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	after := b[bytes.LastIndexByte(b, ')')+1:]
	return len(after) > 1 && after[1] != 'Z'
}

// script runs a script. What it starts is in the control group s.group, if there is one.
func (s *servers) script(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	line := append([]string{filepath.Join(s.scripts, name)}, args...)
	if s.group != "" {
		enter := `echo $$ >"$0/cgroup.procs" && exec "$@"`
		line = append([]string{"bash", "-c", enter, s.group}, line...)
	}
	//nolint:gosec // a script of ours
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), s.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
