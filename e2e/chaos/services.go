package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/clock"
)

// kill kills processes at once. It first freezes each to see which connections it has: only calls
// on those may be repeated.
func (env *Environment) kill(procs ...*cluster.Process) (proof string, err error) {
	var eg errgroup.Group
	var mu sync.Mutex
	var pids []string
	for _, p := range procs {
		eg.Go(func() error {
			pid := p.PID()
			ports, err := frozenPorts(p)
			if err != nil {
				return err
			}
			at := p.Kill()
			if running(pid) {
				return fmt.Errorf("%s is still alive", p.Name)
			}
			if isExecutor(p) {
				env.addInterruption(
					ledger.Interruption{At: at, Recording: env.recordTimeout(), Ports: ports},
				)
			}
			mu.Lock()
			defer mu.Unlock()
			pids = append(pids, strconv.Itoa(pid))
			return nil
		})
	}
	err = eg.Wait()
	return "gone: process " + strings.Join(pids, ", "), err
}

func isExecutor(p *cluster.Process) bool {
	return strings.HasPrefix(p.Name, string(cluster.Executor))
}

// frozenPorts freezes a process and returns the source ports of its calls.
func frozenPorts(p *cluster.Process) (map[uint16]bool, error) {
	if err := p.Pause(); err != nil {
		return nil, err
	}
	return p.Ports()
}

func (env *Environment) start(procs ...*cluster.Process) error {
	ctx, cancel := context.WithTimeout(env.ctx, cluster.ReadyTimeout)
	defer cancel()
	return cluster.StartAll(ctx, procs...)
}

func kills(env *Environment) error {
	for _, r := range cluster.Roles() {
		if err := killOne(r, recoveryWait)(env); err != nil {
			return err
		}
	}
	return killAll(env)
}

// killOne kills a replica, and starts it again after the other one had time to take over.
func killOne(r cluster.Role, wait time.Duration) func(*Environment) error {
	return func(env *Environment) error {
		p := env.replica(r, 0)
		if err := env.inject(
			"SIGKILL of one "+string(r),
			killTarget,
			func(*Fault) (string, error) { return env.kill(p) },
		); err != nil {
			return err
		}
		clock.Pause(env.ctx, wait)
		if err := env.start(p); err != nil {
			return err
		}
		clock.Pause(env.ctx, wait/2)
		return nil
	}
}

func killAll(env *Environment) error {
	err := env.inject(
		"SIGKILL of every process at once",
		outageTarget,
		func(f *Fault) (string, error) {
			proof, err := env.kill(env.c.Processes()...)
			if err != nil {
				return "", err
			}
			err = env.start(env.c.Processes()...)
			f.markEnd()
			return proof, err
		},
	)
	clock.Pause(env.ctx, env.recoveryWait())
	return err
}

// freezes stops, by SIGSTOP, one replica of each service, each 20 s after the previous one. So for some time
// one of each is frozen.
func freezes(env *Environment) error {
	var eg errgroup.Group
	for i, r := range cluster.Roles() {
		eg.Go(func() error {
			clock.Pause(env.ctx, time.Duration(i)*20*time.Second)
			return freezeOne(r, 90*time.Second)(env)
		})
	}
	return eg.Wait()
}

// freezeOne freezes a process for d and resumes it. Before its next call the process must notice
// that it has lost its session.
func freezeOne(r cluster.Role, d time.Duration) func(*Environment) error {
	return func(env *Environment) error {
		p := env.replica(r, 0)
		err := env.inject(
			fmt.Sprintf("SIGSTOP of one %s, for %s", r, d),
			freezeTarget,
			func(*Fault) (string, error) {
				at := time.Now()
				ports, err := frozenPorts(p)
				if err != nil {
					return "", err
				}
				if r == cluster.Executor {
					// The process takes a moment to freeze, and calls until then.
					env.addInterruption(
						ledger.Interruption{
							At:        at,
							Until:     time.Now(),
							Recording: env.recordTimeout(),
							Ports:     ports,
						},
					)
				}
				return "the kernel says that it is stopped", env.isFrozen(p)
			},
		)
		if err != nil {
			return err
		}
		clock.Pause(env.ctx, d)
		err = env.inject("SIGCONT of the "+string(r), freezeTarget, func(*Fault) (string, error) {
			if err := env.isFrozen(p); err != nil {
				return "", err
			}
			if err := p.Resume(); err != nil {
				return "", err
			}
			for range 100 {
				if state(p.PID()) != "T" {
					return "the kernel says that it runs: " + state(p.PID()), nil
				}
				clock.Pause(env.ctx, 10*time.Millisecond)
			}
			return "", nil
		})
		clock.Pause(env.ctx, env.recoveryWait())
		return err
	}
}

// isFrozen waits until the kernel reports the process as stopped, which takes milliseconds.
func (env *Environment) isFrozen(p *cluster.Process) error {
	s := ""
	for range 100 {
		if s = state(p.PID()); s == "T" {
			return nil
		}
		clock.Pause(env.ctx, 10*time.Millisecond)
	}
	return fmt.Errorf("%s is not frozen: state %q", p.Name, s)
}

// state returns the process state from /proc, such as "T" for stopped.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	after := b[bytes.LastIndexByte(b, ')')+1:]
	return string(bytes.TrimSpace(after)[:1])
}

