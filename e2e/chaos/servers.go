package chaos

import (
	"bufio"
	"bytes"
	"context"
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

// The names by which scripts/servers.sh knows the servers.
const (
	mysqlServer  = "mysql"
	redisServer  = "redis"
	pulsarServer = "pulsar"
)

// servers are MariaDB, Redis and Pulsar of the run's own, for faults to befall.
type servers struct {
	scripts string
	dirs    map[string]string // of each server
}

// startServers installs and starts what is missing; it takes a minute on a fresh machine, and 15 s
// later.
func startServers(ctx context.Context, root, dir string) (*servers, error) {
	s := &servers{scripts: filepath.Join(root, "scripts"), dirs: make(map[string]string)}
	names := []string{mysqlServer, redisServer, pulsarServer}
	for _, n := range names {
		s.dirs[n] = dir
	}
	if err := s.script(ctx, "install-servers.sh", names...); err != nil {
		return nil, err
	}
	if err := s.script(ctx, "servers.sh", append([]string{"up", dir}, names...)...); err != nil {
		return nil, err
	}
	return s, s.environment()
}

// environment tells this process where the servers are, as the tests of the parts are told.
func (s *servers) environment() error {
	for name, dir := range s.dirs {
		b, err := os.ReadFile(filepath.Join(dir, name+".env"))
		if err != nil {
			return fmt.Errorf("reading where %s is: %w", name, err)
		}
		sc := bufio.NewScanner(bytes.NewReader(b))
		for sc.Scan() {
			k, v, ok := strings.Cut(strings.TrimPrefix(sc.Text(), "export "), "=")
			if !ok || !strings.HasPrefix(k, "CARILLON_TEST_") {
				continue
			}
			if err := os.Setenv(k, strings.Trim(v, "'")); err != nil {
				return fmt.Errorf("keeping where %s is: %w", name, err)
			}
		}
	}
	return nil
}

// close ends all of them and removes what they kept. Nothing of a run stays.
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

// down ends a server in good order.
func (s *servers) down(ctx context.Context, name string) error {
	return s.script(ctx, "servers.sh", "down", s.dirs[name], name)
}

// signal sends a signal to a server and waits, for one that ends it, until it is gone.
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

// pid returns the process that a server is, and an error where it does not run.
func (s *servers) pid(name string) (int, error) {
	b, err := os.ReadFile(filepath.Join(s.dirs[name], name+".pid"))
	if err != nil {
		return 0, fmt.Errorf("finding %s: %w", name, err)
	}
	first, _, _ := strings.Cut(string(b), " ")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0, fmt.Errorf("finding %s: %w", name, err)
	}
	if !running(pid) {
		return 0, fmt.Errorf("%s does not run", name)
	}
	return pid, nil
}

// running tells whether a process lives; a zombie does not.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	after := b[bytes.LastIndexByte(b, ')')+1:]
	return len(after) > 1 && after[1] != 'Z'
}

func (s *servers) script(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	//nolint:gosec // a script of ours
	cmd := exec.CommandContext(ctx, filepath.Join(s.scripts, name), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
