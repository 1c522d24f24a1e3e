package chaos

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/clock"
)

const (
	replicas = 2
	// recordTimeout is how long an executor on a busy machine may take to record an answer. A test
	// allows more, because no timing may decide there.
	recordTimeout      = 3 * time.Second
	recordTimeoutShort = 30 * time.Second
	// leaseValidity is how long an executor without database connection goes on calling: until its
	// session's lease validity ends.
	leaseValidity = 2500 * time.Millisecond
	warmUp        = 5 * time.Second
	minFires      = 10_000
)

// Environment is a deployment under load, into which a scenario injects faults.
type Environment struct {
	ctx           context.Context
	opts          Options
	srv           *servers
	c             cluster.Cluster
	links         map[string]cluster.Links // by process name
	rcv           *receiver.Receiver
	commitProxy   *commitProxy
	endpointProxy *cluster.Proxy // before the endpoint, for every fourth timer
	api           *client.Client
	traffic       *traffic
	directServers *cluster.Servers // the servers without proxies, for the checks
	db            *sql.DB
	rdb           *redis.Client // nil on clusters
	log           io.Writer
	logMu         sync.Mutex
	began         time.Time
	dir           string
	short         bool // shorter waits between faults

	mu            sync.Mutex
	faults        []*Fault
	interruptions []ledger.Interruption
	broken        []string
}

func (env *Environment) printf(format string, args ...any) {
	env.logMu.Lock()
	defer env.logMu.Unlock()
	fmt.Fprintf(
		env.log,
		"  %6.1f s  %s\n",
		time.Since(env.began).Seconds(),
		fmt.Sprintf(format, args...),
	)
}

// failf records a broken promise, up to 50 of them.
func (env *Environment) failf(format string, args ...any) {
	env.mu.Lock()
	defer env.mu.Unlock()
	const most = 50
	if len(env.broken) < most {
		env.broken = append(env.broken, fmt.Sprintf(format, args...))
	}
}

// endpoint returns the base URL that the n-th timer of a kind calls. Every fourth goes over a proxy
// that can be cut.
func (env *Environment) endpoint(n int) string {
	if n%4 == 3 {
		return "http://" + env.endpointProxy.Addr()
	}
	return "http://" + env.rcv.Addr()
}

// newEnvironment starts a deployment with proxies between its parts. cleanup stops everything.
func newEnvironment(
	ctx context.Context,
	srv *servers,
	o Options,
	s *Scenario,
	dir string,
) (env *Environment, cleanup func(), err error) {
	env = &Environment{
		ctx:   ctx,
		opts:  o,
		srv:   srv,
		links: make(map[string]cluster.Links),
		log:   o.Log,
		began: time.Now(),
		dir:   dir,
	}
	var undo []func()
	stop := func() {
		for i := range undo {
			undo[len(undo)-1-i]()
		}
	}
	defer func() {
		if err != nil {
			stop() // the results env and cleanup are nil here
		}
	}()
	rcv, err := receiver.Start(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("starting the endpoint: %w", err)
	}
	env.rcv = rcv
	undo = append(undo, func() { _ = rcv.Close() })
	scriptEndpoint(env.rcv)
	if env.endpointProxy, err = cluster.StartProxy(ctx, env.rcv.Addr()); err != nil {
		return nil, nil, err
	}
	undo = append(undo, env.endpointProxy.Close)
	var free func()
	if env.directServers, free, err = s.share(); err != nil {
		return nil, nil, fmt.Errorf("reserving a database on the servers: %w", err)
	}
	undo = append(undo, free)
	db, err := sql.Open(
		"mysql",
		cmp.Or(env.directServers.MySQLProxyDSN, env.directServers.MySQLDSN),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to MariaDB: %w", err)
	}
	env.db = db
	undo = append(undo, func() { _ = db.Close() })
	if !s.onClusters() {
		rdb := redis.NewClient(&redis.Options{Addr: env.directServers.RedisAddrs[0]})
		env.rdb = rdb
		undo = append(undo, func() { _ = rdb.Close() })
	}

	co := cluster.Options{
		Bin:      o.Bin,
		Dir:      dir,
		Replicas: replicas,
		Env:      map[string]string{"CARILLON_EXPAND_AHEAD": time.Minute.String()},
	}
	if s.Bin != nil {
		co.Bin = s.Bin(&o)
	}
	maps.Copy(co.Env, s.Env)
	if s.onClusters() { // its nodes name each other's addresses, not those of proxies
		direct := env.directServers
		co.ReplicaEnv = func(_ cluster.Role, i int) map[string]string { return direct.Replica(i).Env() }
	} else {
		behind := *env.directServers
		if env.commitProxy, err = startCommitProxy(ctx, &behind); err != nil {
			return nil, nil, err
		}
		undo = append(undo, env.commitProxy.close)
		co.ReplicaEnv = func(r cluster.Role, i int) map[string]string {
			through, links, linkErr := behind.WithProxies(ctx)
			if linkErr != nil {
				err = linkErr
				return nil
			}
			undo = append(undo, links.Close)
			env.links[string(r)+"-"+strconv.Itoa(i)] = links
			return through.Env()
		}
	}
	if env.c, err = cluster.StartReal(ctx, co, *env.directServers); err != nil {
		return nil, nil, err
	}
	undo = append(undo, env.c.Close)
	env.api = client.New(env.c.API)
	undo = append(undo, env.api.Close)
	return env, stop, nil
}

