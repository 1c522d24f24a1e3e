package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

// cutOffGroup is the control group of the processes that a partition cuts off.
const cutOffGroup = "carillon-chaos"

// partition cuts one node of each kind off from everything for d: the nodes send nothing, and so
// answer nothing. Before, each gets into a control group, by a stop and a start that other scenarios
// judge: the kernel notes a connection's group when it begins.
func partition(d time.Duration, kinds ...nodeKind) func(*Environment) error {
	return func(env *Environment) (err error) {
		nodes, what, err := env.pickEach(kinds)
		if err != nil {
			return err
		}
		if err := env.srv.script(env.ctx, "install-servers.sh", "iptables"); err != nil {
			return err
		}
		group, free, err := makeGroup()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, free()) }()
		for _, n := range nodes {
			if err := env.srv.stopNodes(env.ctx, n); err != nil {
				return err
			}
			env.srv.group = group
			err := env.srv.startNodes(env.ctx, n)
			env.srv.group = ""
			if err != nil {
				return err
			}
			clock.Pause(env.ctx, env.recoveryWait())
		}
		cut := &firewallRule{match: []string{"-m", "cgroup", "--path", cutOffGroup}}
		defer func() { err = errors.Join(err, cut.remove()) }() // also after an error
		err = env.inject("one "+what+" cut off", nodeTarget, func(*Fault) (string, error) {
			if err := cut.add(env.ctx); err != nil {
				return "", err
			}
			clock.Pause(env.ctx, d)
			n, err := cut.dropped(env.ctx)
			if err == nil && n == 0 {
				err = errors.New("the kernel dropped no packet")
			}
			return fmt.Sprintf("the kernel dropped %d packets", n), err
		})
		if err != nil {
			return err
		}
		err = env.inject("the end of the partition", nodeTarget, func(*Fault) (string, error) {
			return "packets pass again", cut.remove()
		})
		clock.Pause(env.ctx, env.recoveryWait()+nodeRecoveryWait)
		return err
	}
}

// makeGroup creates the control group and returns its directory. free moves the processes to the
// group above, and removes it. It needs root.
func makeGroup() (dir string, free func() error, err error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return "", nil, fmt.Errorf("finding the control groups: %w", err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) < 3 || fields[2] != "cgroup2" {
			continue
		}
		dir := filepath.Join(fields[1], cutOffGroup)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return "", nil, fmt.Errorf("creating a control group (needs root): %w", err)
		}
		return dir, func() error { return freeGroup(dir) }, nil
	}
	return "", nil, errors.New("the kernel has no control groups of version 2")
}

func freeGroup(dir string) error {
	const processes = "cgroup.procs"
	b, err := os.ReadFile(filepath.Join(dir, processes))
	if err != nil {
		return fmt.Errorf("reading a control group: %w", err)
	}
	parent := filepath.Join(filepath.Dir(dir), processes)
	for pid := range strings.FieldsSeq(string(b)) {
		_ = os.WriteFile(parent, []byte(pid), 0o600) // it may have ended
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("removing a control group: %w", err)
	}
	return nil
}

// firewallRule drops the matching packets that processes of this host send.
type firewallRule struct {
	match []string
	in    bool
}

func (r *firewallRule) add(ctx context.Context) error {
	_, err := iptables(ctx, append([]string{"-I", "OUTPUT", "-j", "DROP"}, r.match...)...)
	r.in = err == nil
	return err
}

// remove removes the rule, at most once.
func (r *firewallRule) remove() error {
	if !r.in {
		return nil
	}
	r.in = false
	_, err := iptables(
		context.Background(),
		append([]string{"-D", "OUTPUT", "-j", "DROP"}, r.match...)...)
	return err
}

// dropped returns how many packets the rule has dropped. It is the first of its chain.
func (r *firewallRule) dropped(ctx context.Context) (int, error) {
	out, err := iptables(ctx, "-L", "OUTPUT", "1", "-v", "-x", "-n")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.Fields(out + " 0")[0])
	if err != nil {
		return 0, fmt.Errorf("reading the packets that were dropped: %w", err)
	}
	return n, nil
}

func iptables(ctx context.Context, args ...string) (string, error) {
	//nolint:gosec // the arguments are ours
	out, err := exec.CommandContext(ctx, "iptables", append([]string{"-w"}, args...)...).
		CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("iptables: %w: %s", err, out)
	}
	return string(out), nil
}
