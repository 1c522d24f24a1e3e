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

// BreakerOptions configure Breakers.
type BreakerOptions struct {
	// Failures is how many consecutive failures open a breaker. 0 means 10, over at least a second.
	Failures int
	// MinFailing is the minimum time from the first of these failures to the last. At thousands of
	// calls a second, ten consecutive failures happen by chance.
	MinFailing time.Duration
	// Open is how long a breaker first stays open. It doubles with each failed round of probes. The
	// default is 5 s.
	Open    time.Duration
	MaxOpen time.Duration // maximum of Open; default 1 min
	// Probes is the number of probes per round. A refusal of one path or one caller proves nothing
	// about the endpoint, so all probes must fail. The default is 3.
	Probes int
	// Probe is the timeout of a round. If its last probe does not report in time, it counts as
	// lost. The default is 5 min.
	Probe     time.Duration
	Endpoints int // number of failing endpoints remembered; default 10,000
	// Now is the clock of retry-after times and of OpenSince; default time.Now. It may be set:
	// everything else goes by the monotonic clock.
	Now        func() time.Time
	Registerer prometheus.Registerer
}

// Breakers keep calls away from failing endpoints. Each executor decides by its own calls. After
// its open time a breaker lets a few probes through, and one success closes it. Breakers are safe
// for concurrent use. Endpoints that never failed cost no memory.
type Breakers struct {
	opts   BreakerOptions
	opened prometheus.Counter

	mu         sync.Mutex
	byEndpoint *lru.Cache[string, *breaker]
	lastProbe  Probe // last round of probes that was started
}

type breaker struct {
	failures     int           // consecutive failures
	firstFailure time.Time     // time of the first of them
	openFor      time.Duration // duration of the open state; 0 means closed
	openUntil    time.Time     // if open: no calls before
	openSince    time.Time     // if open: when it last failed, by BreakerOptions.Now
	probe        Probe         // if open: the running round of probes; zero means none
	probesSent   int           // probes of the round let through
	probesFailed int           // probes of the round that failed
	lastProbeAt  time.Time     // when the last probe was let through
}

// NewBreakers returns breakers that are all closed.
func NewBreakers(opts BreakerOptions) (*Breakers, error) {
	if opts.Failures < 0 || opts.MinFailing < 0 || opts.Open < 0 || opts.MaxOpen < 0 ||
		opts.Probes < 0 ||
		opts.Probe < 0 ||
		opts.Endpoints < 0 {
		return nil, errors.New("breaker options must not be negative")
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
		return nil, fmt.Errorf("creating the cache of breakers: %w", err)
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

// Probe identifies a round of probes of an open breaker. The zero value means an ordinary call.
type Probe int64

// Allow decides whether an endpoint may be called. If OK, the caller must call Report or Cancel
// once, with the returned probe. Otherwise At is a random time after the end of the open time, so
// that waiting calls do not all return at once.
func (b *Breakers) Allow(endpoint string) (Decision, Probe) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, ok := b.byEndpoint.Get(endpoint)
	if !ok || x.openFor == 0 {
		return Decision{OK: true}, 0
	}
	now := time.Now()
	if now.Before(x.openUntil) {
		return b.refuse(x.openUntil.Sub(now) + spread(x.openFor/2)), 0
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
	return b.refuse(b.opts.Open/5 + spread(b.opts.Open)), 0
}

// refuse returns that a fire must ask again after a wait.
func (b *Breakers) refuse(wait time.Duration) Decision {
	return Decision{At: b.opts.Now().Add(wait)}
}

// OpenSince returns when the failure happened that opened the breaker of an endpoint. The zero time
// means that the breaker is closed.
func (b *Breakers) OpenSince(endpoint string) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, ok := b.byEndpoint.Peek(endpoint)
	if !ok || x.openFor == 0 {
		return time.Time{}
	}
	return x.openSince
}

func spread(d time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(d) + 1)) }

// Report reports the result of an allowed call that says something about the endpoint. healthy
// means that the endpoint works, whatever it answered to this call (see callback.Telling,
// callback.Unwell). An open breaker ignores all calls but its probes, because they were sent before
// it opened.
func (b *Breakers) Report(endpoint string, probe Probe, healthy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, ok := b.byEndpoint.Get(endpoint)
	now := time.Now()
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
			return // the other probes of the round may succeed
		}
		x.openFor = min(2*x.openFor, b.opts.MaxOpen)
	case x.failures >= b.opts.Failures && now.Sub(x.firstFailure) >= b.opts.MinFailing:
		x.openFor = b.opts.Open
	default:
		return // still closed
	}
	x.probe = 0
	x.openUntil, x.openSince = now.Add(x.openFor), b.opts.Now()
	b.opened.Inc()
}

// Cancel reports that an allowed call was not made, or that its result says nothing about the
// endpoint. A cancelled probe may be replaced by another.
func (b *Breakers) Cancel(endpoint string, probe Probe) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x, ok := b.byEndpoint.Get(endpoint); ok && probe != 0 && x.probe == probe {
		x.probesSent--
	}
}
