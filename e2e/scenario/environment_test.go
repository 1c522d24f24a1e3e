package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// patience is how long a scenario waits for an expected event. It decides only over "never".
	patience = 90 * time.Second
	// clockTolerance is the greatest apparent difference of clocks on one machine. The deciding
	// clocks are aligned to the database's.
	clockTolerance = 100 * time.Millisecond
	// recordTimeout is how long an executor on a busy machine may take to record an answer. A call
	// that was recorded before its repetition has no excuse.
	recordTimeout = 30 * time.Second
	callers       = 16
)

// scenario is one test body.
type scenario func(t *testing.T, env *environment)

// environment has a scenario's deployment, its own endpoint and app, and the ledger of its fires.
type environment struct {
	cluster.Cluster
	rcv *receiver.Receiver
	api *client.Client
	app string
	led *ledger.Ledger

	mu            sync.Mutex
	interruptions []ledger.Interruption
}

// runOnAll runs a scenario that disturbs no other, on clusters that these scenarios share.
func runOnAll(t *testing.T, s scenario) {
	t.Helper()
	for _, r := range runners {
		t.Run(r.name, func(t *testing.T) { t.Parallel(); runOnShared(t, r, s) })
	}
}

func runOnShared(t *testing.T, r *runner, s scenario) {
	t.Helper()
	sh := r.share(false)
	s(t, newEnvironment(t, r, sh.c, sh.err))
}

// runFaulty runs a scenario that injects faults, on runners that allow it. These scenarios share a
// cluster and take turns.
func runFaulty(t *testing.T, s scenario) {
	t.Helper()
	for _, r := range runners {
		if r.indivisible {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			sh := r.share(true)
			sh.fault.Lock()
			defer sh.fault.Unlock()
			if sh.err == nil {
				ctx, cancel := context.WithTimeout(t.Context(), cluster.ReadyTimeout)
				defer cancel()
				require.NoError(t, startMissing(ctx, sh.c), "after the previous scenario")
			}
			s(t, newEnvironment(t, r, sh.c, sh.err))
		})
	}
}

// runOnOwn runs a scenario on its own cluster.
func runOnOwn(t *testing.T, r *runner, o cluster.Options, s scenario) {
	t.Helper()
	c, end, err := r.run(strings.ReplaceAll(t.Name(), "/", "_"), o)
	if err == nil {
		t.Cleanup(end)
	}
	s(t, newEnvironment(t, r, c, err))
}

// behindProxies returns options with which processes reach servers through proxies: vars returns the
// variables of a role. The proxies are there once the cluster runs.
func behindProxies(
	t *testing.T,
	vars func(r cluster.Role, through *cluster.Servers) map[string]string,
) (o cluster.Options, links cluster.Links) {
	t.Helper()
	links = make(cluster.Links)
	t.Cleanup(links.Close)
	o.Prepare = func(o *cluster.Options, s *cluster.Servers) error {
		through, made, err := s.WithProxies(t.Context())
		if err != nil {
			return err
		}
		maps.Copy(links, made)
		o.ReplicaEnv = func(r cluster.Role, _ int) map[string]string { return vars(r, through) }
		return nil
	}
	return o, links
}

func runnerNamed(name string) *runner {
	for _, r := range runners {
		if r.name == name {
			return r
		}
	}
	panic("no runner " + name)
}

// absentError is the reason why a runner cannot run on this machine.
type absentError string

func (e absentError) Error() string { return string(e) }

func newEnvironment(t *testing.T, r *runner, c cluster.Cluster, err error) *environment {
	t.Helper()
	if absent, ok := errors.AsType[absentError](err); ok {
		t.Skipf("UNTESTED on real servers: %s", absent)
	}
	require.NoError(t, err, "starting the cluster")
	rcv, err := receiver.Start(t.Context(), net.JoinHostPort(cmp.Or(r.host, "127.0.0.1"), "0"))
	require.NoError(t, err)
	env := &environment{Cluster: c, rcv: rcv, api: client.New(c.API), led: ledger.New()}
	env.app = strings.ToLower(
		strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test")),
	)
	env.app = fmt.Sprintf("%.48s-%d", env.app, time.Now().UnixMilli()%1_000_000)
	t.Cleanup(func() {
		env.deleteEndless()
		env.api.Close()
		require.Empty(t, rcv.Unrecognized(), "requests that are not callbacks")
		require.NoError(t, rcv.Close())
		if t.Failed() {
			env.logTails(t)
		}
	})
	return env
}

