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
	Lasting time.Duration
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
	o      BreakerOptions
	opened prometheus.Counter

	mu     sync.Mutex
	kept   *lru.Cache[string, *breaker]
	rounds Probe // begun
}

type breaker struct {
	failures int           // in a row
	since    time.Time     // the first of them
	open     time.Duration // how long it was opened for; 0: it is closed
	until    time.Time     // open: no call before
	probe    Probe         // open: the round of probes that is under way; zero: none is
	sent     int           // probes of the round that were let through
	failed   int           // of them
	probed   time.Time     // when the last was let through
}

// NewBreakers returns breakers, all closed.
func NewBreakers(o BreakerOptions) (*Breakers, error) {
	if o.Failures < 0 || o.Lasting < 0 || o.Open < 0 || o.MaxOpen < 0 || o.Probes < 0 ||
		o.Probe < 0 ||
		o.Endpoints < 0 {
		return nil, errors.New("options of the breakers: nothing must be negative")
	}
	o.setDefaults()
	b := &Breakers{o: o, opened: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "carillon_breaker_opened_total",
		Help: "How often the breaker of an endpoint opened, or stayed open after a round of probes.",
	})}
	if o.Registerer != nil {
		o.Registerer.MustRegister(b.opened)
	}
	var err error
	if b.kept, err = lru.New[string, *breaker](o.Endpoints); err != nil {
		return nil, fmt.Errorf("making the cache of breakers: %w", err)
	}
	return b, nil
}

func (o *BreakerOptions) setDefaults() {
	if o.Failures == 0 {
		o.Failures, o.Lasting = 10, max(o.Lasting, time.Second)
	}
	if o.Open == 0 {
		o.Open = 5 * time.Second
	}
	if o.MaxOpen == 0 {
		o.MaxOpen = time.Minute
	}
	if o.Probes == 0 {
		o.Probes = 3
	}
	if o.Probe == 0 {
		o.Probe = 5 * time.Minute
	}
	if o.Endpoints == 0 {
		o.Endpoints = 10_000
	}
	if o.Now == nil {
		o.Now = time.Now
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
	x, ok := b.kept.Get(endpoint)
	if !ok || x.open == 0 {
		return Decision{OK: true}, 0
	}
	now := b.o.Now()
	if now.Before(x.until) {
		return Decision{At: x.until.Add(spread(x.open / 2))}, 0
	}
	if x.probe == 0 || now.Sub(x.probed) > b.o.Probe {
		b.rounds++
		x.probe, x.sent, x.failed = b.rounds, 0, 0
	}
	if x.sent < b.o.Probes {
		x.sent++
		x.probed = now
		return Decision{OK: true}, x.probe
	}
	return Decision{At: now.Add(b.o.Open/5 + spread(b.o.Open))}, 0
}

// Failed returns when the call failed for which the breaker of an endpoint is open, and how much
// later than it would have let a call through those come back at most who were told to wait. The
// zero time: it is closed.
func (b *Breakers) Failed(endpoint string) (at time.Time, spread time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, ok := b.kept.Peek(endpoint)
	if !ok || x.open == 0 {
		return time.Time{}, 0
	}
	return x.until.Add(-x.open), x.open / 2 //nolint:mnd // see Allow
}

func spread(d time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(d) + 1)) }

// Report says how a call went that was allowed, and told something of the endpoint. well means that
// the endpoint works, whatever it answered to this call (see callback.Telling, callback.Unwell). An
// open breaker hears its probes only: every other call was sent before it opened, and says nothing
// of now.
func (b *Breakers) Report(endpoint string, probe Probe, well bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, ok := b.kept.Get(endpoint)
	now := b.o.Now()
	switch {
	case well && !ok, ok && x.open > 0 && (probe == 0 || probe != x.probe):
		return
	case well:
		b.kept.Remove(endpoint)
		return
	case !ok:
		x = &breaker{since: now}
		b.kept.Add(endpoint, x)
	}
	x.failures++
	switch {
	case x.open > 0:
		if x.failed++; x.failed < b.o.Probes {
			return // the others of the round may know better
		}
		x.open = min(2*x.open, b.o.MaxOpen)
	case x.failures >= b.o.Failures && now.Sub(x.since) >= b.o.Lasting:
		x.open = b.o.Open
	default:
		return // closed still
	}
	x.probe = 0
	x.until = now.Add(x.open)
	b.opened.Inc()
}

// Cancel says that an allowed call was not made, or told nothing of the endpoint: of a probe, that
// another may be let through.
func (b *Breakers) Cancel(endpoint string, probe Probe) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x, ok := b.kept.Get(endpoint); ok && probe != 0 && x.probe == probe {
		x.sent--
	}
}
