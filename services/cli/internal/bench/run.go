package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// Options are the settings of a bench.
type Options struct {
	API         *client.Client
	App         string
	Receiver    Source
	Connections int           // over which timers are created
	Batch       int           // timers per request; 1: each by a request of its own
	Settle      time.Duration // how long to wait for late calls
	Keep        bool          // leave the timers there
	Local       bool          // the deployment is on this machine: its processes can be seen
	Progress    io.Writer
	Terminal    bool // Progress is a terminal: its last line is renewed
}

const (
	ahead       = 3 * time.Second // from the last creation to the first instant, at least
	poll        = 100 * time.Millisecond
	probe       = 2000            // timers that are created to learn how fast that is
	margin      = 1.6             // creating may take so much longer than before
	repeatRange = 2 * time.Second // after the last call: for repeated ones
	cleanUp     = 2 * time.Minute
)

// Bench measures one deployment.
type Bench struct {
	opts    Options
	reg     registrar
	creates float64 // per second, as measured last, 0: not measured
	runs    int
}

// New returns a bench.
func New(o Options) *Bench {
	return &Bench{
		opts: o,
		reg:  registrar{api: o.API, app: o.App, conns: o.Connections, batch: o.Batch},
	}
}

// Result is the result of a phase.
type Result struct {
	Phase       string        `json:"phase"`
	Timers      int           `json:"timers"`
	CreateRate  float64       `json:"creates_per_second"`
	Groups      []GroupResult `json:"groups"`
	Usage       []Usage       `json:"usage"`
	BytesPer    float64       `json:"bytes_per_timer"` // of memory, of phases long; 0: unknown
	WhileMade   bool          `json:"creates_overlapped"`
	CleanUpFail string        `json:"clean_up_error,omitempty"`
}

// GroupResult is what became of the fires of some timers of a phase.
type GroupResult struct {
	Name        string    `json:"name"`
	Fires       int       `json:"fires"`
	Received    int       `json:"received"`
	Missing     int       `json:"missing"`
	Early       int       `json:"early"`
	Repeated    int       `json:"repeated"`
	PerSecond   float64   `json:"per_second"`
	LastArrival float64   `json:"last_arrival_s"` // after the first instant
	Lateness    Quantiles `json:"lateness"`       // start of the call by the executor's clock
	AtReceiver  Quantiles `json:"lateness_at_receiver"`
	Histogram   []Bar     `json:"histogram"`
}

// OK reports whether no fire was early, missing or repeated.
func (r *Result) OK() bool {
	for i := range r.Groups {
		if g := &r.Groups[i]; g.Early+g.Missing+g.Repeated > 0 {
			return false
		}
	}
	return true
}

// LeftError says which timers a phase that failed, or was interrupted, has left.
type LeftError struct{ why error }

func (e *LeftError) Error() string { return "timers are left: " + e.why.Error() }
func (e *LeftError) Unwrap() error { return e.why }

// Run measures a phase.
func (b *Bench) Run(ctx context.Context, p Phase) (out *Result, err error) {
	if err := b.opts.Receiver.Reset(ctx); err != nil {
		return nil, err //nolint:wrapcheck // of the receiver
	}
	b.runs++
	total := 0
	for _, g := range p.groups(time.Now()) {
		total += g.n
	}
	if err := b.learn(ctx, total); err != nil {
		return nil, err
	}
	guess := time.Duration(float64(total) / b.creates * margin * float64(time.Second))
	first := p.firstDue(time.Now().Add(guess + ahead))
	groups := p.groups(first)
	before := b.usage()
	r := &Result{Phase: p.String(), Timers: total}
	began := time.Now()
	all, m, err := b.create(ctx, p, groups, total)
	if !b.opts.Keep {
		defer func() {
			if failed := b.clean(ctx, p, m); failed != nil && out == nil {
				err = errors.Join(err, &LeftError{failed})
			} else if failed != nil {
				out.CleanUpFail = failed.Error()
			}
		}()
	}
	if err != nil {
		return nil, err
	}
	r.CreateRate = float64(total) / time.Since(began).Seconds()
	b.creates = r.CreateRate
	if p.Kind == Long {
		r.BytesPer = float64(max(0, growth(before, b.usage()))) / float64(total)
		return r, nil
	}
	if now := time.Now(); now.After(first.Add(-time.Second)) {
		r.WhileMade = true
		if p.Kind == Cron || p.Kind == Minute { // measure from a later instant on
			first = p.firstDue(now.Add(ahead))
			for i, g := range p.groups(first) {
				if g.spec != "" {
					all[i].group = g
				}
			}
		}
	}
	if err := b.measure(ctx, p, first, all, r); err != nil {
		return nil, err
	}
	return r, nil
}

// learn measures how many timers are created per second, so that a phase neither begins before all
// of its timers are there nor long after.
func (b *Bench) learn(ctx context.Context, total int) error {
	if b.creates > 0 {
		return nil
	}
	p := Phase{Kind: Long, N: min(probe, total)}
	began := time.Now()
	_, m, err := b.create(ctx, p, p.groups(began), p.N)
	b.creates = float64(p.N) / time.Since(began).Seconds()
	return errors.Join(err, b.clean(ctx, p, m))
}

