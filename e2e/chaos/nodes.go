package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

// Names of the clusters in scripts/servers.sh. Each has a script of the same name, which starts and
// stops single nodes.
const (
	pulsarCluster = "pulsar-cluster"
	redisCluster  = "redis-cluster"
	redisSentinel = "redis-sentinel"
	galera        = "galera"
)

// node is one process of a cluster of servers.
type node struct {
	server string // name of the cluster
	name   string // of its pid file
}

// nodeKind is a kind of nodes that take over from each other.
type nodeKind struct {
	called string
	nodes  []node
	target Target // when one of them fails
	// pick returns the node whose failure matters most; nil: the first.
	pick func(env *Environment, nodes []node) (node, error)
}

// The kinds of nodes. New kinds of servers join here.
//
//nolint:gochecknoglobals // never written
var (
	brokers = nodeKind{
		"broker", nodesOf(pulsarCluster, "broker", 3), unnoticedTarget, pickOwner,
	}
	bookies    = nodeKind{"bookie", nodesOf(pulsarCluster, "bookie", 3), nodeTarget, nil}
	zookeepers = nodeKind{
		"ZooKeeper", nodesOf(pulsarCluster, "zookeeper", 3), nodeTarget, pickLeader,
	}
	redisMasters = nodeKind{
		"Redis master", nodesOf(redisCluster, "", 6), nodeTarget, pickMaster,
	}
	sentinelMasters = nodeKind{
		"Redis master under Sentinel", nodesOf(redisSentinel, "server", 3), nodeTarget, pickMaster,
	}
	sentinels = nodeKind{"sentinel", nodesOf(redisSentinel, "", 3), nodeTarget, nil}
	// The services write on the first that serves.
	galeraNodes = nodeKind{"Galera node", nodesOf(galera, "", 3), nodeTarget, nil}
)

func nodesOf(server, part string, n int) []node {
	prefix := server + "-"
	if part != "" {
		prefix += part + "-"
	}
	nodes := make([]node, n)
	for i := range nodes {
		nodes[i] = node{server, fmt.Sprint(prefix, i+1)}
	}
	return nodes
}

func (env *Environment) pick(k nodeKind) (node, error) {
	if k.pick == nil {
		return k.nodes[0], nil
	}
	return k.pick(env, k.nodes)
}

// nodePID returns the process id of a node, or an error if it does not run.
func (s *servers) nodePID(n node) (int, error) {
	return readPID(filepath.Join(s.dirs[n.server], n.name+".pid"), n.name)
}

