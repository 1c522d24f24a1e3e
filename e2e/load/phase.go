package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	app = "load"
	// settle is how long to wait after the last arrival for another one, and then for the records of
	// fires, if an executor reports them.
	settle = 90 * time.Second
	// ahead is the time between the creation of all timers and the first due instant.
	ahead = 6 * time.Second
	// farAhead is when stored timers are due: after any run of this program.
	farAhead = 300 * 24 * time.Hour
	// clockTolerance is the greatest difference between the executors' clocks and this one.
	clockTolerance = 100 * time.Millisecond
)

// Kind is the kind of a phase.
type Kind string

// The kinds of phases.
const (
	Steady Kind = "rate"  // one-shots, evenly spread: Rate per second for Length
	Crons  Kind = "cron"  // Rate crons that are due each second, for Length
	Burst  Kind = "burst" // Rate one-shots at one instant
	// Stored creates Rate one-shots that are due in many months. It measures no fire, but later
	// phases have these timers beside theirs.
	Stored Kind = "stored"
	// Kill is Steady, and all processes are killed and started again in its middle.
	Kill Kind = "kill"
)

// Phase is one measurement.
type Phase struct {
	Kind   Kind
	Rate   int
	Length time.Duration
}

func (p Phase) String() string {
	switch p.Kind {
	case Burst:
		return fmt.Sprintf("burst of %d", p.Rate)
	case Stored:
		return fmt.Sprintf("%d stored", p.Rate)
	case Steady, Crons, Kill:
	}
	return fmt.Sprintf("%s %d/s, %s", p.Kind, p.Rate, p.Length)
}

// Bench measures one deployment.
type Bench struct {
	Cluster  cluster.Cluster
	Receiver *receiver.Receiver
	Log      io.Writer // for progress

	reg     *registrar
	creates float64 // timers per second, as measured last
	run     int
}

// NewBench returns a bench that creates timers over conns connections, batch by one request.
func NewBench(
	c cluster.Cluster,
	rcv *receiver.Receiver,
	conns, batch int,
	log io.Writer,
) *Bench {
	// timers per second: low, so that a first phase waits too long rather than too short
	const guess = 300
	return &Bench{
		Cluster:  c,
		Receiver: rcv,
		Log:      log,
		reg:      newRegistrar(c.API, conns, batch),
		creates:  guess,
	}
}

// Run measures a phase.
func (b *Bench) Run(ctx context.Context, p Phase) (Result, error) {
	b.run++
	b.Receiver.Reset()
	n := p.Rate
	if p.Kind == Steady || p.Kind == Kill {
		n = int(float64(p.Rate) * p.Length.Seconds())
	}
	if p.Kind == Stored && b.Cluster.Servers() != nil {
		n = min(n, maxCreatedStored)
	}
	// Creation may take half as long again as before: tables grow, and the first fires run while
	// the last timers are created.
	first := time.Now().
		Add(ahead + time.Duration(float64(n)/b.creates*1.5*float64(time.Second))).
		Truncate(time.Second)
	w := newWatch(ctx, b.Cluster, b.Receiver)
	ids, rate, err := b.register(ctx, p, n, first)
	if err != nil {
		return Result{}, err
	}
	r := Result{
		Runner:     b.Cluster.Name(),
		Phase:      p.String(),
		CreateRate: rate,
		Overlap:    time.Now().After(first.Add(-time.Second)),
	}
	led := ledger.New()
	switch p.Kind {
	case Stored:
		if err := b.copyStored(ctx, ids, p.Rate); err != nil {
			return Result{}, err
		}
		r.Overlap = false
		r.Resident = resident(b.Cluster)
		return r, nil
	case Steady, Burst, Kill:
		for i, id := range ids {
			led.Add(id, p.at(first, i), ledger.Must)
		}
	case Crons:
		if late := time.Now().Add(2 * time.Second); first.Before(late) {
			first = late.Truncate(time.Second)
		}
		for _, id := range ids {
			led.AddEvery(id, time.Second, first, first.Add(p.Length), ledger.Must)
		}
	}
	stop := func() {
		if p.Kind == Crons {
			b.reg.deleteTimers(app, ids)
		}
	}
	err = b.measure(ctx, p, w, led, first, stop, &r)
	return r, err
}

// at returns the due instant of the i-th one-shot.
func (p Phase) at(first time.Time, i int) time.Time {
	switch p.Kind {
	case Burst:
		return first
	case Stored:
		return first.Add(farAhead)
	case Steady, Crons, Kill:
	}
	return first.Add(time.Duration(i) * time.Second / time.Duration(p.Rate)).
		Truncate(time.Millisecond)
}

func (b *Bench) register(
	ctx context.Context,
	p Phase,
	n int,
	first time.Time,
) ([]timer.ID, float64, error) {
	target := client.Target{
		Kind:   "http",
		URL:    b.Receiver.URL("/load"),
		Method: http.MethodPost,
		Body:   `{"order":1234567,"kind":"reminder"}`,
	}
	start := time.Now()
	var done atomic.Int64
	ctx2, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { b.progress(ctx2, p, n, &done) })
	ids, err := b.reg.create(ctx, n, func(i int) client.NewTimer {
		s := client.Cron("* * * * * *")
		if p.Kind != Crons {
			s = client.At(p.at(first, i))
		}
		return client.NewTimer{
			App:      app,
			Name:     fmt.Sprintf("%d-%d-%d", start.UnixMilli(), b.run, i),
			Schedule: s,
			Target:   target,
			Status:   "active",
		}
	}, &done)
	stop()
	wg.Wait()
	if err != nil {
		return nil, 0, err
	}
	b.creates = float64(n) / time.Since(start).Seconds()
	fmt.Fprintf(b.Log, "%s: %s: %d timers created, %.0f/s\n", b.Cluster.Name(), p, n, b.creates)
	return ids, b.creates, nil
}

