package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	receiverConns = 1 << 16 // concurrent calls
	receiverHead  = 32 << 10
	shards        = 16 // arrivals are kept in so many lists, so that calls seldom wait for a lock
	stopTimeout   = time.Second
)

// Arrival is a call that came. Its lateness has no jitter, because the timers of a bench have none.
type Arrival struct {
	Timer     timer.ID
	DueMS     int64
	StartMS   int64 // by the executor's clock
	ArrivedUS int64 // by the receiver's clock
}

// Source is where arrivals come from.
type Source interface {
	// URL is what the timers call.
	URL() string
	// Reset forgets all arrivals.
	Reset(ctx context.Context) error
	// Count returns how many there are since.
	Count(ctx context.Context) (int64, error)
	// Arrivals returns them, in no order.
	Arrivals(ctx context.Context) ([]Arrival, error)
}

// Receiver is the endpoint that the timers call, on this machine. It uses fasthttp, because it
// often shares its processors with what it measures, and a handler of net/http costs twice as much.
type Receiver struct {
	url    string
	server *fasthttp.Server
	served chan error
	count  atomic.Int64
	lists  [shards]arrivalList
}

type arrivalList struct {
	mu  sync.Mutex
	all []Arrival
}

// StartReceiver listens on addr. The timers call address, or addr where it is empty.
func StartReceiver(ctx context.Context, addr, address string) (*Receiver, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening for calls: %w", err)
	}
	r := &Receiver{url: address, served: make(chan error, 1)}
	if r.url == "" {
		r.url = "http://" + ln.Addr().String() + "/call"
	}
	r.server = &fasthttp.Server{
		Handler:               r.handle,
		Concurrency:           receiverConns,
		ReadBufferSize:        receiverHead,
		NoDefaultServerHeader: true,
		NoDefaultDate:         true,
		NoDefaultContentType:  true,
		CloseOnShutdown:       true,
		Logger:                silent{},
	}
	go func() { r.served <- r.server.Serve(ln) }()
	return r, nil
}

// Close stops listening. It waits at most a second for connections.
func (r *Receiver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := r.server.ShutdownWithContext(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("stopping the receiver: %w", err)
	}
	if err := <-r.served; err != nil {
		return fmt.Errorf("receiving calls: %w", err)
	}
	return nil
}

// Wait returns when ctx ends or the receiver fails.
func (r *Receiver) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.served:
		r.served <- err
		return err
	}
}

// URL implements Source.
func (r *Receiver) URL() string { return r.url }

// Reset implements Source.
func (r *Receiver) Reset(context.Context) error {
	for i := range r.lists {
		l := &r.lists[i]
		l.mu.Lock()
		l.all = nil
		l.mu.Unlock()
	}
	r.count.Store(0)
	return nil
}

// Count implements Source.
func (r *Receiver) Count(context.Context) (int64, error) { return r.count.Load(), nil }

// Arrivals implements Source.
func (r *Receiver) Arrivals(context.Context) ([]Arrival, error) {
	all := make([]Arrival, 0, r.count.Load())
	for i := range r.lists {
		l := &r.lists[i]
		l.mu.Lock()
		all = append(all, l.all...)
		l.mu.Unlock()
	}
	return all, nil
}

// Paths of the receiver that another machine uses, see remote.go.
const (
	countPath    = "/bench/count"
	resetPath    = "/bench/reset"
	arrivalsPath = "/bench/arrivals"
	barePath     = "/bench/bare" // answers at once, for the ceiling
)

func (r *Receiver) handle(c *fasthttp.RequestCtx) {
	fire := c.Request.Header.Peek(callback.HeaderFireID)
	if len(fire) > 0 {
		r.call(c, fire)
		return
	}
	switch string(c.Path()) {
	case barePath:
	case countPath:
		c.SetBodyString(strconv.FormatInt(r.count.Load(), 10))
	case resetPath:
		_ = r.Reset(c)
	case arrivalsPath:
		all, _ := r.Arrivals(c)
		c.SetBodyStreamWriter(func(w *bufio.Writer) { _ = writeArrivals(w, all) })
	default:
		c.SetStatusCode(fasthttp.StatusNotFound)
	}
}

func (r *Receiver) call(c *fasthttp.RequestCtx, fire []byte) {
	now := time.Now()
	id, err := timer.ParseFireID(string(fire))
	if err != nil {
		c.SetStatusCode(fasthttp.StatusBadRequest)
		return
	}
	a := Arrival{Timer: id.Timer, DueMS: id.DueMS, ArrivedUS: now.UnixMicro()}
	start := c.Request.Header.Peek(callback.HeaderStart)
	if at, err := time.Parse(time.RFC3339Nano, string(start)); err == nil {
		a.StartMS = at.UnixMilli()
	} else {
		a.StartMS = now.UnixMilli()
	}
	l := &r.lists[uint64(id.Timer)%shards] //nolint:gosec // ids are positive
	l.mu.Lock()
	l.all = append(l.all, a)
	l.mu.Unlock()
	r.count.Add(1)
}

// writeArrivals and readArrivals carry arrivals to another machine.
func writeArrivals(w io.Writer, all []Arrival) error {
	for len(all) > 0 {
		n := min(len(all), 1<<12) //nolint:mnd // a buffer of 128 KiB
		if err := binary.Write(w, binary.LittleEndian, all[:n]); err != nil {
			return fmt.Errorf("sending arrivals: %w", err)
		}
		all = all[n:]
	}
	return nil
}

func readArrivals(data []byte) ([]Arrival, error) {
	all := make([]Arrival, len(data)/binary.Size(Arrival{}))
	err := binary.Read(bytes.NewReader(data), binary.LittleEndian, all)
	if err != nil {
		return nil, fmt.Errorf("reading arrivals: %w", err)
	}
	return all, nil
}

// silent drops fasthttp's log: callers break connections when they stop.
type silent struct{}

func (silent) Printf(string, ...any) {}