// deleteEndless deletes the scenario's timers without an end, because their endpoint closes. It
// leaves them if the API is unavailable.
func (env *environment) deleteEndless() {
	const page = 100
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for cursor := ""; ; {
		timers, next, err := env.api.List(ctx, env.app, "", page, cursor)
		if err != nil {
			return
		}
		for i := range timers {
			if kind := timers[i].Schedule.Kind; kind != "at" && kind != "delay" {
				_ = env.api.Delete(ctx, env.app, timers[i].TimerID())
			}
		}
		if cursor = next; cursor == "" {
			return
		}
	}
}

func (env *environment) logTails(t *testing.T) {
	t.Helper()
	const lines = 12
	for _, p := range env.Processes() {
		t.Logf(
			"end of %s (running: %v):\n%s",
			filepath.Join(filepath.Base(filepath.Dir(p.Log())), p.Name),
			p.Running(),
			p.Tail(lines),
		)
	}
}

// startMissing starts the processes that are not running.
func startMissing(ctx context.Context, c cluster.Cluster) error {
	var down []*cluster.Process
	for _, p := range c.Processes() {
		if !p.Running() {
			down = append(down, p)
		}
	}
	return cluster.StartAll(ctx, down...) //nolint:wrapcheck // it says what it was doing
}

// active creates an active timer.
func (env *environment) active(t *testing.T, name string, s client.Schedule, path string) timer.ID {
	t.Helper()
	tm, _, err := env.api.Create(t.Context(), client.NewTimer{
		App:      env.app,
		Name:     name,
		Schedule: s,
		Target:   client.Post(env.rcv.URL(path)),
		Status:   "active",
	})
	require.NoError(t, err)
	require.NotZero(t, tm.TimerID())
	return tm.TimerID()
}

// oneShots creates a one-shot for each instant, several at a time, and adds their fires to the
// ledger.
func (env *environment) oneShots(t *testing.T, name, path string, at ...time.Time) []timer.ID {
	t.Helper()
	ids := make([]timer.ID, len(at))
	eg, ctx := errgroup.WithContext(t.Context())
	eg.SetLimit(callers)
	for i := range at {
		eg.Go(func() error {
			tm, _, err := env.api.Create(ctx, client.NewTimer{
				App:      env.app,
				Name:     fmt.Sprintf("%s-%d", name, i),
				Schedule: client.At(at[i]),
				Target:   client.Post(env.rcv.URL(path)),
				Status:   "active",
			})
			if err != nil {
				return fmt.Errorf("creating %s-%d: %w", name, i, err)
			}
			if time.Now().After(at[i]) {
				return fmt.Errorf(
					"%s-%d was created after %s, when it was due: this machine is too slow",
					name,
					i,
					at[i],
				)
			}
			ids[i] = tm.TimerID()
			env.led.Add(ids[i], at[i], ledger.Must)
			return nil
		})
	}
	require.NoError(t, eg.Wait())
	return ids
}

// kill kills processes at once and records the interruptions. It first freezes each process to see
// which connections it has: only calls on those may be repeated.
func (env *environment) kill(t *testing.T, procs ...*cluster.Process) {
	t.Helper()
	var wg sync.WaitGroup
	for _, p := range procs {
		wg.Go(func() {
			var ports map[uint16]bool
			if p.Pause() == nil {
				ports, _ = p.Ports()
			}
			at := p.Kill()
			env.mu.Lock()
			defer env.mu.Unlock()
			env.interruptions = append(
				env.interruptions,
				ledger.Interruption{At: at, Recording: recordTimeout, Ports: ports},
			)
		})
	}
	wg.Wait()
}

