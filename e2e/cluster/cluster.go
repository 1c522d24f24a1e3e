package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Role is one of the five services.
type Role string

// The roles.
const (
	API       Role = "api"
	Migrator  Role = "migrator"
	Scheduler Role = "scheduler"
	Trigger   Role = "trigger"
	Executor  Role = "executor"
)

// Roles are all of them.
func Roles() []Role { return []Role{API, Migrator, Scheduler, Trigger, Executor} }

// Cluster is a running deployment.
type Cluster interface {
	// Name says which runner it is: "allinone" or "real".
	Name() string
	// API returns the base URL of a running API replica, another one each time where there are
	// several.
	API() string
	// Role returns the replicas that play a role. An all-in-one process plays each.
	Role(r Role) []*Process
	// Processes returns all replicas.
	Processes() []*Process
	// Servers returns what the processes share, nil where they share nothing.
	Servers() *Servers
	// Close ends every process at once.
	Close()
}

// Options say what to run.
type Options struct {
	Bin      string            // directory of the binaries
	Dir      string            // for logs and data
	Replicas int               // of each service; 0 is 1. An all-in-one has one
	Env      map[string]string // settings, on top of what the runner sets
	// ReplicaEnv returns settings of one replica of a role, on top of all others.
	ReplicaEnv func(r Role, replica int) map[string]string
	// Prepare, where there are real servers, may change the options when it is known which.
	Prepare func(*Options, *Servers) error
}

// ReadyTimeout is how long a cluster may take to become ready: migrations and topics on servers
// that are busy with other tests.
const ReadyTimeout = 4 * time.Minute

// group is what all runners have in common.
type group struct {
	name    string
	servers *Servers
	procs   []*Process
	roles   map[Role][]*Process
	next    atomic.Uint32
}

func (g *group) Name() string { return g.name }

func (g *group) Role(r Role) []*Process { return g.roles[r] }

func (g *group) Processes() []*Process { return g.procs }

func (g *group) Servers() *Servers { return g.servers }

// API goes round over the replicas that listen. With none it returns an address where nobody does:
// the call fails as it would for a user.
func (g *group) API() string {
	apis := g.roles[API]
	for range apis {
		p := apis[int(g.next.Add(1))%len(apis)]
		if u := p.HTTP(); u != "" {
			return u
		}
	}
	return "http://127.0.0.1:1"
}

func (g *group) Close() {
	for _, p := range g.procs {
		p.Kill()
	}
}

// start starts all processes and waits until each is ready. On an error everything is ended.
func (g *group) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ReadyTimeout)
	defer cancel()
	if err := StartAll(ctx, g.procs...); err != nil {
		g.Close()
		return err
	}
	return nil
}

// StartAll starts processes side by side and waits until each is ready.
func StartAll(ctx context.Context, procs ...*Process) error {
	eg, ctx := errgroup.WithContext(ctx)
	for _, p := range procs {
		eg.Go(func() error { return p.Start(ctx) })
	}
	return eg.Wait() //nolint:wrapcheck // it says what it was doing
}

// StopAll ends processes in good order, side by side.
func StopAll(ctx context.Context, procs ...*Process) error {
	eg, ctx := errgroup.WithContext(ctx)
	for _, p := range procs {
		eg.Go(func() error { return p.Stop(ctx) })
	}
	return eg.Wait() //nolint:wrapcheck // it says what it was doing
}

// get tells whether a URL answers 200.
func get(ctx context.Context, url string) error {
	//nolint:mnd // a probe that takes longer has failed
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("making a probe: %w", err)
	}
	resp, err := probes.Do(q)
	if err != nil {
		return fmt.Errorf("probing: %w", err)
	}
	b := make([]byte, 2048) //nolint:mnd // what a readiness answer says at its begin
	n, _ := resp.Body.Read(b)
	if err := resp.Body.Close(); err != nil {
		return fmt.Errorf("probing: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status + ": " + string(b[:n]))
	}
	return nil
}

// probes keeps no connection: a process that is killed must not leave a broken one to the next
// probe.
var probes = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
