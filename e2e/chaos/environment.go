package chaos

import (
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
	// recordedIn is how long an executor may take to record an answer, on a machine that does much
	// else; in a test, where no timing may decide, it does more.
	recordedIn      = 3 * time.Second
	recordedInShort = 30 * time.Second
	// trusted is how long an executor that is cut off goes on calling: until it no longer trusts
	// its session.
	trusted    = 2500 * time.Millisecond
	warmUp     = 5 * time.Second
	leastFires = 10_000
)

// Environment is a deployment under load, for a scenario to break.
type Environment struct {
	ctx     context.Context
	opts    Options
	srv     *servers
	c       cluster.Cluster
	links   map[string]cluster.Links // by process
	rcv     *receiver.Receiver
	thief   *thief
	far     *cluster.Proxy // before the endpoint, for every fourth timer
	api     *client.Client
	traffic *traffic
	shared  *cluster.Servers // as the harness reaches them: by no proxy
	db      *sql.DB
	rdb     *redis.Client
	log     io.Writer
	logMu   sync.Mutex
	began   time.Time
	dir     string
	short   bool // it waits less between faults

	mu     sync.Mutex
	faults []*Fault
	cuts   []ledger.Cut
	broken []string
}

func (w *Environment) printf(format string, args ...any) {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	fmt.Fprintf(
		w.log,
		"  %6.1f s  %s\n",
		time.Since(w.began).Seconds(),
		fmt.Sprintf(format, args...),
	)
}

// failf notes something that must not be.
func (w *Environment) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 50
	if len(w.broken) < most {
		w.broken = append(w.broken, fmt.Sprintf(format, args...))
	}
}

// endpoint returns where the n-th timer of a kind calls: every fourth over a proxy that can be cut.
func (w *Environment) endpoint(n int) string {
	if n%4 == 3 {
		return "http://" + w.far.Addr()
	}
	return "http://" + w.rcv.Addr()
}

// enter starts a deployment with everything between its parts that a scenario may disturb.
func enter(
	ctx context.Context,
	srv *servers,
	o Options,
	s *Scenario,
	dir string,
) (w *Environment, leave func(), err error) {
	w = &Environment{
		ctx:   ctx,
		opts:  o,
		srv:   srv,
		links: make(map[string]cluster.Links),
		log:   o.Log,
		began: time.Now(),
		dir:   dir,
	}
	var undo []func()
	leave = func() {
		for i := range undo {
			undo[len(undo)-1-i]()
		}
	}
	defer func() {
		if err != nil {
			leave()
		}
	}()
	if w.rcv, err = receiver.Start(ctx, "127.0.0.1:0"); err != nil {
		return nil, nil, fmt.Errorf("starting the endpoint: %w", err)
	}
	undo = append(undo, func() { _ = w.rcv.Close() })
	script(w.rcv)
	if w.far, err = cluster.StartProxy(ctx, w.rcv.Addr()); err != nil {
		return nil, nil, err
	}
	undo = append(undo, w.far.Close)
	var free func()
	w.shared, free, err = cluster.RealServers()
	if err != nil {
		return nil, nil, fmt.Errorf("getting a place on the servers: %w", err)
	}
	undo = append(undo, free)
	if w.db, err = sql.Open("mysql", w.shared.MySQLDSN); err != nil {
		return nil, nil, fmt.Errorf("reaching MariaDB: %w", err)
	}
	undo = append(undo, func() { _ = w.db.Close() })
	w.rdb = redis.NewClient(&redis.Options{Addr: w.shared.RedisAddrs[0]})
	undo = append(undo, func() { _ = w.rdb.Close() })

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
	behind := *w.shared
	if w.thief, err = startThief(ctx, &behind); err != nil {
		return nil, nil, err
	}
	undo = append(undo, w.thief.close)
	co.ReplicaEnv = func(r cluster.Role, i int) map[string]string {
		through, links, linkErr := behind.Behind(ctx)
		if linkErr != nil {
			err = linkErr
			return nil
		}
		undo = append(undo, links.Close)
		w.links[string(r)+"-"+strconv.Itoa(i)] = links
		return through.Env()
	}
	if w.c, err = cluster.StartReal(ctx, co, *w.shared); err != nil {
		return nil, nil, err
	}
	undo = append(undo, w.c.Close)
	w.api = client.New(w.c.API)
	undo = append(undo, w.api.Close)
	return w, leave, nil
}

// replica returns one process of a role.
func (w *Environment) replica(r cluster.Role, i int) *cluster.Process { return w.c.Role(r)[i] }

func (w *Environment) recording() time.Duration {
	if w.short {
		return recordedInShort
	}
	return recordedIn
}

// cut keeps an instant from which an executor's calls in flight may come again.
func (w *Environment) cut(c ledger.Cut) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts = append(w.cuts, c)
}

// run enters a scenario, lets it happen under load, and judges.
func run(ctx context.Context, srv *servers, o Options, s *Scenario) (*Result, error) {
	dir := filepath.Join(o.Dir, s.Name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("making a directory for logs: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, leave, err := enter(ctx, srv, o, s, dir)
	if err != nil {
		return nil, err
	}
	defer leave()
	rate := o.Rate
	if s.Rate > 0 {
		rate = s.Rate
	}
	w.printf("%d replicas of each service are ready", replicas)
	if w.traffic, err = startTraffic(ctx, w, mixOf(rate)); err != nil {
		return nil, err
	}
	w.printf("%d fires/s: %+v", rate, w.traffic.mix)
	began := time.Now()
	clock.Pause(ctx, warmUp)
	err = s.Do(w)
	if err != nil { // what it left behind may never come to rest
		w.printf("FAILED: %v", err)
		cancel()
		w.traffic.end()
		return nil, err
	}
	if least := time.Duration(leastFires/rate+3) * time.Second; time.Since(began) < least {
		clock.Pause(ctx, least-time.Since(began))
	}
	end := w.traffic.end()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	w.printf("the load ends; waiting for what is open")
	r := w.settle(s, end)
	r.Seconds = end.Sub(began).Seconds()
	for _, p := range w.c.Processes() {
		if len(r.Broken) > 0 && !p.Running() {
			r.Broken = append(r.Broken, p.Name+" does not run: "+p.Tail(3))
		}
	}
	return r, nil
}
