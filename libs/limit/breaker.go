package limit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// BreakerOptions of the breakers.
type BreakerOptions struct {
	Failures int // in a row that open a breaker; 0: 10, Lasting a second
	// Lasting: from the first of them to the last, at least: thousands of calls a second fail ten
	// in a row by chance, or by their order.
	MinFailing time.Duration
	// Open: how long it stays open at first; doubles with each round of probes that fails; default
	// 5 s.
	Open    time.Duration
	MaxOpen time.Duration // at most; default 1 min
	// Probes: of a round: what one path or one caller is refused says nothing of an endpoint, so
	// all of them must fail; default 3.
	Probes int
	// Probe: a round whose last probe did not report within it is taken for lost; default 5 min.
	Probe      time.Duration
	Endpoints  int              // kept, those that had trouble lately; default 10,000
	Now        func() time.Time // default time.Now
	Registerer prometheus.Registerer
}

// Breakers keep calls away from endpoints that fail, each executor by what it saw itself. An open
// breaker lets a few probes through when its time is over: if one succeeds all may call again. They
// are safe for concurrent use. Endpoints that never failed cost nothing.
type Breakers struct {
	opts   BreakerOptions
	opened prometheus.Counter

	mu         sync.Mutex
	byEndpoint *lru.Cache[string, *breaker]
	lastProbe  Probe // begun
}

type breaker struct {
	failures     int           // in a row
	firstFailure time.Time     // the first of them
	openFor      time.Duration // how long it was opened for; 0: it is closed
	openUntil    time.Time     // open: no call before
	probe        Probe         // open: the round of probes that is under way; zero: none is
	probesSent   int           // probes of the round that were let through
	probesFailed int           // of them
	lastProbeAt  time.Time     // when the last was let through
}

// NewBreakers returns breakers, all closed.
func NewBreakers(opts BreakerOptions) (*Breakers, error) {
	if opts.Failures < 0 || opts.MinFailing < 0 || opts.Open < 0 || opts.MaxOpen < 0 ||
		opts.Probes < 0 ||
		opts.Probe < 0 ||
		opts.Endpoints < 0 {
		return nil, errors.New("options of the breakers: nothing must be negative")
	}
	opts.setDefaults()
	b := &Breakers{opts: opts, opened: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "carillon_breaker_opened_total",
		Help: "How often the breaker of an endpoint opened, or stayed open after a round of probes.",
	})}
	if opts.Registerer != nil {
		opts.Registerer.MustRegister(b.opened)
	}
	var err error
	if b.byEndpoint, err = lru.New[string, *breaker](opts.Endpoints); err != nil {
		return nil, fmt.Errorf("making the cache of breakers: %w", err)
	}
	return b, nil
}

func (opts *BreakerOptions) setDefaults() {
	if opts.Failures == 0 {
		opts.Failures, opts.MinFailing = 10, max(opts.MinFailing, time.Second)
	}
	if opts.Open == 0 {
		opts.Open = 5 * time.Second
	}
	if opts.MaxOpen == 0 {
		opts.MaxOpen = time.Minute
	}
	if opts.Probes == 0 {
		opts.Probes = 3
	}
	if opts.Probe == 0 {
		opts.Probe = 5 * time.Minute
	}
	if opts.Endpoints == 0 {
		opts.Endpoints = 10_000
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
}

// Probe tells the calls that an open breaker let through, a round of them, from all others. The
// zero value is none.
type Probe int64

// Allow asks whether an endpoint may be called. After an OK the caller must call Report, once, or
// Cancel, with the probe that it got. Otherwise At lies somewhere behind the end of the open time,
// so that those who wait do not all come back at once.
func (b *Breakers) Allow(endpoint string) (Decision, Probe) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, ok := b.byEndpoint.Get(endpoint)
	if !ok || x.openFor == 0 {
		return Decision{OK: true}, 0
	}
	now := b.opts.Now()
	if now.Before(x.openUntil) {
		return Decision{At: x.openUntil.Add(spread(x.openFor / 2))}, 0
	}
	if x.probe == 0 || now.Sub(x.lastProbeAt) > b.opts.Probe {
		b.lastProbe++
		x.probe, x.probesSent, x.probesFailed = b.lastProbe, 0, 0
	}
	if x.probesSent < b.opts.Probes {
		x.probesSent++
		x.lastProbeAt = now
		return Decision{OK: true}, x.probe
	}
	return Decision{At: now.Add(b.opts.Open/5 + spread(b.opts.Open))}, 0
}

// OpenSince returns when the call failed for which the breaker of an endpoint is open, and how much
// later than it would have let a call through those come back at most who were told to wait. The
// zero time: it is closed.
func (b *Breakers) OpenSince(endpoint string) (at time.Time, spread time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, ok := b.byEndpoint.Peek(endpoint)
	if !ok || x.openFor == 0 {
		return time.Time{}, 0
	}
	return x.openUntil.Add(-x.openFor), x.openFor / 2 //nolint:mnd // see Allow
}

func spread(d time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(d) + 1)) }

// Report says how a call went that was allowed, and told something of the endpoint. well means that
// the endpoint works, whatever it answered to this call (see callback.Telling, callback.Unwell). An
// open breaker hears its probes only: every other call was sent before it opened, and says nothing
// of now.
func (b *Breakers) Report(endpoint string, probe Probe, healthy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, ok := b.byEndpoint.Get(endpoint)
	now := b.opts.Now()
	switch {
	case healthy && !ok, ok && x.openFor > 0 && (probe == 0 || probe != x.probe):
		return
	case healthy:
		b.byEndpoint.Remove(endpoint)
		return
	case !ok:
		x = &breaker{firstFailure: now}
		b.byEndpoint.Add(endpoint, x)
	}
	x.failures++
	switch {
	case x.openFor > 0:
		if x.probesFailed++; x.probesFailed < b.opts.Probes {
			return // the others of the round may know better
		}
		x.openFor = min(2*x.openFor, b.opts.MaxOpen)
	case x.failures >= b.opts.Failures && now.Sub(x.firstFailure) >= b.opts.MinFailing:
		x.openFor = b.opts.Open
	default:
		return // closed still
	}
	x.probe = 0
	x.openUntil = now.Add(x.openFor)
	b.opened.Inc()
}

// Cancel says that an allowed call was not made, or told nothing of the endpoint: of a probe, that
// another may be let through.
func (b *Breakers) Cancel(endpoint string, probe Probe) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x, ok := b.byEndpoint.Get(endpoint); ok && probe != 0 && x.probe == probe {
		x.probesSent--
	}
}
