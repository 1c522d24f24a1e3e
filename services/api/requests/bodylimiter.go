package requests

import (
	"bytes"
	"container/list"
	"context"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/services/api/problem"
)

// BodyLimiter limits concurrent body reads of callers without a key. It never refuses a new body:
// at a limit, per address or in total, it aborts the oldest read. A caller that sends its body at
// once is therefore served, however many others send theirs slowly.
type BodyLimiter struct {
	perAddress, total int
	timeout           time.Duration // of one read
	requestTimeout    time.Duration // of the request after its body is read

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

// shareOfAddress is the part of all body reads that one address may have: 1/8.
const shareOfAddress = 8

// NewBodyLimiter limits body reads to total at once, and to an eighth of it per address. A read has
// timeout, and a request requestTimeout after it.
func NewBodyLimiter(total int, timeout, requestTimeout time.Duration) *BodyLimiter {
	return &BodyLimiter{
		timeout:        min(timeout, openBodyReadTimeout),
		requestTimeout: requestTimeout,
		perAddress:     max(total/shareOfAddress, 1),
		total:          total,
		oldestFirst:    list.New(),
		byAddress:      make(map[netip.Addr]*list.List),
	}
}

// begin registers a body read, and aborts the oldest one at a limit. Call end when the body is
// read.
func (b *BodyLimiter) begin(a netip.Addr, deadline func(time.Time) error) *bodyRead {
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
func (b *BodyLimiter) end(in *bodyRead) {
	b.mu.Lock()
	b.remove(in)
	b.mu.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.done = true
	_ = in.deadline(time.Time{})
}

// remove takes a body read out of both lists. Removing it twice does nothing.
func (b *BodyLimiter) remove(x *bodyRead) {
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

// ReadFirst reads the whole body before any other work for a request.
func (b *BodyLimiter) ReadFirst(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := b.begin(ClientAddress(r.Context()), http.NewResponseController(w).SetReadDeadline)
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, OpenBodyBytes))
		b.end(in)
		if err != nil {
			problem.Refuse(w, r, problem.BodyFault(err, OpenBodyBytes))
			return
		}
		// An abort just after the last byte looks like a client that disconnected. The request
		// continues, so its context is detached.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), b.requestTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = io.NopCloser(bytes.NewReader(text))
		next.ServeHTTP(w, r)
	})
}
