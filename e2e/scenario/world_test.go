package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
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
	// patience is how long a story waits for what must come. Nothing is judged by it but "never".
	patience = 90 * time.Second
	// clocks is how far apart the clocks of one machine may seem: those that decide are aligned to
	// the database's.
	clocks = 100 * time.Millisecond
	// recording is how long an executor may take to record an answer, on a machine that does much
	// else. What was recorded before it came again has no excuse at all.
	recording = 30 * time.Second
	callers   = 16
)

// story is one test body.
type story func(t *testing.T, w *world)

// world is what a story works in: a deployment, an endpoint and an app of its own, and a ledger of
// what is to happen.
type world struct {
	cluster.Cluster
	rcv *receiver.Receiver
	api *client.Client
	app string
	led *ledger.Ledger

	mu   sync.Mutex
	cuts []ledger.Cut
}

// onBoth runs a story that disturbs nobody on the clusters that all such stories share.
func onBoth(t *testing.T, s story) {
	t.Helper()
	for _, r := range runners {
		t.Run(r.name, func(t *testing.T) { t.Parallel(); onShared(t, r, s) })
	}
}

func onShared(t *testing.T, r *runner, s story) {
	t.Helper()
	sh := r.share(false)
	s(t, enter(t, r, sh.c, sh.err))
}

// onFaulty runs stories that break things, where a test can. They share a cluster and take turns.
func onFaulty(t *testing.T, s story) {
	t.Helper()
	for _, r := range runners {
		if r.whole {
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
				require.NoError(t, startMissing(ctx, sh.c), "after the story before")
			}
			s(t, enter(t, r, sh.c, sh.err))
		})
	}
}

// onOwn runs a story on a cluster that it has for itself.
func onOwn(t *testing.T, r *runner, o cluster.Options, s story) {
	t.Helper()
	c, end, err := r.run(strings.ReplaceAll(t.Name(), "/", "_"), o)
	if err == nil {
		t.Cleanup(end)
	}
	s(t, enter(t, r, c, err))
}

func runnerNamed(name string) *runner {
	for _, r := range runners {
		if r.name == name {
			return r
		}
	}
	panic("no runner " + name)
}

// absentError says that a runner cannot run here, and why.
type absentError string

func (e absentError) Error() string { return string(e) }

func enter(t *testing.T, r *runner, c cluster.Cluster, err error) *world {
	t.Helper()
	if absent, ok := errors.AsType[absentError](err); ok {
		t.Skipf("UNTESTED on real servers: %s", absent)
	}
	require.NoError(t, err, "starting the cluster")
	rcv, err := receiver.Start(t.Context(), net.JoinHostPort(cmp.Or(r.host, "127.0.0.1"), "0"))
	require.NoError(t, err)
	w := &world{Cluster: c, rcv: rcv, api: client.New(c.API), led: ledger.New()}
	w.app = strings.ToLower(
		strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test")),
	)
	w.app = fmt.Sprintf("%.48s-%d", w.app, time.Now().UnixMilli()%1_000_000)
	t.Cleanup(func() {
		w.deleteEndless()
		w.api.Close()
		require.Empty(t, rcv.Strange(), "requests that are no callbacks")
		require.NoError(t, rcv.Close())
		if t.Failed() {
			w.tails(t)
		}
	})
	return w
}

// deleteEndless deletes the story's timers that would ring on when their endpoint is gone. Where
// the API is away they do that.
func (w *world) deleteEndless() {
	const page = 100
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for cursor := ""; ; {
		timers, next, err := w.api.List(ctx, w.app, "", page, cursor)
		if err != nil {
			return
		}
		for i := range timers {
			if kind := timers[i].Schedule.Kind; kind != "at" && kind != "delay" {
				_ = w.api.Delete(ctx, w.app, timers[i].TimerID())
			}
		}
		if cursor = next; cursor == "" {
			return
		}
	}
}

func (w *world) tails(t *testing.T) {
	t.Helper()
	const lines = 12
	for _, p := range w.Processes() {
		t.Logf(
			"end of %s (running: %v):\n%s",
			filepath.Join(filepath.Base(filepath.Dir(p.Log())), p.Name),
			p.Running(),
			p.Tail(lines),
		)
	}
}

// startMissing starts what does not run.
func startMissing(ctx context.Context, c cluster.Cluster) error {
	var down []*cluster.Process
	for _, p := range c.Processes() {
		if !p.Running() {
			down = append(down, p)
		}
	}
	return cluster.StartAll(ctx, down...) //nolint:wrapcheck // it says what it was doing
}

// active creates a timer that is active at once.
func (w *world) active(t *testing.T, name string, s client.Schedule, path string) timer.ID {
	t.Helper()
	tm, _, err := w.api.Create(t.Context(), client.NewTimer{
		App: w.app, Name: name, Schedule: s, Target: client.Post(w.rcv.URL(path)), Status: "active",
	})
	require.NoError(t, err)
	require.NotZero(t, tm.TimerID())
	return tm.TimerID()
}

// oneShots creates a timer for each instant, several at a time, and enters them as due.
func (w *world) oneShots(t *testing.T, name, path string, at ...time.Time) []timer.ID {
	t.Helper()
	ids := make([]timer.ID, len(at))
	eg, ctx := errgroup.WithContext(t.Context())
	eg.SetLimit(callers)
	for i := range at {
		eg.Go(func() error {
			tm, _, err := w.api.Create(ctx, client.NewTimer{
				App:      w.app,
				Name:     fmt.Sprintf("%s-%d", name, i),
				Schedule: client.At(at[i]),
				Target:   client.Post(w.rcv.URL(path)),
				Status:   "active",
			})
			if err != nil {
				return fmt.Errorf("creating %s-%d: %w", name, i, err)
			}
			if time.Now().After(at[i]) {
				return fmt.Errorf(
					"%s-%d was made after %s, when it was due: this machine is too slow for the story",
					name,
					i,
					at[i],
				)
			}
			ids[i] = tm.TimerID()
			w.led.One(ids[i], at[i], ledger.Must)
			return nil
		})
	}
	require.NoError(t, eg.Wait())
	return ids
}

