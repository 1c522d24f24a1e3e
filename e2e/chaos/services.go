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

// kill kills processes at once. Each is frozen for the moment that it takes to see which
// connections are its own: only calls on those have an excuse to come again.
func (w *Environment) kill(procs ...*cluster.Process) (proof string, err error) {
	var eg errgroup.Group
	var mu sync.Mutex
	var pids []string
	for _, p := range procs {
		eg.Go(func() error {
			pid := p.PID()
			ports, err := w.ports(p)
			if err != nil {
				return err
			}
			at := p.Kill()
			if running(pid) {
				return fmt.Errorf("%s lives", p.Name)
			}
			if isExecutor(p) {
				w.cut(ledger.Cut{At: at, Recording: w.recording(), Ports: ports})
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

// ports freezes a process and returns the ports that its calls come from.
func (w *Environment) ports(p *cluster.Process) (map[uint16]bool, error) {
	if err := p.Pause(); err != nil {
		return nil, err
	}
	ports, err := p.Ports()
	if err != nil {
		return nil, err
	}
	if !isExecutor(p) {
		return ports, nil
	}
	return w.throughProxy(ports)
}

func (w *Environment) start(procs ...*cluster.Process) error {
	ctx, cancel := context.WithTimeout(w.ctx, cluster.ReadyTimeout)
	defer cancel()
	return cluster.StartAll(ctx, procs...)
}

func kills(w *Environment) error {
	for _, r := range cluster.Roles() {
		if err := killOne(r, settled)(w); err != nil {
			return err
		}
	}
	return killAll(w)
}

// killOne kills a replica, and starts it again when the other one has had time to take over.
func killOne(r cluster.Role, wait time.Duration) func(*Environment) error {
	return func(w *Environment) error {
		p := w.replica(r, 0)
		if err := w.befall(
			"SIGKILL of one "+string(r),
			killed,
			func(*Fault) (string, error) { return w.kill(p) },
		); err != nil {
			return err
		}
		clock.Pause(w.ctx, wait)
		if err := w.start(p); err != nil {
			return err
		}
		clock.Pause(w.ctx, wait/2)
		return nil
	}
}

func killAll(w *Environment) error {
	err := w.befall(
		"SIGKILL of every process at once",
		outageEnded,
		func(f *Fault) (string, error) {
			proof, err := w.kill(w.c.Processes()...)
			if err != nil {
				return "", err
			}
			err = w.start(w.c.Processes()...)
			f.over()
			return proof, err
		},
	)
	clock.Pause(w.ctx, w.settled())
	return err
}

// freezes has one of each service frozen, each 20 s after the one before, so that for a while one
// of each stands still.
func freezes(w *Environment) error {
	var eg errgroup.Group
	for i, r := range cluster.Roles() {
		eg.Go(func() error {
			clock.Pause(w.ctx, time.Duration(i)*20*time.Second)
			return freezeOne(r, 90*time.Second)(w)
		})
	}
	return eg.Wait()
}

// freezeOne stops a process for d and wakes it. A zombie must see before its next call that it has
// lost its session.
func freezeOne(r cluster.Role, d time.Duration) func(*Environment) error {
	return func(w *Environment) error {
		p := w.replica(r, 0)
		err := w.befall(
			fmt.Sprintf("SIGSTOP of one %s, for %s", r, d),
			frozen,
			func(*Fault) (string, error) {
				at := time.Now()
				ports, err := w.ports(p)
				if err != nil {
					return "", err
				}
				if r == cluster.Executor {
					// It takes a moment until it stands still, and until then it calls.
					w.cut(
						ledger.Cut{
							At:        at,
							Until:     time.Now(),
							Recording: w.recording(),
							Ports:     ports,
						},
					)
				}
				return "the kernel says that it is stopped", w.isFrozen(p)
			},
		)
		if err != nil {
			return err
		}
		clock.Pause(w.ctx, d)
		err = w.befall("SIGCONT of the "+string(r), frozen, func(*Fault) (string, error) {
			if err := w.isFrozen(p); err != nil {
				return "", err
			}
			if err := p.Resume(); err != nil {
				return "", err
			}
			for range 100 {
				if state(p.PID()) != "T" {
					return "the kernel says that it runs: " + state(p.PID()), nil
				}
				clock.Pause(w.ctx, 10*time.Millisecond)
			}
			return "", nil
		})
		clock.Pause(w.ctx, w.settled())
		return err
	}
}

// isFrozen waits until the kernel says so, which it does within milliseconds.
func (w *Environment) isFrozen(p *cluster.Process) error {
	s := ""
	for range 100 {
		if s = state(p.PID()); s == "T" {
			return nil
		}
		clock.Pause(w.ctx, 10*time.Millisecond)
	}
	return fmt.Errorf("%s is not frozen: state %q", p.Name, s)
}

// state returns the letter by which the kernel tells what a process does.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	after := b[bytes.LastIndexByte(b, ')')+1:]
	return string(bytes.TrimSpace(after)[:1])
}

// downFor has all of a service down for d.
func downFor(r cluster.Role, d time.Duration) func(*Environment) error {
	return func(w *Environment) error {
		procs := w.c.Role(r)
		err := w.befall(
			fmt.Sprintf("all %ss down", r),
			outageEnded,
			func(f *Fault) (string, error) {
				proof, err := w.kill(procs...)
				if err != nil {
					return "", err
				}
				clock.Pause(w.ctx, d)
				if err := w.start(procs...); err != nil {
					return "", err
				}
				f.over()
				return proof, nil
			},
		)
		clock.Pause(w.ctx, w.toCatchUp())
		return err
	}
}

func rollingRestart(w *Environment) error {
	return w.befall(
		"rolling restart",
		none,
		func(f *Fault) (string, error) { return w.roll(f, "") },
	)
}

func rollingUpgrade(w *Environment) error {
	if w.opts.Previous == w.opts.Bin {
		return errors.New("there are no programs of a previous commit")
	}
	return w.befall(
		"rolling upgrade",
		none,
		func(f *Fault) (string, error) { return w.roll(f, w.opts.Bin) },
	)
}

// roll stops and starts each process in good order, from another directory where one is given.
func (w *Environment) roll(f *Fault, bin string) (proof string, err error) {
	var from, to []string
	for _, p := range w.c.Processes() {
		from = append(from, strconv.Itoa(p.PID()))
		ctx, cancel := context.WithTimeout(w.ctx, cluster.ReadyTimeout)
		err := p.Stop(ctx)
		cancel()
		if err != nil {
			return "", err
		}
		if bin != "" {
			p.Use(bin)
		}
		if err := w.start(p); err != nil {
			return "", err
		}
		to = append(to, strconv.Itoa(p.PID()))
		clock.Pause(w.ctx, time.Second)
	}
	f.over()
	return fmt.Sprintf(
		"processes %s became %s",
		strings.Join(from, " "),
		strings.Join(to, " "),
	), nil
}

// setClock puts a process's clock off, by its admin port.
func (w *Environment) setClock(p *cluster.Process, by time.Duration) error {
	body, err := json.Marshal(map[string]int64{"offset_ms": by.Milliseconds()})
	if err != nil {
		return fmt.Errorf("setting a clock: %w", err)
	}
	q, err := http.NewRequestWithContext(
		w.ctx,
		http.MethodPost,
		p.Admin()+"/test/clock",
		bytes.NewReader(body),
	)
	if err != nil {
		return fmt.Errorf("setting a clock: %w", err)
	}
	q.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return fmt.Errorf("setting a clock: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("setting the clock of %s: answer %s", p.Name, resp.Status)
	}
	return nil
}

// clockFaults puts the clocks of each service off, then lets all of them jump. The proof is the
// offset that the services themselves measure.
func clockFaults(w *Environment) error {
	for _, r := range cluster.Roles() {
		for _, by := range []time.Duration{-2 * time.Second, 2 * time.Second} {
			p := w.replica(r, 0)
			name := fmt.Sprintf("clock of one %s %s", r, signed(by))
			if err := w.befall(
				name,
				none,
				func(*Fault) (string, error) { return w.clocksAt(by, p) },
			); err != nil {
				return err
			}
			clock.Pause(w.ctx, 6*time.Second)
			if err := w.setClock(p, 0); err != nil {
				return err
			}
			clock.Pause(w.ctx, 4*time.Second)
		}
	}
	return w.befall(
		"all clocks jump by up to 2 s, every 3 s",
		none,
		func(f *Fault) (string, error) {
			var proofs []string
			for i := range 6 {
				for n, p := range w.c.Processes() {
					if err := w.setClock(
						p,
						time.Duration((i*7+n*5)%9-4)*500*time.Millisecond,
					); err != nil {
						return "", err
					}
				}
				clock.Pause(w.ctx, 3*time.Second)
			}
			proof, err := w.clocksAt(2*time.Second, w.replica(cluster.Executor, 1))
			proofs = append(proofs, proof)
			for _, p := range w.c.Processes() {
				if err := w.setClock(p, 0); err != nil {
					return "", err
				}
			}
			clock.Pause(w.ctx, w.settled())
			f.over()
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

// clocksAt puts clocks off and waits until the process has measured it.
func (w *Environment) clocksAt(by time.Duration, p *cluster.Process) (proof string, err error) {
	if err := w.setClock(p, by); err != nil {
		return "", err
	}
	for range 100 {
		m, err := p.Metrics(w.ctx)
		if err != nil {
			return "", err
		}
		if off := m.Sum(
			"carillon_clock_offset_seconds",
		); off*by.Seconds() < 0 &&
			max(off, -off) > 1 {
			return fmt.Sprintf("%s measures an offset of %.2f s to the database", p.Name, off), nil
		}
		clock.Pause(w.ctx, 50*time.Millisecond)
	}
	return "", fmt.Errorf("%s does not measure that its clock is off", p.Name)
}