// made is what a phase has created.
type made struct {
	prefix string // of the names
	ids    []timer.ID
	// unsure means that a request failed, so there may be timers whose ids are not known.
	unsure bool
}

func (b *Bench) create(
	ctx context.Context, p Phase, groups []group, total int,
) (all []*expected, m *made, err error) {
	var done atomic.Int64
	stop := b.show(ctx, func() string {
		return fmt.Sprintf("%s: %d of %d timers created", p, done.Load(), total)
	})
	defer stop()
	m = &made{prefix: fmt.Sprintf("bench-%d-%d-", time.Now().UnixMilli(), b.runs)}
	for i := range groups {
		some, err := b.reg.create(ctx, &groups[i], m.prefix, b.opts.Receiver.URL(), &done)
		for _, id := range some {
			if id != 0 {
				m.ids = append(m.ids, id)
			}
		}
		if err != nil {
			m.unsure = len(m.ids) > 0 || client.MayPass(err) || ctx.Err() != nil
			return nil, m, err
		}
		all = append(all, expect(&groups[i], some))
	}
	return all, m, nil
}

// measure waits until each fire has come, or the time for late ones is over.
func (b *Bench) measure(
	ctx context.Context, p Phase, first time.Time, all []*expected, r *Result,
) error {
	want := 0
	for _, e := range all {
		want += e.fires()
	}
	var count atomic.Int64
	stop := b.show(ctx, func() string {
		if wait := time.Until(first); wait > 0 {
			return fmt.Sprintf("%s: the first is due in %s", p, wait.Round(time.Second))
		}
		return fmt.Sprintf("%s: %d calls of %d after %s",
			p, count.Load(), want, time.Since(first).Round(time.Second))
	})
	defer stop()
	if err := wait(ctx, first); err != nil {
		return err
	}
	before := b.usage()
	end, need, next := first.Add(p.Length), int64(want), time.Time{}
	for limit := end.Add(b.opts.Settle); time.Now().Before(limit); {
		n, err := b.opts.Receiver.Count(ctx)
		if err != nil {
			return err //nolint:wrapcheck // of the receiver
		}
		count.Store(n)
		if now := time.Now(); n >= need && !now.Before(end) && !now.Before(next) {
			next = now.Add(time.Second) // judging takes CPU time from what is measured
			missing, err := b.missing(ctx, all)
			if err != nil {
				return err
			}
			if missing == 0 {
				break
			}
			need = n + missing // of those that came, some do not count
		}
		if err := wait(ctx, time.Now().Add(poll)); err != nil {
			return err
		}
	}
	r.Usage = used(before, b.usage(), time.Since(first), want)
	if err := wait(ctx, time.Now().Add(repeatRange)); err != nil {
		return err
	}
	arrivals, err := b.opts.Receiver.Arrivals(ctx)
	if err != nil {
		return err //nolint:wrapcheck // of the receiver
	}
	r.Groups = judge(all, arrivals)
	for i, e := range all {
		if g := &r.Groups[i]; p.Length > 0 && e.step != time.Minute {
			g.PerSecond = float64(g.Received) / max(p.Length.Seconds(), g.LastArrival)
		}
	}
	return nil
}

// missing returns how many fires have not come yet.
func (b *Bench) missing(ctx context.Context, all []*expected) (n int64, err error) {
	arrivals, err := b.opts.Receiver.Arrivals(ctx)
	if err != nil {
		return 0, err //nolint:wrapcheck // of the receiver
	}
	for _, g := range judge(all, arrivals) {
		n += int64(g.Missing)
	}
	return n, nil
}

// clean deletes the timers, also after an interruption.
func (b *Bench) clean(ctx context.Context, p Phase, m *made) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	var done atomic.Int64
	stop := b.show(ctx, func() string {
		return fmt.Sprintf("%s: %d of %d timers deleted", p, done.Load(), len(m.ids))
	})
	err := b.reg.remove(ctx, m.ids, &done)
	stop()
	if m.unsure {
		left, listed := b.reg.named(ctx, m.prefix)
		err = errors.Join(err, listed, b.reg.remove(ctx, left, &done))
	}
	if err != nil {
		return fmt.Errorf(
			"%w\ndelete those that are left by carillon timer delete --app %s --name-prefix %s --yes",
			err,
			b.opts.App,
			m.prefix,
		)
	}
	return nil
}

func (b *Bench) usage() map[string]use {
	if !b.opts.Local {
		return nil
	}
	return usage()
}

const (
	showOnTerminal = 200 * time.Millisecond
	showElsewhere  = 10 * time.Second
)

// show prints what text says from time to time, until stop is called.
func (b *Bench) show(ctx context.Context, text func() string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	every, format := showElsewhere, "%s\n"
	if b.opts.Terminal {
		every, format = showOnTerminal, "\r\x1b[K%s"
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				fmt.Fprintf(b.opts.Progress, format, text())
			case <-ctx.Done():
				if b.opts.Terminal {
					fmt.Fprint(b.opts.Progress, "\r\x1b[K")
				}
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
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
