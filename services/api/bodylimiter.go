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

// bodyLimiter limits concurrent body reads of callers without a key. It never refuses a new body:
// at a limit, per address or in total, it aborts the oldest read. A caller that sends its body at
// once is therefore served, however many others send theirs slowly.
type bodyLimiter struct {
	perAddress, total int
	timeout           time.Duration // of one read

	mu          sync.Mutex
	oldestFirst *list.List // of *bodyRead
	byAddress   map[netip.Addr]*list.List
}

// bodyRead is one body that is being read.
type bodyRead struct {
	address     netip.Addr
	elem        *list.Element
	addressElem *list.Element
	deadline    func(time.Time) error

	mu   sync.Mutex
	done bool // deadlines are no longer set
}

func newBodyLimiter(perAddress, total int, timeout time.Duration) *bodyLimiter {
	return &bodyLimiter{
		timeout:     min(timeout, openBodyReadTimeout),
		perAddress:  perAddress,
		total:       total,
		oldestFirst: list.New(),
		byAddress:   make(map[netip.Addr]*list.List),
	}
}

// begin registers a body read, and aborts the oldest one at a limit. Call end when the body is
// read.
func (b *bodyLimiter) begin(a netip.Addr, deadline func(time.Time) error) *bodyRead {
	in := &bodyRead{address: a, deadline: deadline}
	_ = deadline(time.Now().Add(b.timeout))
	b.mu.Lock()
	var evicted *bodyRead
	sameAddress := b.byAddress[a]
	switch {
	case sameAddress != nil && sameAddress.Len() >= b.perAddress:
		evicted, _ = sameAddress.Front().Value.(*bodyRead)
	case b.oldestFirst.Len() >= b.total:
		evicted, _ = b.oldestFirst.Front().Value.(*bodyRead)
	}
	if evicted != nil {
		b.remove(evicted)
	}
	if sameAddress = b.byAddress[a]; sameAddress == nil {
		sameAddress = list.New()
		b.byAddress[a] = sameAddress
	}
	in.elem, in.addressElem = b.oldestFirst.PushBack(in), sameAddress.PushBack(in)
	b.mu.Unlock()
	if evicted != nil {
		evicted.abort()
	}
	return in
}

// end ends what begin started. An abort that came in the meantime no longer counts.
func (b *bodyLimiter) end(in *bodyRead) {
	b.mu.Lock()
	b.remove(in)
	b.mu.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.done = true
	_ = in.deadline(time.Time{})
}

// remove takes a body read out of both lists. Removing it twice does nothing.
func (b *bodyLimiter) remove(x *bodyRead) {
	if x.elem == nil {
		return
	}
	sameAddress := b.byAddress[x.address]
	b.oldestFirst.Remove(x.elem)
	sameAddress.Remove(x.addressElem)
	if sameAddress.Len() == 0 {
		delete(b.byAddress, x.address)
	}
	x.elem, x.addressElem = nil, nil
}

// abort ends a body read, unless it has just finished: then its request continues.
func (x *bodyRead) abort() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.done {
		_ = x.deadline(time.Unix(1, 0))
	}
}

// readBodyFirst reads the whole body before any other work for a request.
func (s *Service) readBodyFirst(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := s.bodies.begin(
			clientAddress(r.Context()),
			http.NewResponseController(w).SetReadDeadline,
		)
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, openBodyBytes))
		s.bodies.end(in)
		if err != nil {
			refuse(w, r, bodyFault(err, openBodyBytes))
			return
		}
		// An abort just after the last byte looks like a client that disconnected. The request
		// continues, so its context is detached.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.opts.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = io.NopCloser(bytes.NewReader(text))
		next.ServeHTTP(w, r)
	})
}

// bodyFault returns the error for a body that could not be read.
func bodyFault(err error, most int) fault {
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
