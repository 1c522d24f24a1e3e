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

// bodyLimiter are those that are read of callers without a key. A new one is never refused: where there
// are too many, of its address or in all, the one that came first is cut off. Who sends a body at
// once is therefore served, however many send theirs slowly.
type bodyLimiter struct {
	perAddress, total int
	timeout           time.Duration // of one

	mu          sync.Mutex
	oldestFirst *list.List // of *body, the oldest first
	byAddress   map[netip.Addr]*list.List
}

// bodyRead is one that is being read.
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

// begin begins to read a body, and cuts off another where there are too many. Call leave when it is
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

// end ends what enter began. It may have been cut off meanwhile, which no longer counts.
func (b *bodyLimiter) end(in *bodyRead) {
	b.mu.Lock()
	b.remove(in)
	b.mu.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.done = true
	_ = in.deadline(time.Time{})
}

// remove takes a body out of both lists, once.
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

// abort ends the reading of a body, unless it was just read: its request goes on.
func (x *bodyRead) abort() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.done {
		_ = x.deadline(time.Unix(1, 0))
	}
}

// readBodyFirst reads the whole body before anything else is done for a request.
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
		// One that was cut off just when it had all come looks like one whose caller is gone: the
		// request goes on without asking.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.opts.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = io.NopCloser(bytes.NewReader(text))
		next.ServeHTTP(w, r)
	})
}

// bodyFault says what is wrong with a body that could not be read.
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
