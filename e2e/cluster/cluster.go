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

// The roles, one per service.
const (
	API       Role = "api"
	Migrator  Role = "migrator"
	Scheduler Role = "scheduler"
	Trigger   Role = "trigger"
	Executor  Role = "executor"
)

// Roles returns all roles.
func Roles() []Role { return []Role{API, Migrator, Scheduler, Trigger, Executor} }

// Cluster is a running deployment.
type Cluster interface {
	// Name returns the runner's name, such as "allinone" or "real".
	Name() string
	// API returns the base URL of a running API replica. With several replicas it rotates.
	API() string
	// Role returns the replicas of a role. An all-in-one process has every role.
	Role(r Role) []*Process
	// Processes returns all replicas.
	Processes() []*Process
	// Servers returns the servers that the processes share, or nil for an all-in-one.
	Servers() *Servers
	// Close kills every process.
	Close()
}

// Options configures a cluster.
type Options struct {
	Bin      string            // directory of the binaries
	Dir      string            // for logs and data
	Replicas int               // of each service; 0 is 1. An all-in-one has one
	Env      map[string]string // settings, in addition to the runner's
	// ReplicaEnv returns settings of one replica of a role. They override all others.
	ReplicaEnv func(r Role, replica int) map[string]string
	// Prepare may change the options once the real servers are known.
	Prepare func(*Options, *Servers) error
}

// ReadyTimeout is how long a cluster may take to become ready. It includes migrations and topics on
// servers that other tests use.
const ReadyTimeout = 4 * time.Minute

// group implements Cluster for all runners.
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

// API rotates over the replicas that listen. Without any it returns an address without listener, so
// that the call fails as it would for a client.
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

// start starts all processes and waits until each is ready. On an error it kills all.
func (g *group) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ReadyTimeout)
	defer cancel()
	if err := StartAll(ctx, g.procs...); err != nil {
		g.Close()
		return err
	}
	return nil
}

// StartAll starts processes in parallel and waits until each is ready.
func StartAll(ctx context.Context, procs ...*Process) error {
	eg, ctx := errgroup.WithContext(ctx)
	for _, p := range procs {
		eg.Go(func() error { return p.Start(ctx) })
	}
	return eg.Wait() //nolint:wrapcheck // it says what it was doing
}

// StopAll stops processes in order, in parallel.
func StopAll(ctx context.Context, procs ...*Process) error {
	eg, ctx := errgroup.WithContext(ctx)
	for _, p := range procs {
		eg.Go(func() error { return p.Stop(ctx) })
	}
	return eg.Wait() //nolint:wrapcheck // it says what it was doing
}

// get returns nil if the URL answers 200.
func get(ctx context.Context, url string) error {
	//nolint:mnd // a probe that takes longer has failed
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("creating a probe: %w", err)
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

// probes keeps no connection, so that the next probe does not get the broken one of a killed
// process.
var probes = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
