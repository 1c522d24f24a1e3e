package receiver

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	maxConns        = 1 << 16  // concurrent callbacks
	maxHead         = 32 << 10 // bytes of a request's line and headers: more than a timer may have
	maxUnrecognized = 100      // unrecognized requests that are kept
	stopTimeout     = time.Second
)

// Receiver records the calls of timers. It is safe for concurrent use.
type Receiver struct {
	server *fasthttp.Server
	ln     net.Listener
	addr   string // host:port of ln
	served chan error
	stop   chan struct{} // closed by Close, which releases held answers
	seed   maphash.Seed
	record record

	mu           sync.RWMutex
	paths        map[string]*path
	unrecognized []Request
}

// Start listens on addr ("127.0.0.1:0" picks a port) and serves until Close.
func Start(ctx context.Context, addr string) (*Receiver, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening for callbacks: %w", err)
	}
	r := &Receiver{
		ln: ln, addr: ln.Addr().String(), served: make(chan error, 1), stop: make(chan struct{}),
		seed: maphash.MakeSeed(), paths: make(map[string]*path),
	}
	r.server = &fasthttp.Server{
		Handler:               r.handle,
		Name:                  "receiver",
		Concurrency:           maxConns,
		ReadBufferSize:        maxHead,
		LogAllErrors:          false,
		NoDefaultServerHeader: true,
		NoDefaultDate:         true,
		NoDefaultContentType:  true,
		CloseOnShutdown:       true,
		Logger:                noLogger{},
	}
	go func() { r.served <- r.server.Serve(ln) }()
	return r, nil
}

// Close answers held requests and stops. It waits at most a second for connections.
func (r *Receiver) Close() error {
	close(r.stop)
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := r.server.ShutdownWithContext(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("stopping the receiver: %w", err)
	}
	_ = r.ln.Close() // if Serve begins only now, it returns at once
	if err := <-r.served; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("receiving callbacks: %w", err)
	}
	return nil
}

// Addr returns host:port.
func (r *Receiver) Addr() string { return r.addr }

// URL returns the URL of a path, which begins with "/".
func (r *Receiver) URL(path string) string { return "http://" + r.Addr() + path }

// Script sets the answers of a path from now on and returns its URL. It releases answers that an
// earlier script holds.
func (r *Receiver) Script(path string, s Script) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.paths[path]; old != nil {
		close(old.replaced)
	}
	r.paths[path] = newPath(s)
	return r.URL(path)
}

// Count returns the number of callbacks.
func (r *Receiver) Count() int64 { return r.record.total.Load() }

// Arrivals returns a copy of all arrivals, sorted.
func (r *Receiver) Arrivals() Arrivals {
	as := r.record.all()
	as.Sort()
	return as
}

// Of returns a copy of the timers' arrivals, sorted. For more than a few timers call Arrivals once.
func (r *Receiver) Of(ids ...timer.ID) Arrivals {
	var as Arrivals
	for _, id := range ids {
		as = append(as, r.record.of(id)...)
	}
	as.Sort()
	return as
}

// Requests returns the kept requests of a path.
func (r *Receiver) Requests(path string) []Request {
	r.mu.RLock()
	p := r.paths[path]
	r.mu.RUnlock()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Request(nil), p.kept...)
}

// Unrecognized returns the first hundred requests without a fire id. Carillon sends no such
// request.
func (r *Receiver) Unrecognized() []Request {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return append([]Request(nil), r.unrecognized...)
}

// Reset deletes all arrivals. Scripts stay.
func (r *Receiver) Reset() { r.record.reset() }

func (r *Receiver) handle(c *fasthttp.RequestCtx) {
	now := time.Now()
	h := &c.Request.Header
	fire, ok := parseFire(h.Peek("Carillon-Fire-Id"))
	if !ok {
		r.keepUnrecognized(c, now)
		c.SetStatusCode(http.StatusBadRequest)
		return
	}
	a := Arrival{
		Fire: fire, ArrivedNS: now.UnixNano(), Attempt: parseAttempt(h.Peek("Carillon-Attempt")),
		StartNS: parseInstant(string(h.Peek("Carillon-Start"))),
		Proxied: string(c.Host()) != r.Addr(),
	}
	if from, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		a.Port = uint16(from.Port) //nolint:gosec // a port
	}
	if body := c.Request.Body(); len(body) > 0 {
		a.BodyHash = maphash.Bytes(r.seed, body)
	}
	r.mu.RLock()
	p := r.paths[string(c.Path())]
	r.mu.RUnlock()
	if p == nil {
		a.Status, a.DoneNS = http.StatusOK, a.ArrivedNS
		r.record.add(a)
		return
	}
	r.respond(c, p, a)
}

// respond answers by the script. It records the arrival before any delay, because the call counts
// even if the caller dies meanwhile.
func (r *Receiver) respond(c *fasthttp.RequestCtx, p *path, a Arrival) {
	if p.script.Keep {
		kept := request(c, a.Arrived())
		kept.Fire = a.Fire
		p.mu.Lock()
		p.kept = append(p.kept, kept)
		p.mu.Unlock()
	}
	at := r.record.add(a)
	status := p.status(a.Fire)
	r.wait(p)
	c.SetStatusCode(status)
	for name, value := range p.script.Header {
		c.Response.Header.Set(name, value)
	}
	c.SetBodyString(p.script.Body)
	r.record.answered(at, uint16(status), time.Now().UnixNano()) //nolint:gosec // an HTTP status
}

func (r *Receiver) wait(p *path) {
	var after <-chan time.Time // nil: for ever
	switch {
	case p.script.Hang:
	case p.script.Delay > 0:
		t := time.NewTimer(p.script.Delay)
		defer t.Stop()
		after = t.C
	default:
		return
	}
	select {
	case <-after:
	case <-p.replaced:
	case <-r.stop:
	}
}

func (r *Receiver) keepUnrecognized(c *fasthttp.RequestCtx, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unrecognized) < maxUnrecognized {
		r.unrecognized = append(r.unrecognized, request(c, now))
	}
}

func request(c *fasthttp.RequestCtx, now time.Time) Request {
	q := Request{
		Method: string(c.Method()), URI: string(c.RequestURI()), Header: make(http.Header),
		Body: append([]byte(nil), c.Request.Body()...), Arrived: now,
	}
	for k, v := range c.Request.Header.All() {
		q.Header.Add(string(k), string(v))
	}
	return q
}

// BodyHash returns the value of Arrival.BodyHash for a body.
func (r *Receiver) BodyHash(body []byte) uint64 {
	if len(body) == 0 {
		return 0
	}
	return maphash.Bytes(r.seed, body)
}

// noLogger drops fasthttp's log, because callers killed by tests break connections.
type noLogger struct{}

func (noLogger) Printf(string, ...any) {}