// start starts processes again and waits until they are ready.
func (env *environment) start(t *testing.T, procs ...*cluster.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cluster.ReadyTimeout)
	defer cancel()
	require.NoError(t, cluster.StartAll(ctx, procs...))
}

// settle waits until every fire of the ledger was called and has an outcome. It fails the test for
// each broken promise, and returns the verdict.
func (env *environment) settle(t *testing.T) ledger.Verdict {
	t.Helper()
	last := time.Now()
	if due := env.led.Last(); due.After(last) { // on a slow machine fires are due later
		last = due
	}
	last = last.Add(patience)
	for env.missing() > 0 && time.Now().Before(last) {
		pause(t, 50*time.Millisecond)
	}
	var v ledger.Verdict
	for {
		v = env.check(t)
		if len(v.NoOutcome) == 0 || time.Now().After(last) {
			break
		}
		pause(t, 200*time.Millisecond)
	}
	t.Logf("verdict\n%s\n%s", ledger.Heading, v.Row(env.Name()))
	env.requireKept(t, &v)
	return v
}

// requireKept fails the test if a promise was broken, and logs what happened to the fires.
func (env *environment) requireKept(t *testing.T, v *ledger.Verdict) {
	t.Helper()
	faults := v.Faults()
	if len(faults) > 0 {
		t.Log(v.Timelines(env.evidence(t), func(f timer.FireID) []ledger.Event {
			return append(env.logged(f), env.explained(t.Context(), f)...)
		}))
	}
	require.Empty(t, faults)
}

// logged returns the lines of the processes' logs that name a fire.
func (env *environment) logged(f timer.FireID) (events []ledger.Event) {
	for _, p := range env.Processes() {
		for _, l := range p.LinesWith(f.String()) {
			events = append(events, ledger.Event{At: l.At, What: p.Name + ": " + l.Text})
		}
	}
	return events
}

// explained returns what the API tells about a fire. While it is open, that is where it waits, and
// what may hold it back.
func (env *environment) explained(ctx context.Context, f timer.FireID) (events []ledger.Event) {
	e, err := env.api.Explain(ctx, env.app, f.Timer, time.UnixMilli(f.DueMS))
	if err != nil {
		return []ledger.Event{{What: "not explained: " + err.Error()}}
	}
	for _, item := range e.Items {
		events = append(
			events,
			ledger.Event{What: "explained: timer " + e.Status + ". " + item.Text},
		)
		for _, hop := range item.Timeline {
			events = append(events, ledger.Event{At: hop.At, What: "explained: " + hop.Text})
		}
	}
	for _, hold := range e.Holds {
		events = append(events, ledger.Event{What: "may hold it back: " + hold.Text})
	}
	return events
}

func (env *environment) missing() int { return env.led.CountMissing(env.arrived()) }

func (env *environment) arrived() map[timer.FireID]bool {
	seen := make(map[timer.FireID]bool)
	for _, a := range env.rcv.Arrivals() {
		seen[a.Fire] = true
	}
	return seen
}

// awaitCalled waits until the timers' fires of each second since an instant were called, and
// returns the instant up to which that holds. A fire that has not started when its timer changes is
// rightly skipped. On a busy machine that affects fires due just before the change.
func (env *environment) awaitCalled(t *testing.T, since time.Time, ids ...timer.ID) time.Time {
	t.Helper()
	now, due := time.Now(), ledger.New()
	for _, id := range ids {
		due.AddEvery(id, time.Second, since, now, ledger.Must)
	}
	require.Eventually(
		t,
		func() bool { return due.CountMissing(env.arrived()) == 0 },
		patience,
		20*time.Millisecond,
	)
	return now
}

// awaitPlanned waits until each of the timers has the fire that is due at its instant. A migrator
// creates those that are not due in a moment. A one-shot without a fire that is not active at its
// instant gets one later, which is due at its activation.
func (env *environment) awaitPlanned(t *testing.T, ids []timer.ID, at ...time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(callers)
	for i, id := range ids {
		eg.Go(func() error {
			for {
				e, err := env.api.Explain(ctx, env.app, id, at[i])
				if err == nil && len(e.Items) > 0 && e.Items[0].Code != "not_expanded" {
					return nil
				}
				if clock.Pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
					return fmt.Errorf("timer %d has no fire at %s: %w", id, at[i], ctx.Err())
				}
			}
		})
	}
	require.NoError(t, eg.Wait())
}