// nodePort returns the port of a node.
func (s *servers) nodePort(n node) (string, error) {
	b, err := os.ReadFile(filepath.Join(s.dirs[n.server], n.name+".port"))
	if err != nil {
		return "", fmt.Errorf("finding the port of %s: %w", n.name, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// killNodes kills nodes at once. Its proof is that the processes are gone.
func (s *servers) killNodes(ctx context.Context, nodes ...node) (proof string, err error) {
	var pids []int
	for _, n := range nodes {
		pid, err := s.nodePID(n)
		if err != nil {
			return "", err
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return "", fmt.Errorf("killing process %d: %w", pid, err)
		}
	}
	gone := make([]string, 0, len(nodes))
	for _, pid := range pids {
		for ctx.Err() == nil && running(pid) {
			clock.Pause(ctx, 10*time.Millisecond)
		}
		gone = append(gone, strconv.Itoa(pid))
	}
	for i, n := range nodes {
		gone[i] = n.name + ", process " + gone[i]
	}
	return "gone: " + strings.Join(gone, "; "), ctx.Err()
}

// startNodes starts nodes and waits until they serve.
func (s *servers) startNodes(ctx context.Context, nodes ...node) error {
	return s.nodeScript(ctx, "up", nodes)
}

// stopNodes stops nodes in order.
func (s *servers) stopNodes(ctx context.Context, nodes ...node) error {
	return s.nodeScript(ctx, "down", nodes)
}

// nodeScript runs the script of each cluster that has some of the nodes.
func (s *servers) nodeScript(ctx context.Context, verb string, nodes []node) error {
	var errs []error
	for _, server := range []string{galera, pulsarCluster, redisCluster, redisSentinel} {
		args := []string{verb, s.dirs[server]}
		for _, n := range nodes {
			if n.server == server {
				args = append(args, n.name)
			}
		}
		if len(args) > 2 { //nolint:mnd // more than verb and directory
			errs = append(errs, s.script(ctx, server+".sh", args...))
		}
	}
	return errors.Join(errs...)
}

// killNode kills the node of a kind whose failure matters most, and starts it again after the others
// had time to take over.
func killNode(k nodeKind) func(*Environment) error {
	return func(env *Environment) error {
		n, err := env.pick(k)
		if err != nil {
			return err
		}
		if err := env.inject(
			"SIGKILL of one "+k.called,
			k.target,
			func(*Fault) (string, error) { return env.srv.killNodes(env.ctx, n) },
		); err != nil {
			return err
		}
		return env.restartNodes(k.called, n)
	}
}

// nodeRecoveryWait is how long a scenario waits after the loss of a node. A cluster takes up to 10 s
// to notice it.
const nodeRecoveryWait = 20 * time.Second

// restartNodes starts nodes after the others had time to take over. That they join again is a fault
// of its own, because it moves work once more.
func (env *Environment) restartNodes(called string, nodes ...node) error {
	clock.Pause(env.ctx, nodeRecoveryWait)
	err := env.inject("start of the "+called, nodeTarget, func(*Fault) (string, error) {
		if err := env.srv.startNodes(env.ctx, nodes...); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d of them serve again", len(nodes)), nil
	})
	clock.Pause(env.ctx, env.recoveryWait())
	return err
}

// freezeNode stops the node of a kind whose failure matters most by SIGSTOP, and resumes it after
// the others had time to take over.
func freezeNode(k nodeKind) func(*Environment) error {
	const d = 30 * time.Second
	return func(env *Environment) (err error) {
		n, err := env.pick(k)
		if err != nil {
			return err
		}
		pid, err := env.srv.nodePID(n)
		if err != nil {
			return err
		}
		// A run that fails meanwhile must not leave it frozen.
		defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
		err = env.inject(
			fmt.Sprintf("SIGSTOP of one %s, for %s", k.called, d),
			k.target,
			func(*Fault) (string, error) {
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					return "", fmt.Errorf("freezing %s: %w", n.name, err)
				}
				for range 100 {
					if state(pid) == "T" {
						return "the kernel says that " + n.name + " is stopped", nil
					}
					clock.Pause(env.ctx, 10*time.Millisecond)
				}
				return "", nil
			},
		)
		if err != nil {
			return err
		}
		clock.Pause(env.ctx, d)
		err = env.inject("SIGCONT of the "+k.called, nodeTarget, func(*Fault) (string, error) {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				return "", fmt.Errorf("resuming %s: %w", n.name, err)
			}
			return "process " + strconv.Itoa(pid) + " goes on", nil
		})
		clock.Pause(env.ctx, env.recoveryWait())
		return err
	}
}

// pickEach returns a node of each kind, and what they are called.
func (env *Environment) pickEach(kinds []nodeKind) (nodes []node, what string, err error) {
	var called []string
	for _, k := range kinds {
		n, err := env.pick(k)
		if err != nil {
			return nil, "", err
		}
		nodes, called = append(nodes, n), append(called, k.called)
	}
	return nodes, strings.Join(called, ", "), nil
}

// killOneOfEach kills one node of each kind at once.
func killOneOfEach(kinds ...nodeKind) func(*Environment) error {
	return func(env *Environment) error {
		nodes, what, err := env.pickEach(kinds)
		if err != nil {
			return err
		}
		if err := env.inject(
			"SIGKILL at once of one "+what,
			nodeTarget,
			func(*Fault) (string, error) {
				return env.srv.killNodes(env.ctx, nodes...)
			},
		); err != nil {
			return err
		}
		return env.restartNodes(what, nodes...)
	}
}

// loseQuorum kills all but one node of a kind for 20 s.
func loseQuorum(k nodeKind) func(*Environment) error {
	const d = 20 * time.Second
	return func(env *Environment) error {
		lost := k.nodes[1:]
		name := fmt.Sprintf("%d of %d %ss down for %s", len(lost), len(k.nodes), k.called, d)
		err := env.inject(name, quorumTarget, func(f *Fault) (string, error) {
			proof, err := env.srv.killNodes(env.ctx, lost...)
			if err != nil {
				return "", err
			}
			clock.Pause(env.ctx, d)
			err = env.srv.startNodes(env.ctx, lost...)
			f.markEnd()
			return proof, err
		})
		clock.Pause(env.ctx, env.catchUpPause()+nodeRecoveryWait)
		return err
	}
}

// rollNodes stops and starts each node of a kind in order.
func rollNodes(k nodeKind) func(*Environment) error {
	return func(env *Environment) error { return env.rollEach(k, "rolling restart of every "+k.called) }
}

// rollEach stops and starts each node of a kind in order.
func (env *Environment) rollEach(k nodeKind, name string) error {
	err := env.inject(name, k.target, func(f *Fault) (string, error) {
		var from, to []int
		for _, n := range k.nodes {
			before, err := env.srv.nodePID(n)
			if err != nil {
				return "", err
			}
			if err := env.srv.stopNodes(env.ctx, n); err != nil {
				return "", err
			}
			if err := env.srv.startNodes(env.ctx, n); err != nil {
				return "", err
			}
			after, err := env.srv.nodePID(n)
			if err != nil {
				return "", err
			}
			if home := env.srv.home[n.server]; home != "" && !runsFrom(after, home) {
				return "", fmt.Errorf("%s does not run the programs of %s", n.name, home)
			}
			from, to = append(from, before), append(to, after)
			clock.Pause(env.ctx, 3*time.Second)
		}
		f.markEnd()
		return fmt.Sprintf("processes %v became %v", from, to), nil
	})
	clock.Pause(env.ctx, env.recoveryWait())
	return err
}
