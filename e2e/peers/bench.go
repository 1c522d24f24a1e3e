package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"time"

	"github.com/carillon-timer/carillon/e2e/load"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/clock"
)

const (
	settle    = 60 * time.Second // how long to wait for late jobs
	idle      = 15 * time.Second // without any call, no more are expected
	tolerance = 100 * time.Millisecond
	poll      = 50 * time.Millisecond
	// margin is the time between the end of the inserts and the first due instant.
	margin = 3 * time.Second
)

// Bench measures systems.
type Bench struct {
	Receiver *receiver.Receiver
	// Worker returns the command that runs the worker of a system, a process of its own.
	Worker func(ctx context.Context, s System) *exec.Cmd
	Log    func(format string, args ...any)
}

// Run measures jobs that are due at a rate per second for a length. The figures mean the same as
// those of Carillon in e2e/load.
func (b *Bench) Run(
	ctx context.Context,
	s System,
	rate int,
	length time.Duration,
) (load.Result, error) {
	if err := s.Reset(ctx); err != nil {
		return load.Result{}, err
	}
	b.Receiver.Reset()
	n := int(float64(rate) * length.Seconds())
	began := time.Now()
	first, err := b.add(ctx, s, rate, n)
	if err != nil {
		return load.Result{}, err
	}
	r := load.Result{
		Runner:     s.Name(),
		Phase:      fmt.Sprintf("rate %d/s, %s", rate, length),
		Fires:      n,
		CreateRate: float64(n) / time.Since(began).Seconds(),
		Overlap:    time.Now().After(first),
		RateAsked:  float64(rate),
	}
	worker := b.Worker(ctx, s)
	if err := worker.Start(); err != nil {
		return load.Result{}, fmt.Errorf("starting a worker: %w", err)
	}
	defer func() {
		_ = worker.Process.Signal(os.Interrupt)
		_ = worker.Wait()
	}()
	clock.Pause(ctx, time.Until(first))
	cpu := load.StartCPU(map[int]string{worker.Process.Pid: "worker"}, s.Servers())
	b.wait(ctx, n, first.Add(length))
	as := b.Receiver.Arrivals()
	cpu.Stop(&r, int64(len(as)))
	b.judge(&r, as, first)
	return r, ctx.Err()
}

// add adds the jobs. If that took longer than until the first is due, it adds them again later.
func (b *Bench) add(ctx context.Context, s System, rate, n int) (first time.Time, err error) {
	ahead := margin + time.Duration(float64(n)/10_000*float64(time.Second)) //nolint:mnd // a guess
	for {
		first = time.Now().Add(ahead).Truncate(time.Second)
		jobs := make([]Job, n)
		for i := range jobs {
			due := first.Add(time.Duration(i) * time.Second / time.Duration(rate))
			jobs[i] = Job{ID: int64(i + 1), DueMS: due.UnixMilli(), URL: b.Receiver.URL("/load")}
		}
		began := time.Now()
		if err := s.Add(ctx, jobs); err != nil {
			return first, err
		}
		b.Log("%s: %d jobs added in %s", s.Name(), n, time.Since(began).Round(time.Millisecond))
		if time.Until(first) > margin/2 {
			return first, nil
		}
		ahead = time.Since(began) + 2*margin
		if err := s.Reset(ctx); err != nil {
			return first, err
		}
	}
}

// wait waits until all jobs have called, or no more are expected.
func (b *Bench) wait(ctx context.Context, n int, last time.Time) {
	seen, since := int64(0), time.Now()
	for b.Receiver.Count() < int64(n) && ctx.Err() == nil {
		if now := b.Receiver.Count(); now != seen {
			seen, since = now, time.Now()
		}
		late := time.Since(last)
		if late > settle || late > 0 && time.Since(since) > idle {
			return
		}
		clock.Pause(ctx, poll)
	}
}

func (b *Bench) judge(r *load.Result, as receiver.Arrivals, first time.Time) {
	r.Lateness, r.AtReceiver = as.Lateness(), as.ArrivalLateness()
	r.Early, r.Duplicates = len(as.Early(tolerance)), len(as.Duplicates())
	r.Missing = r.Fires - len(as.ByFire())
	if len(as) > 0 {
		r.Drained = as[len(as)-1].Arrived().Sub(first)
		r.RateReached = float64(len(as)) / r.Drained.Seconds()
	}
	b.Log("%s, %s: reached %.0f/s, p50 %s, p99 %s, early %d, repeated %d, missing %d",
		r.Runner, r.Phase, r.RateReached, r.Lateness.P50, r.Lateness.P99, r.Early, r.Duplicates,
		r.Missing)
}

// version returns the version of a module of this program.
func version(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return ""
}