func (b *Bench) progress(ctx context.Context, p Phase, n int, done *atomic.Int64) {
	const every = 10 * time.Second
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			fmt.Fprintf(
				b.Log,
				"%s: %s: %d of %d timers created\n",
				b.Cluster.Name(),
				p,
				done.Load(),
				n,
			)
		}
	}
}

// measure samples the fires from the first due instant until each is received and recorded, or the
// settle time is over. It calls end once the last instant is past.
func (b *Bench) measure(
	ctx context.Context,
	p Phase,
	w *watch,
	led *ledger.Ledger,
	first time.Time,
	end func(),
	r *Result,
) error {
	last := first
	if p.Kind != Burst {
		last = first.Add(p.Length)
	}
	if err := wait(ctx, first); err != nil {
		return err
	}
	// In this order at both ends: reading the counters takes a moment.
	before := cpuTimes(b.Cluster)
	counted := readCounters(ctx, b.Cluster)
	watchCtx, stop := context.WithCancel(ctx)
	var samples []Sample
	var wg sync.WaitGroup
	wg.Go(func() { samples = w.run(watchCtx, first) })
	defer func() { stop(); wg.Wait() }()

	var err error
	if p.Kind == Kill {
		err = b.restart(ctx, first.Add(p.Length/2), r)
	}
	if err == nil {
		err = wait(ctx, last)
	}
	want := int64(led.Len())
	arrived := b.Receiver.Count()
	for limit := last.Add(settle); err == nil && arrived < want && time.Now().Before(limit); {
		err = wait(ctx, time.Now().Add(50*time.Millisecond))
		if n := b.Receiver.Count(); n > arrived {
			arrived, limit = n, time.Now().Add(settle)
		}
	}
	r.cpu(before, cpuTimes(b.Cluster), time.Since(first), want)
	r.PerFire = perFire(counted, readCounters(ctx, b.Cluster), want)
	r.Resident = resident(b.Cluster)
	end()
	// The counters of killed processes begin again, and say nothing of the phase.
	counts := p.Kind != Kill
	for limit := time.Now().Add(settle); err == nil && counts && w.now(ctx).Backlog() > 0 && time.Now().Before(limit); {
		err = wait(ctx, time.Now().Add(500*time.Millisecond))
	}
	if err == nil {
		// For a sample that shows the records, and for late repetitions.
		err = wait(ctx, time.Now().Add(2*time.Second))
	}
	stop()
	wg.Wait()
	if err != nil {
		return err
	}
	if !counts {
		samples, r.PerFire = nil, nil
	}
	b.fill(r, p, led, first, samples)
	return nil
}

func (b *Bench) fill(r *Result, p Phase, led *ledger.Ledger, first time.Time, samples []Sample) {
	as := b.Receiver.Arrivals()
	evidence := ledger.Evidence{Arrivals: as, Clocks: clockTolerance}
	if p.Kind == Kill {
		evidence.Interruptions = []ledger.Interruption{{At: r.Killed, Recording: time.Second}}
		i, _ := slices.BinarySearchFunc(as, r.Killed.Add(r.died),
			func(a receiver.Arrival, t time.Time) int { return a.Arrived().Compare(t) })
		if i < len(as) {
			r.Again = as[i].Arrived().Sub(r.Killed)
		}
	}
	v := led.Check(evidence)
	r.Fires, r.Missing, r.Early, r.Duplicates = v.Due, len(
		v.Missing,
	), len(
		v.Early,
	), len(
		v.Duplicates,
	)
	r.Lateness, r.Samples = v.Lateness, samples
	if p.Kind != Crons {
		r.AtReceiver = as.ArrivalLateness()
	}
	r.Faults = v.Faults()
	r.RateAsked = float64(p.Rate)
	if p.Kind == Burst {
		r.RateAsked = 0
	}
	if n := len(as); n > 0 {
		end := as[n-1].Arrived()
		if p.Kind == Crons { // crons fire on after the phase
			i, _ := slices.BinarySearchFunc(
				as,
				first.Add(p.Length),
				func(a receiver.Arrival, t time.Time) int { return a.Arrived().Compare(t) },
			)
			as, end = as[:i], first.Add(p.Length)
			j, _ := slices.BinarySearchFunc(
				as,
				first,
				func(a receiver.Arrival, t time.Time) int { return a.Arrived().Compare(t) },
			)
			as = as[j:]
		}
		r.Drained = end.Sub(first)
		r.RateReached = float64(len(as)) / r.Drained.Seconds()
	}
}

func wait(ctx context.Context, at time.Time) error {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("measuring: %w", ctx.Err())
	case <-t.C:
		return nil
	}
}