func (env *environment) check(t *testing.T) ledger.Verdict {
	t.Helper()
	return env.led.Check(env.evidence(t))
}

func (env *environment) evidence(t *testing.T) ledger.Evidence {
	t.Helper()
	env.mu.Lock()
	interruptions := slices.Clone(env.interruptions)
	env.mu.Unlock()
	outcomes := env.outcomes(t) // read before the arrivals, because each call precedes its outcome
	return ledger.Evidence{
		Arrivals:      env.rcv.Arrivals(),
		Outcomes:      outcomes,
		Interruptions: interruptions,
		Clocks:        clockTolerance,
	}
}

// outcomes returns the recorded outcomes of all timers in the ledger.
func (env *environment) outcomes(t *testing.T) []ledger.Outcome {
	t.Helper()
	return env.outcomesOf(t, env.led.Timers()...)
}

// outcomesOf returns the recorded outcomes of timers. A deleted timer has none.
func (env *environment) outcomesOf(t *testing.T, ids ...timer.ID) []ledger.Outcome {
	t.Helper()
	var mu sync.Mutex
	all := make([]ledger.Outcome, 0, env.led.Len())
	eg, ctx := errgroup.WithContext(t.Context())
	eg.SetLimit(callers)
	for _, id := range ids {
		eg.Go(func() error {
			fires, err := env.api.History(ctx, env.app, id)
			var e *client.Error
			for last := time.Now().Add(patience); errors.As(err, &e) && e.Status == http.StatusServiceUnavailable && time.Now().Before(last); {
				clock.Pause(ctx, time.Second) // on a busy machine a server may be too slow once
				fires, err = env.api.History(ctx, env.app, id)
			}
			if errors.As(err, &e) && e.Status == http.StatusNotFound {
				return nil
			}
			if err != nil {
				return fmt.Errorf("history of %s: %w", id, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, f := range fires {
				o, err := f.LedgerOutcome()
				if err != nil {
					return err //nolint:wrapcheck // it says what it was doing
				}
				all = append(all, o)
			}
			return nil
		})
	}
	require.NoError(t, eg.Wait())
	return all
}

// pause waits for d, or fails when the test ends.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	tm := time.NewTimer(d)
	defer tm.Stop()
	select {
	case <-tm.C:
	case <-t.Context().Done():
		require.NoError(t, t.Context().Err())
	}
}

// pauseUntil waits until an instant.
func pauseUntil(t *testing.T, at time.Time) {
	t.Helper()
	if d := time.Until(at); d > 0 {
		pause(t, d)
	}
}

// soon returns a full second at least d away, and later on a slow machine, so that timers for it
// can be created before.
func soon(d time.Duration) time.Time {
	return time.Now().
		Add(time.Duration(float64(d) * machine.slowdown())).
		Truncate(time.Second).
		Add(time.Second)
}

// machine measures how many times slower this machine is than an idle one, by the start times of
// its clusters.
var machine machineSpeed

type machineSpeed struct {
	mu sync.Mutex
	by float64
}

// observeStart records the time of a start that ordinarily takes at most so long.
func (s *machineSpeed) observeStart(d, ordinary time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by = max(s.by, d.Seconds()/ordinary.Seconds())
}

func (s *machineSpeed) slowdown() float64 {
	const most = 6
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(s.by, 1), most)
}

// spread returns n instants, evenly spread over d from an instant on.
func spread(at time.Time, d time.Duration, n int) []time.Time {
	out := make([]time.Time, n)
	for i := range out {
		out[i] = at.Add(d * time.Duration(i) / time.Duration(n)).Truncate(time.Millisecond)
	}
	return out
}

// repeat returns the same instant n times.
func repeat(at time.Time, n int) []time.Time { return spread(at, 0, n) }