// downFor stops all replicas of a service for d.
func downFor(r cluster.Role, d time.Duration) func(*Environment) error {
	return func(env *Environment) error {
		procs := env.c.Role(r)
		err := env.inject(
			fmt.Sprintf("all %ss down", r),
			outageTarget,
			func(f *Fault) (string, error) {
				proof, err := env.kill(procs...)
				if err != nil {
					return "", err
				}
				clock.Pause(env.ctx, d)
				if err := env.start(procs...); err != nil {
					return "", err
				}
				f.markEnd()
				return proof, nil
			},
		)
		clock.Pause(env.ctx, env.catchUpPause())
		return err
	}
}

func rollingRestart(env *Environment) error {
	return env.inject(
		"rolling restart",
		noTarget,
		func(f *Fault) (string, error) { return env.roll(f, "") },
	)
}

func rollingUpgrade(env *Environment) error {
	if env.opts.Previous == env.opts.Bin {
		return errors.New("no programs of a previous commit")
	}
	return env.inject(
		"rolling upgrade",
		noTarget,
		func(f *Fault) (string, error) { return env.roll(f, env.opts.Bin) },
	)
}

// roll stops and starts each process in order, from the directory bin if that is not empty.
func (env *Environment) roll(f *Fault, bin string) (proof string, err error) {
	var from, to []string
	for _, p := range env.c.Processes() {
		from = append(from, strconv.Itoa(p.PID()))
		ctx, cancel := context.WithTimeout(env.ctx, cluster.ReadyTimeout)
		err := p.Stop(ctx)
		cancel()
		if err != nil {
			return "", err
		}
		if bin != "" {
			p.SetBinary(bin)
		}
		if err := env.start(p); err != nil {
			return "", err
		}
		to = append(to, strconv.Itoa(p.PID()))
		clock.Pause(env.ctx, time.Second)
	}
	f.markEnd()
	return fmt.Sprintf(
		"processes %s became %s",
		strings.Join(from, " "),
		strings.Join(to, " "),
	), nil
}

// setClock skews a process's clock, by its admin port.
func (env *Environment) setClock(p *cluster.Process, by time.Duration) error {
	body, err := json.Marshal(map[string]int64{"offset_ms": by.Milliseconds()})
	if err != nil {
		return fmt.Errorf("setting the clock: %w", err)
	}
	q, err := http.NewRequestWithContext(
		env.ctx,
		http.MethodPost,
		p.Admin()+"/test/clock",
		bytes.NewReader(body),
	)
	if err != nil {
		return fmt.Errorf("setting the clock: %w", err)
	}
	q.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return fmt.Errorf("setting the clock: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("setting the clock of %s: answer %s", p.Name, resp.Status)
	}
	return nil
}

// clockFaults skews the clocks of each service, then makes all of them jump. The proof is the
// offset that the services measure.
func clockFaults(env *Environment) error {
	for _, r := range cluster.Roles() {
		for _, by := range []time.Duration{-2 * time.Second, 2 * time.Second} {
			p := env.replica(r, 0)
			name := fmt.Sprintf("clock of one %s %s", r, signed(by))
			if err := env.inject(
				name,
				noTarget,
				func(*Fault) (string, error) { return env.clocksAt(by, p) },
			); err != nil {
				return err
			}
			clock.Pause(env.ctx, 6*time.Second)
			if err := env.setClock(p, 0); err != nil {
				return err
			}
			clock.Pause(env.ctx, 4*time.Second)
		}
	}
	return env.inject(
		"all clocks jump by up to 2 s, every 3 s",
		noTarget,
		func(f *Fault) (string, error) {
			var proofs []string
			for i := range 6 {
				for n, p := range env.c.Processes() {
					if err := env.setClock(
						p,
						time.Duration((i*7+n*5)%9-4)*500*time.Millisecond,
					); err != nil {
						return "", err
					}
				}
				clock.Pause(env.ctx, 3*time.Second)
			}
			proof, err := env.clocksAt(2*time.Second, env.replica(cluster.Executor, 1))
			proofs = append(proofs, proof)
			for _, p := range env.c.Processes() {
				if err := env.setClock(p, 0); err != nil {
					return "", err
				}
			}
			clock.Pause(env.ctx, env.recoveryWait())
			f.markEnd()
			return strings.Join(proofs, ", "), err
		},
	)
}

func signed(d time.Duration) string {
	if d < 0 {
		return fmt.Sprintf("%s behind", -d)
	}
	return fmt.Sprintf("%s ahead", d)
}

// clocksAt skews clocks and waits until the process has measured the offset.
func (env *Environment) clocksAt(by time.Duration, p *cluster.Process) (proof string, err error) {
	if err := env.setClock(p, by); err != nil {
		return "", err
	}
	for range 100 {
		m, err := p.Metrics(env.ctx)
		if err != nil {
			return "", err
		}
		if off := m.Sum(
			"carillon_clock_offset_seconds",
		); off*by.Seconds() < 0 &&
			max(off, -off) > 1 {
			return fmt.Sprintf("%s measures an offset of %.2f s to the database", p.Name, off), nil
		}
		clock.Pause(env.ctx, 50*time.Millisecond)
	}
	return "", fmt.Errorf("%s does not measure its clock's offset", p.Name)
}