// share returns the scenario's own part of the servers that it needs.
func (s *Scenario) share() (*cluster.Servers, func(), error) {
	return cluster.RealClusters(s.Clusters)
}

// onClusters reports whether the scenario has a cluster of any server.
func (s *Scenario) onClusters() bool { return s.Clusters != cluster.Redundancy{} }

// replica returns the i-th process of a role.
func (env *Environment) replica(r cluster.Role, i int) *cluster.Process { return env.c.Role(r)[i] }

func (env *Environment) recordTimeout() time.Duration {
	if env.short {
		return recordTimeoutShort
	}
	return recordTimeout
}

// addInterruption records an instant at which an executor's calls in flight may be repeated.
func (env *Environment) addInterruption(c ledger.Interruption) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.interruptions = append(env.interruptions, c)
}

// run starts a deployment and its load, runs the scenario's faults, and checks the result.
func run(ctx context.Context, srv *servers, o Options, s *Scenario) (*Result, error) {
	dir := filepath.Join(o.Dir, s.Name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("creating the log directory: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	env, cleanup, err := newEnvironment(ctx, srv, o, s, dir)
	if err != nil {
		return nil, err
	}
	defer cleanup()
	rate := o.Rate
	if s.Rate > 0 {
		rate = s.Rate
	}
	env.printf("%d replicas of each service are ready", replicas)
	if env.traffic, err = startTraffic(ctx, env, mixOf(rate)); err != nil {
		return nil, err
	}
	env.printf("%d fires/s: %+v", rate, env.traffic.mix)
	began := time.Now()
	clock.Pause(ctx, warmUp)
	err = s.Do(env)
	if err != nil { // its open fires may never end
		env.printf("FAILED: %v", err)
		cancel()
		env.traffic.end()
		return nil, err
	}
	if least := time.Duration(minFires/rate+3) * time.Second; time.Since(began) < least {
		clock.Pause(ctx, least-time.Since(began))
	}
	end := env.traffic.end()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	env.printf("the load has ended; waiting for open fires")
	r := env.settle(s, end)
	r.Seconds = end.Sub(began).Seconds()
	for _, p := range env.c.Processes() {
		if len(r.Broken) > 0 && !p.Running() {
			r.Broken = append(r.Broken, p.Name+" is not running: "+p.Tail(3))
		}
	}
	return r, nil
}
