package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Options configures a run.
type Options struct {
	Root     string // of the workspace
	Bin      string // directory of the programs
	Previous string // directory of the programs to upgrade from; built if a scenario needs it
	Next     string // directory of programs whose schema is one migration later; built likewise
	Dir      string // for logs and the servers' data
	Rate     int    // fires per second; 500
	Capacity int    // fires per second that this machine can run, for the overload
	Log      io.Writer
}

// Run runs scenarios one after the other on its own servers. It returns a result for each that
// finished, and calls done with each.
func Run(ctx context.Context, o Options, scenarios []*Scenario, done func(*Result)) (err error) {
	srv, err := startServers(ctx, o.Root, filepath.Join(o.Dir, "servers"), serverNames(scenarios))
	if err != nil {
		return fmt.Errorf("starting MariaDB, Redis and Pulsar: %w", err)
	}
	defer func() {
		if closeErr := srv.close(); err == nil {
			err = closeErr
		}
	}()
	var failed error
	commit := output(ctx, o.Root, "git", "rev-parse", "--short", "HEAD")
	for i, s := range scenarios {
		fmt.Fprintf(o.Log, "== %d of %d: %s: %s\n", i+1, len(scenarios), s.Name, s.About)
		r, err := runOn(ctx, srv, &o, s)
		if err != nil && ctx.Err() == nil {
			failed = errors.Join(failed, fmt.Errorf("scenario %s: %w", s.Name, err))
			continue // run the other scenarios
		}
		if err != nil {
			return err
		}
		r.Date, r.Commit = time.Now().UTC().Format(time.DateOnly), commit
		fmt.Fprintf(
			o.Log,
			"   due %d, called %d, delivered %d, failed %d, skipped %v, missing %d, early %d, called twice %d (%d in flight); p50 %s p99 %s max %s\n",
			r.Due,
			r.Called,
			r.Delivered,
			r.Failed,
			r.Skipped,
			r.Missing,
			r.Early,
			r.Duplicates+r.Excused,
			r.Excused,
			r.Lateness.P50,
			r.Lateness.P99,
			r.Lateness.Max,
		)
		for _, f := range r.Faults {
			fmt.Fprintf(
				o.Log,
				"   %-45s lasted %5.1f s, %6d late %v; on time after %5.1f s, caught up after %5.1f s; targets met: %v\n",
				f.Name,
				f.outageLength().Seconds(),
				f.Late,
				f.Kinds,
				f.OnTimeAfter.Seconds(),
				f.CaughtUpAfter.Seconds(),
				f.TargetsMet,
			)
		}
		for _, b := range r.Broken {
			fmt.Fprintf(o.Log, "   BROKEN: %s\n", b)
		}
		done(r)
	}
	return failed
}

// serverNames returns the servers that scenarios need.
func serverNames(scenarios []*Scenario) []string {
	var names []string
	for _, s := range scenarios {
		mysql, redis, pulsar := mysqlServer, redisServer, pulsarServer
		if s.Clusters.Galera {
			mysql = galera
		}
		if s.Clusters.Sharded {
			redis = redisCluster
		}
		if s.Clusters.Sentinel {
			redis = redisSentinel
		}
		if s.Clusters.Pulsar {
			pulsar = pulsarCluster
		}
		for _, n := range []string{mysql, redis, pulsar} {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names
}

// runOn runs one scenario, with its own disk or programs if it needs them.
func runOn(ctx context.Context, srv *servers, o *Options, s *Scenario) (*Result, error) {
	for name := range srv.dirs { // the previous scenario may have ended during an outage
		if err := srv.up(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := o.build(ctx, s); err != nil {
		return nil, err
	}
	if !s.Disk {
		return run(ctx, srv, *o, s)
	}
	small, free, err := smallDisk(ctx, srv, filepath.Join(o.Dir, "small-disk"))
	if err != nil {
		return nil, err
	}
	r, err := run(ctx, small, *o, s)
	if freeErr := free(); err == nil {
		err = freeErr
	}
	return r, err
}

// smallDisk starts another MariaDB on a memory disk with little more room than an empty database
// needs. It needs the right to mount.
func smallDisk(
	ctx context.Context,
	srv *servers,
	dir string,
) (small *servers, free func() error, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, nil, fmt.Errorf("creating a disk: %w", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=480m"); err != nil {
		return nil, nil, fmt.Errorf("mounting a memory disk (needs root): %w", err)
	}
	small = &servers{scripts: srv.scripts, dirs: map[string]string{
		mysqlServer: dir, redisServer: srv.dirs[redisServer], pulsarServer: srv.dirs[pulsarServer],
	}}
	free = func() error {
		downErr := small.down(context.Background(), mysqlServer)
		if err := syscall.Unmount(dir, 0); err != nil {
			return fmt.Errorf("removing a disk: %w", err)
		}
		if err := srv.environment(); err != nil {
			return err
		}
		return downErr
	}
	if err := small.up(ctx, mysqlServer); err != nil {
		return nil, nil, fmt.Errorf("%w (%w)", err, free())
	}
	return small, free, small.environment()
}

// output returns a command's output, or "" if it fails.
func output(ctx context.Context, dir, name string, args ...string) string {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the arguments are ours
	cmd.Dir = dir
	b, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
