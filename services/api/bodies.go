package api

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"
)

// bodies are those that are read of callers without a key. A new one is never refused: where there
// are too many, of its address or in all, the one that came first is cut off. Who sends a body at
// once is therefore served, however many send theirs slowly.
type bodies struct {
	perAddress, total int
	timeout           time.Duration // of one

	mu        sync.Mutex
	all       *list.List // of *body, the oldest first
	byAddress map[netip.Addr]*list.List
}

// body is one that is being read.
type body struct {
	address  netip.Addr
	inAll    *list.Element
	inOwn    *list.Element
	deadline func(time.Time) error

	mu   sync.Mutex
	read bool // deadlines are no longer set
}

func newBodies(perAddress, total int, timeout time.Duration) *bodies {
	return &bodies{
		timeout:    min(timeout, openBodyReadTimeout),
		perAddress: perAddress,
		total:      total,
		all:        list.New(),
		byAddress:  make(map[netip.Addr]*list.List),
	}
}

// enter begins to read a body, and cuts off another where there are too many. Call leave when it is
// read.
func (b *bodies) enter(a netip.Addr, deadline func(time.Time) error) *body {
	in := &body{address: a, deadline: deadline}
	_ = deadline(time.Now().Add(b.timeout))
	b.mu.Lock()
	var out *body
	own := b.byAddress[a]
	switch {
	case own != nil && own.Len() >= b.perAddress:
		out, _ = own.Front().Value.(*body)
	case b.all.Len() >= b.total:
		out, _ = b.all.Front().Value.(*body)
	}
	if out != nil {
		b.remove(out)
	}
	if own = b.byAddress[a]; own == nil {
		own = list.New()
		b.byAddress[a] = own
	}
	in.inAll, in.inOwn = b.all.PushBack(in), own.PushBack(in)
	b.mu.Unlock()
	if out != nil {
		out.cut()
	}
	return in
}

// leave ends what enter began. It may have been cut off meanwhile, which no longer counts.
func (b *bodies) leave(in *body) {
	b.mu.Lock()
	b.remove(in)
	b.mu.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.read = true
	_ = in.deadline(time.Time{})
}

// remove takes a body out of both lists, once.
func (b *bodies) remove(x *body) {
	if x.inAll == nil {
		return
	}
	own := b.byAddress[x.address]
	b.all.Remove(x.inAll)
	own.Remove(x.inOwn)
	if own.Len() == 0 {
		delete(b.byAddress, x.address)
	}
	x.inAll, x.inOwn = nil, nil
}

// cut ends the reading of a body, unless it was just read: its request goes on.
func (x *body) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.read {
		_ = x.deadline(time.Unix(1, 0))
	}
}

// bodyFirst reads the whole body before anything else is done for a request.
func (s *Service) bodyFirst(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := s.bodies.enter(addressOf(r.Context()), http.NewResponseController(w).SetReadDeadline)
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, openBodyBytes))
		s.bodies.leave(in)
		if err != nil {
			refuse(w, r, badBody(err, openBodyBytes))
			return
		}
		// One that was cut off just when it had all come looks like one whose caller is gone: the
		// request goes on without asking.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.opts.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = io.NopCloser(bytes.NewReader(text))
		next.ServeHTTP(w, r)
	})
}

// badBody says what is wrong with a body that could not be read.
func badBody(err error, most int) fault {
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return fault{
			status: http.StatusRequestEntityTooLarge,
			msg:    fmt.Sprintf("the body is longer than %d bytes", most),
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault{
			status: http.StatusRequestTimeout,
			msg:    "the body did not come in time: send it at once",
		}
	}
	return fault{status: http.StatusBadRequest, msg: "the body could not be read to its end"}
}