// kill kills processes at once and enters the cuts. Each is frozen for the moment that it takes to
// see which connections are its own: only calls on those have an excuse to come again.
func (w *world) kill(t *testing.T, procs ...*cluster.Process) {
	t.Helper()
	var wg sync.WaitGroup
	for _, p := range procs {
		wg.Go(func() {
			var ports map[uint16]bool
			if p.Pause() == nil {
				ports, _ = p.Ports()
			}
			at := p.Kill()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.cuts = append(w.cuts, ledger.Cut{At: at, Recording: recording, Ports: ports})
		})
	}
	wg.Wait()
}

// start starts processes again and waits until they are ready.
func (w *world) start(t *testing.T, procs ...*cluster.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cluster.ReadyTimeout)
	defer cancel()
	require.NoError(t, cluster.StartAll(ctx, procs...))
}

// settle waits until every fire of the ledger was called and has its outcome, compares, and fails
// for each promise that did not hold. The verdict is for further questions.
func (w *world) settle(t *testing.T) ledger.Verdict {
	t.Helper()
	last := time.Now().Add(patience)
	for w.missing() > 0 && time.Now().Before(last) {
		pause(t, 50*time.Millisecond)
	}
	var v ledger.Verdict
	for {
		v = w.judge(t)
		if len(v.NoOutcome) == 0 || time.Now().After(last) {
			break
		}
		pause(t, 200*time.Millisecond)
	}
	t.Logf("verdict\n%s\n%s", ledger.Heading, v.Row(w.Name()))
	require.Empty(t, v.Faults())
	return v
}

func (w *world) missing() int { return w.led.Arrived(w.arrived()) }

func (w *world) arrived() map[timer.FireID]bool {
	seen := make(map[timer.FireID]bool)
	for _, a := range w.rcv.Arrivals() {
		seen[a.Fire] = true
	}
	return seen
}

// heard waits until the timers' fires of each second since then have been called, and returns up to
// when that is so. What has not begun when its timer changes is skipped, and rightly: on a busy
// machine that may be what was due just before.
func (w *world) heard(t *testing.T, since time.Time, ids ...timer.ID) time.Time {
	t.Helper()
	now, due := time.Now(), ledger.New()
	for _, id := range ids {
		due.Every(id, time.Second, since, now, ledger.Must)
	}
	require.Eventually(
		t,
		func() bool { return due.Arrived(w.arrived()) == 0 },
		patience,
		20*time.Millisecond,
	)
	return now
}

func (w *world) judge(t *testing.T) ledger.Verdict {
	t.Helper()
	w.mu.Lock()
	cuts := append([]ledger.Cut(nil), w.cuts...)
	w.mu.Unlock()
	outcomes := w.outcomes(t) // before the arrivals: each of them came before its outcome
	return w.led.Check(
		ledger.Evidence{Arrivals: w.rcv.Arrivals(), Outcomes: outcomes, Cuts: cuts, Clocks: clocks},
	)
}

// outcomes returns the histories of all timers in the ledger.
func (w *world) outcomes(t *testing.T) []ledger.Outcome {
	t.Helper()
	return w.outcomesOf(t, w.led.Timers()...)
}

// outcomesOf returns the histories of timers. A deleted timer has none to show.
func (w *world) outcomesOf(t *testing.T, ids ...timer.ID) []ledger.Outcome {
	t.Helper()
	var mu sync.Mutex
	all := make([]ledger.Outcome, 0, w.led.Len())
	eg, ctx := errgroup.WithContext(t.Context())
	eg.SetLimit(callers)
	for _, id := range ids {
		eg.Go(func() error {
			fires, err := w.api.History(ctx, w.app, id)
			var e *client.Error
			for last := time.Now().Add(patience); errors.As(err, &e) && e.Status == http.StatusServiceUnavailable && time.Now().Before(last); {
				clock.Pause(ctx, time.Second) // on a busy machine a server may be too slow for once
				fires, err = w.api.History(ctx, w.app, id)
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
				o, err := f.Ledger()
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

// pause waits, or fails when the test ends.
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

// pauseUntil waits for an instant.
func pauseUntil(t *testing.T, at time.Time) {
	t.Helper()
	if d := time.Until(at); d > 0 {
		pause(t, d)
	}
}

// soon returns a whole second at least d away, and farther on a machine that is out of breath: what
// is due then is made first.
func soon(d time.Duration) time.Time {
	return time.Now().
		Add(time.Duration(float64(d) * breath.slower())).
		Truncate(time.Second).
		Add(time.Second)
}

// breath knows how many times slower this machine is than one that does little else: by how long
// its clusters take to start.
var breath slowness

type slowness struct {
	mu sync.Mutex
	by float64
}

// took tells of a start that would ordinarily take so long at most.
func (s *slowness) took(d, ordinary time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by = max(s.by, d.Seconds()/ordinary.Seconds())
}

func (s *slowness) slower() float64 {
	const most = 6
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(s.by, 1), most)
}

// spread returns n instants evenly over d from at on.
func spread(at time.Time, d time.Duration, n int) []time.Time {
	out := make([]time.Time, n)
	for i := range out {
		out[i] = at.Add(d * time.Duration(i) / time.Duration(n)).Truncate(time.Millisecond)
	}
	return out
}

// same returns n times the same instant.
func same(at time.Time, n int) []time.Time { return spread(at, 0, n) }
